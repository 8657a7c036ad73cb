package testkit

import (
	"errors"
	"strings"
	"testing"
)

// WantEqual checks that got equals want, and has its type.
func WantEqual(t testing.TB, what string, got, want any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// WantIs checks that err is, or wraps, want.
func WantIs(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

// WantPart checks that got contains part.
func WantPart(t testing.TB, what, got, part string) {
	t.Helper()
	if !strings.Contains(got, part) {
		t.Errorf("%s: got %q, want %q in it", what, got, part)
	}
}

// WantNoPart checks that got does not contain part.
func WantNoPart(t testing.TB, what, got, part string) {
	t.Helper()
	if strings.Contains(got, part) {
		t.Errorf("%s: %q is in %q", what, part, got)
	}
}
