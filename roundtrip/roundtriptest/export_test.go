package roundtriptest

import (
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/attack"
)

// RunAttack runs attacks and returns the findings of the last, for faulty subjects, and for
// bubbles, which have no subtests.
func RunAttack(t testing.TB, subject Subject, flow Flow,
	names ...string) (problems []error, cannot string) {
	victim, err := attack.NewVictim(subject.forJudge(t), flow.forJudge())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		problems, cannot = victim.Attack(subject.forJudge(t), name)
	}
	return problems, cannot
}

// CheckNever returns Run's error about the effects in Never.
func CheckNever(subject Subject, flows ...Flow) error { return checkNever(subject, flows) }

// AttackNames are the names of all attacks on servers without a page.
func AttackNames() []string { return new(attack.Target).AttackNames() }

// FindProblems returns Run's findings for a flow.
func FindProblems(t testing.TB, subject Subject, flow Flow) []error {
	target, judged := subject.forJudge(t), flow.forJudge()
	modern, err := target.PlayModern(judged)
	if err != nil {
		return []error{err}
	}
	problems := modern.CheckResult(judged)
	legacy, err := target.PlayLegacy(judged, modern)
	if err != nil {
		return append(problems, err)
	}
	return append(append(problems, legacy.CheckResult(judged)...),
		target.Compare(judged, legacy, modern)...)
}

// FindTaskProblems returns Run's findings for a flow played as a task.
func FindTaskProblems(t testing.TB, subject Subject, flow Flow) (problems []error) {
	target, judged := subject.forJudge(t), flow.forJudge()
	modern, err := target.PlayModern(judged)
	if err != nil {
		t.Fatal(err)
	}
	playTasks(target, judged, modern, func(_ int, problem error) {
		problems = append(problems, problem)
	})
	return problems
}

// CheckFlow reports why Attack refuses a flow.
func CheckFlow(t testing.TB, subject Subject, flow Flow) error {
	_, err := attack.NewVictim(subject.forJudge(t), flow.forJudge())
	return err
}
