package roundtriptest

import (
	"bytes"
	"os"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/attack"
	"github.com/rondo-mcp/rondo/protocol"
)

// Run plays each flow in every era that the subject serves, in subtests, and expects the
// same questions and results in all. Questions are matched by key and order; what is fresh in
// each flow, such as a nonce in a URL, may differ.
//
// With Subject.Effects it logs what replay costs: what leaves the handler in each round.
func Run(t *testing.T, subject Subject, flows ...Flow) {
	t.Helper()
	for _, flow := range flows {
		t.Run(flow.Name, func(t *testing.T) { runFlow(t, subject, flow) })
	}
}

// runFlow plays one flow. The modern era comes first: questions have keys in it alone.
func runFlow(t *testing.T, subject Subject, flow Flow) {
	target, judged := subject.forJudge(t), flow.forJudge()
	modern, err := target.PlayModern(judged)
	if err != nil {
		t.Fatal(err)
	}
	if cost := target.Effects.Cost(); cost != "" {
		t.Log(cost)
	}
	if subject.servesEra(protocol.Modern) {
		t.Run("modern", func(t *testing.T) { reportProblems(t, modern.CheckResult(judged)) })
	}
	if subject.servesEra(protocol.Legacy) {
		t.Run("legacy", func(t *testing.T) {
			target := subject.forJudge(t)
			legacy, err := target.PlayLegacy(judged, modern)
			if err != nil {
				t.Fatal(err)
			}
			reportProblems(t, append(legacy.CheckResult(judged),
				target.CompareEras(judged, legacy, modern)...))
		})
	}
	if flow.Golden != "" {
		compareGolden(t, flow.Golden, modern.Transcript())
	}
}

// Attack plays the flow up to the leg that would complete it, in revision 2026-07-28, and
// sends that leg as an attacker would who sees everything that the client sees. Each
// attack is a subtest with a flow of its own. No attack may complete the flow, or cause
// an effect that the flow has when it completes.
//
// The flow must complete, and accept an answer in its last round. Attacks that need a
// field of the subject which is not set are skipped, and name the field.
func Attack(t *testing.T, subject Subject, flow Flow) {
	t.Helper()
	victim, err := attack.NewVictim(subject.forJudge(t), flow.forJudge())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range attack.Names() {
		t.Run(name, func(t *testing.T) {
			problems, skipped := victim.Attack(subject.forJudge(t), name)
			if skipped != "" {
				t.Skip("roundtriptest: " + skipped)
			}
			reportProblems(t, problems)
		})
	}
}

func reportProblems(t *testing.T, problems []error) {
	t.Helper()
	for _, problem := range problems {
		t.Error(problem)
	}
}

// compareGolden compares a transcript with a file, or writes it.
func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("ROUNDTRIPTEST_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; set ROUNDTRIPTEST_UPDATE to write it", err)
	}
	if !bytes.Equal(want, []byte(got)) {
		t.Errorf("%s differs; set ROUNDTRIPTEST_UPDATE to write it\ngot:\n%s\nwant:\n%s", file, got,
			want)
	}
}
