// Package roundtriptest tests handlers that ask: each flow through both eras of
// the protocol, each attack on the state and the answers that it should
// withstand. The server may be built on anything, rondo or another SDK; the kit
// speaks to it as a client does.
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
// [Run] takes a flow through revision 2026-07-28 and then through a session of
// revision 2025-11-25, and wants the same questions, answers and result in both.
// Questions have keys in the first only; in the second the kit knows them by
// their words.
//
// # Effects
//
// A handler of this kind runs from its start in every round. What it does before
// it has all answers it does again. Mark what must not be with [Effects.Mark];
// an effect that is seen twice in a flow fails the test:
//
//	effects := &roundtriptest.Effects{}
//	...
//	effects.Mark("charge")
//	charge(in.Card)
//
// # Transcripts
//
// With Flow.Golden set, what is asked and answered is compared with a file. Set
// ROUNDTRIPTEST_UPDATE in the environment to write it.
package roundtriptest
