package roundtriptest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/attack"
	"github.com/rondo-mcp/rondo/protocol"
)

// Run plays each flow in every era that the subject serves, in subtests, and expects the same
// questions and results in all. With Subject.Tasks it also plays those as tasks that become one:
// once as they are, and then again and again, with a process that is killed after the first write
// to the store, the second, and so on, and another that goes on; and once with every process killed
// that runs the task, until it is over or stopped. Questions are matched by key and order; what is
// fresh in each flow, such as a nonce in a URL, may differ.
//
// With Subject.Browser it also plays those of forms with a client that shows links only, and with
// one that shows nothing: the person answers on the page.
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
	if errors.Is(err, attack.ErrMustBeTask) && subject.Tasks != nil {
		modern, _, err = target.PlayTask(judged, nil, 0)
	}
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
				target.Compare(judged, legacy, modern)...))
		})
	}
	if subject.servesEra(protocol.Modern) && subject.Tasks != nil {
		t.Run("task", func(t *testing.T) { runTask(t, subject, judged, modern) })
	}
	for _, way := range []string{"link", "text"} {
		if subject.Browser == nil || !subject.servesEra(protocol.Modern) || !modern.CanUsePage() {
			break
		}
		t.Run(way, func(t *testing.T) {
			played, err := subject.forJudge(t).PlayPage(judged, modern, way == "link")
			if err != nil {
				t.Fatal(err)
			}
			reportProblems(t, played.CheckResult(judged))
		})
	}
	if flow.Golden != "" {
		compareGolden(t, flow.Golden, modern.Transcript())
	}
}

// maxKills is after how many writes a process is killed at the most.
const maxKills = 100

// runTask plays a flow as a task, and kills the process after each of its writes.
func runTask(t *testing.T, subject Subject, flow attack.Flow, modern *attack.Played) {
	if !playTasks(subject.forJudge(t), flow, modern, func(writes int, problem error) {
		when := "not killed"
		if writes > 0 {
			when = fmt.Sprintf("killed after write %d", writes)
		} else if writes == attack.EachRun {
			when = "killed in each run"
		}
		t.Errorf("as a task, %s: %v", when, problem)
	}) {
		t.Skip("roundtriptest: the flow begins no task")
	}
}

// playTasks plays a flow as a task until it is over before the process is to be killed. It reports
// whether the flow becomes one.
func playTasks(target *attack.Target, flow attack.Flow, modern *attack.Played,
	report func(writes int, problem error)) bool {
	for writes := attack.EachRun; writes < maxKills; writes++ {
		played, killed, err := target.PlayTask(flow, modern, writes)
		switch {
		case err != nil:
			report(writes, err)
			continue
		case writes <= 0 && !played.IsTask():
			return false
		case writes > 0 && !killed:
			return true
		case writes == attack.EachRun && played.WasStopped():
			continue
		}
		for _, problem := range append(played.CheckResult(flow),
			target.Compare(flow, played, modern)...) {
			report(writes, problem)
		}
	}
	return true
}

// Attack plays the flow up to the leg that would complete it, in revision 2026-07-28, and
// sends that leg as an attacker would who sees everything that the client sees. Each
// attack is a subtest with a flow of its own. No attack may complete the flow, or cause
// an effect that the flow has when it completes.
//
// The flow must complete, and not refuse everything in its last round. Attacks that need a
// field of the subject which is not set are skipped, and name the field.
func Attack(t *testing.T, subject Subject, flow Flow) {
	t.Helper()
	target := subject.forJudge(t)
	victim, err := attack.NewVictim(target, flow.forJudge())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range target.AttackNames() {
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
