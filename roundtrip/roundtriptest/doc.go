// Package roundtriptest tests handlers that ask: it plays flows in both eras of the
// protocol, and attacks the state and the answers. The server may be built with rondo or
// another SDK: the package is a client of it.
//
//	func TestDeploy(t *testing.T) {
//		subject := roundtriptest.Server(newServer)
//		deploy := roundtriptest.Flow{
//			Name:    "accept",
//			Request: roundtriptest.Tool("deploy", map[string]string{"env": "prod"}),
//			Answers: roundtriptest.Answers{
//				"confirm": roundtriptest.Accept(map[string]string{"reason": "tested"}),
//			},
//			Want: "deployed to prod: tested",
//		}
//		roundtriptest.Run(t, subject, deploy)
//		roundtriptest.Attack(t, subject, deploy)
//	}
//
// [Run] plays a flow in revision 2026-07-28 and then in a session of revision 2025-11-25, and
// expects the same questions, answers and result in both. Only the first has keys of questions; in
// the second they are matched by their words, else by their order. If the words differ, the flow is
// played once more: what differs between the two times, such as a nonce in a URL, may differ
// between the eras.
//
// # Servers
//
// [Server] runs a server in the process of the test, [Handler] one of any SDK that is an
// http.Handler. Both print the reason of an internal error, which clients do not get. [Command] and
// [URL] test the server that is shipped, in any language. A command looks at one before there is a
// test:
//
//	go run github.com/rondo-mcp/rondo/roundtrip/roundtriptest/cmd/mcpattack -- ./server -stdio
//
// # Effects
//
// A handler that asks runs from its start in every round, and repeats what it does before it has
// all answers. [Effects] finds effects that must not be repeated. Requests over net/http are
// counted automatically:
//
//	effects := &roundtriptest.Effects{}
//	bank := &http.Client{Transport: effects.Transport(nil)}
//
// Mark other effects, such as statements to a database, where they happen:
//
//	effects.Mark("charge")
//	charge(in.Card)
//
// An effect that happens in two rounds of a flow fails the test. [Run] logs repeated reads by
// round: the cost of replay.
//
// # Links
//
// With Subject.Browser, a flow is also played with clients that show no forms: the kit opens the
// links to the page of the server and fills in its forms. [Attack] then forges tokens, opens links
// as another user, and uses answers twice or for other arguments. Make a server for each
// connection: one that has been attacked no longer asks this client.
//
// # Transcripts
//
// With Flow.Golden the questions, answers and result are compared with a file. Set
// ROUNDTRIPTEST_UPDATE in the environment to write it.
package roundtriptest
