// Package roundtriptest tests handlers that ask: it plays flows in both eras of the
// protocol, and attacks the state and the answers. The server may be built with rondo or
// another SDK: the package is a client of it.
//
//	func TestDeploy(t *testing.T) {
//		subject := roundtriptest.Subject{Connect: roundtriptest.Lines(serve)}
//		deploy := roundtriptest.Flow{
//			Name:    "accept",
//			Request: roundtriptest.Tool("deploy", map[string]string{"env": "prod"}),
//			Answers: roundtriptest.Answers{"confirm": roundtriptest.Accept(map[string]string{"reason": "tested"})},
//			Want:    "deployed to prod: tested",
//		}
//		roundtriptest.Run(t, subject, deploy)
//		roundtriptest.Attack(t, subject, deploy)
//	}
//
// [Run] plays a flow in revision 2026-07-28 and then in a session of revision 2025-11-25,
// and expects the same questions, answers and result in both. Questions have keys in the
// first only; in the second they are matched by their texts.
//
// # Effects
//
// Such a handler runs in every round, from its start, and repeats what it does before it
// has all answers. Mark effects that must not be repeated with [Effects.Mark]; an effect
// that happens twice in a flow fails the test:
//
//	effects := &roundtriptest.Effects{}
//	...
//	effects.Mark("charge")
//	charge(in.Card)
//
// # Transcripts
//
// With Flow.Golden the questions, answers and result are compared with a file. Set
// ROUNDTRIPTEST_UPDATE in the environment to write it.
package roundtriptest
