package roundtriptest

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/attack"
	"github.com/rondo-mcp/rondo/protocol"
)

// Run plays each flow in every era that the subject serves, in subtests, and expects the same
// questions and results. Questions are matched by key and order; parts that vary between flows,
// such as a nonce in a URL, may differ. With Subject.Tasks it also plays flows that become tasks:
// uninterrupted; then with the process killed after its first, second, ... write to the store, and
// another continuing; then with every process that runs the task killed, until it is over or
// stopped. With Subject.Browser it also plays flows of forms with a client that shows links only,
// and with one that shows nothing: the user answers on the page. With Subject.Effects it logs the
// effects of each round, the cost of replay. An effect in Never must have happened in another flow
// of this or an earlier call.
func Run(t *testing.T, subject Subject, flows ...Flow) {
	t.Helper()
	played := 0 // go test -run leaves some out
	for _, flow := range flows {
		t.Run(flow.Name, func(t *testing.T) { played++; runFlow(t, subject, flow) })
	}
	if played == len(flows) && !t.Failed() && subject.Effects != nil {
		if err := checkNever(subject, flows); err != nil {
			t.Error(err)
		}
	}
}

// checkNever wants each effect of Never to happen in another flow: a misspelt one never does.
func checkNever(subject Subject, flows []Flow) error {
	for _, flow := range flows {
		if err := subject.Effects.seen.CheckNever(flow.Never); err != nil {
			return fmt.Errorf("%s: %w", flow.Name, err)
		}
	}
	return nil
}

// runFlow plays one flow. The modern era comes first, because only its questions have keys.
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
	if target.ServesEra(protocol.Modern) {
		t.Run("modern", func(t *testing.T) { reportProblems(t, modern.CheckResult(judged)) })
	}
	if target.ServesEra(protocol.Legacy) {
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
	if target.ServesEra(protocol.Modern) && subject.Tasks != nil {
		t.Run("task", func(t *testing.T) { runTask(t, subject, judged, modern) })
	}
	for _, way := range []string{"link", "text"} {
		if subject.Browser == nil || !target.ServesEra(protocol.Modern) || !modern.CanUsePage() {
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

const maxKills = 100 // writes before a kill

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

// playTasks kills ever later until the flow ends first. It reports whether that was a task.
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

// Attack plays the flow, in revision 2026-07-28, up to the leg that would complete it, and sends
// that leg like an attacker who sees everything that the client sees. Each attack is a subtest with
// its own flow. No attack may complete the flow, or cause an effect of its completion.
//
// Before that it declines and cancels each form and link that the flow accepts, in both eras: the
// tool must not complete as after an accept, nor have its effects.
//
// The flow must complete, and its last round must not refuse everything. Attacks that need an unset
// field of the subject are skipped, and name the field.
func Attack(t *testing.T, subject Subject, flow Flow) {
	t.Helper()
	target := subject.forJudge(t)
	victim, err := attack.NewVictim(target, flow.forJudge())
	if err != nil {
		t.Fatal(err)
	}
	t.Run(strings.TrimSpace("attack "+flow.Name), func(t *testing.T) {
		for _, name := range target.AttackNames() {
			t.Run(name, func(t *testing.T) {
				problems, skipped := victim.Attack(subject.forJudge(t), name)
				if skipped != "" {
					t.Skip("roundtriptest: " + skipped)
				}
				reportProblems(t, problems)
			})
		}
	})
}

func reportProblems(t *testing.T, problems []error) {
	t.Helper()
	for _, problem := range problems {
		t.Error(problem)
	}
}

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
	if string(want) != got {
		t.Errorf("%s differs; set ROUNDTRIPTEST_UPDATE to write it\ngot:\n%s\nwant:\n%s", file, got,
			want)
	}
}
