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
// [Run] plays a flow in revision 2026-07-28 and then in a session of revision 2025-11-25,
// and expects the same questions, answers and result in both. Questions have keys in the
// first only; in the second they are matched by their words, and by their order where the words
// differ. If they do, the flow is played once more: what differs from one time to the next, such
// as a nonce in a URL, may differ between the eras, and nothing else.
//
// # Servers
//
// [Server] runs a server in the process of the test, [Handler] one of any SDK that is an
// http.Handler. Both print the reason of an internal error, of which a client is told nothing.
// [Command] and [URL] test the server that is shipped, in whatever language it is written. For a
// first look at one, before there is a test, there is a command:
//
//	go run github.com/rondo-mcp/rondo/roundtrip/roundtriptest/cmd/mcpattack -- ./server -stdio
//
// # Effects
//
// Such a handler runs in every round, from its start, and repeats what it does before it
// has all answers. [Effects] finds what must not be repeated. Requests over net/http are counted by
// themselves:
//
//	effects := &roundtriptest.Effects{}
//	bank := &http.Client{Transport: effects.Transport(nil)}
//
// The rest, statements to a database too, is marked where it happens:
//
//	effects.Mark("charge")
//	charge(in.Card)
//
// An effect that happens in two rounds of a flow fails the test. What is merely read again is
// logged by [Run], round by round: that is what replay costs.
//
// # Transcripts
//
// With Flow.Golden the questions, answers and result are compared with a file. Set
// ROUNDTRIPTEST_UPDATE in the environment to write it.
package roundtriptest
