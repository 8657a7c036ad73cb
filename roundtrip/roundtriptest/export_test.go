package roundtriptest

import "testing"

// Suffer is one attack, for tests of the kit on subjects that deserve it, and in
// bubbles, where there are no subtests.
func Suffer(t testing.TB, subject Subject, flow Flow, name string) (problems []error, cannot string) {
	honest, err := learn(t, &subject, flow)
	if err != nil {
		t.Fatal(err)
	}
	v := &victim{subject: &subject, flow: flow, honest: honest}
	if err := v.fit(); err != nil {
		t.Fatal(err)
	}
	for _, a := range attacks() {
		if a.name == name {
			if why := a.cannot(v); why != "" {
				return nil, why
			}
			return v.suffer(t, a), ""
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

// Judge is what Run finds wrong with a flow.
func Judge(t testing.TB, subject Subject, flow Flow) []error {
	modern, err := learn(t, &subject, flow)
	if err != nil {
		return []error{err}
	}
	problems := modern.judge(flow)
	legacy, err := subject.legacy(t, flow, modern)
	if err != nil {
		return append(problems, err)
	}
	return append(append(problems, legacy.judge(flow)...), legacy.differs(modern)...)
}

// Fit reports why Attack refuses a flow.
func Fit(t testing.TB, subject Subject, flow Flow) error {
	honest, err := learn(t, &subject, flow)
	if err != nil {
		t.Fatal(err)
	}
	return (&victim{subject: &subject, flow: flow, honest: honest}).fit()
}
