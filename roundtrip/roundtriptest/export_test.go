package roundtriptest

import "testing"

// RunAttack is one attack, for tests of the package on subjects that deserve it, and in
// bubbles, where there are no subtests.
func RunAttack(t testing.TB, subject Subject, flow Flow,
	name string) (problems []error, cannot string) {
	honest, err := playModern(t, &subject, flow)
	if err != nil {
		t.Fatal(err)
	}
	v := &victim{subject: &subject, flow: flow, honest: honest}
	if err := v.checkFlow(); err != nil {
		t.Fatal(err)
	}
	for _, a := range attacks() {
		if a.name == name {
			if why := a.reasonToSkip(v); why != "" {
				return nil, why
			}
			return v.runAttack(t, a), ""
		}
	}
	t.Fatalf("there is no attack %q", name)
	return nil, ""
}

// AttackNames are the names of all attacks.
func AttackNames() (names []string) {
	for _, a := range attacks() {
		names = append(names, a.name)
	}
	return names
}

// FindProblems is what Run finds wrong with a flow.
func FindProblems(t testing.TB, subject Subject, flow Flow) []error {
	modern, err := playModern(t, &subject, flow)
	if err != nil {
		return []error{err}
	}
	problems := modern.checkResult(flow)
	legacy, err := subject.playLegacy(t, flow, modern)
	if err != nil {
		return append(problems, err)
	}
	return append(append(problems, legacy.checkResult(flow)...),
		legacy.compareWithModern(modern)...)
}

// CheckFlow reports why Attack refuses a flow.
func CheckFlow(t testing.TB, subject Subject, flow Flow) error {
	honest, err := playModern(t, &subject, flow)
	if err != nil {
		t.Fatal(err)
	}
	return (&victim{subject: &subject, flow: flow, honest: honest}).checkFlow()
}
