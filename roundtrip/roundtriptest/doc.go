// Package roundtriptest tests handlers that ask: it plays flows in both eras of the protocol, and
// attacks the state and the answers. As a client, it tests servers of any SDK.
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
// [Run] plays a flow in revision 2026-07-28 and in a session of revision 2025-11-25, and expects
// the same questions, answers and result. Sessions have no question keys, so questions are matched
// by text, else by order. If texts differ, the flow is played again: parts that vary between these
// two runs, such as a nonce in a URL, may also vary between the eras.
//
// # Servers
//
// [Server] runs a server in the test's process, [Handler] an http.Handler of any SDK. Both print
// the reason of an internal error, which clients do not get. [Command] and [URL] test the shipped
// server, in any language. A command examines one without a test:
//
//	go run github.com/rondo-mcp/rondo/roundtrip/roundtriptest/cmd/mcpattack -- ./server -stdio
//
// # Effects
//
// A handler that asks reruns from its start in every round, and repeats what precedes the last
// answer. [Effects] finds effects that must not repeat. It counts net/http requests itself:
//
//	effects := &roundtriptest.Effects{}
//	bank := &http.Client{Transport: effects.Transport(nil)}
//
// Mark other effects, such as database statements, where they happen:
//
//	effects.Mark("charge")
//	charge(in.Card)
//
// An effect in two rounds of a flow fails the test. [Run] logs repeated reads: the cost of replay.
//
// # Links
//
// With Subject.Browser, flows are also played with clients that show no forms: the kit opens the
// links to the server's page and fills in its forms. [Attack] then forges tokens, opens links as
// another user, and reuses answers, even for other arguments. Make a server for each connection:
// after an attack it no longer asks the client.
//
// # Transcripts
//
// With Flow.Golden the questions, answers and result are compared with a file. Set
// ROUNDTRIPTEST_UPDATE in the environment to write it.
package roundtriptest
