package errtext_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/rondo-mcp/rondo/internal/errtext"
)

func TestPrefixStandsOnce(t *testing.T) {
	const p = errtext.Prefix("wire: ")
	closed := errors.New("wire: closed")
	for _, tc := range []struct {
		name string
		err  error
		want string
	}{
		{"error of the package", p.Errorf("call: %w", closed), "wire: call: closed"},
		{"two errors", p.Errorf("%w: %w", closed, p.Errorf("read: %w", context.Canceled)),
			"wire: closed: read: context canceled"},
		{"nested",
			p.Errorf("a: %w", p.Errorf("b: %w", p.Errorf("%w", closed))), "wire: a: b: closed"},
		{"error of another package",
			p.Errorf("call: %w", errors.New("other: wire: x")), "wire: call: other: wire: x"},
		{"text in quotes", p.Errorf("%d of %q", 1, "wire: x"), `wire: 1 of "wire: x"`},
		{"error of another package between",
			p.Errorf("call: %w", fmt.Errorf("x: %w", closed)), "wire: call: x: wire: closed"},
		{"text", errors.New(p.Text(closed)), "closed"},
		{"text of no error", errors.New(p.Text(nil)), "<nil>"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.err.Error(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestWrappedErrorsAreFound(t *testing.T) {
	const p = errtext.Prefix("wire: ")
	closed := errors.New("wire: closed")
	err := p.Errorf("%w: %w", closed, p.Errorf("read: %w", context.Canceled))
	for _, want := range []error{closed, context.Canceled} {
		if !errors.Is(err, want) {
			t.Errorf("%v is not found in %v", want, err)
		}
	}
}

func TestRepeated(t *testing.T) {
	for text, want := range map[string]string{
		"wire: closed": "", "wire: closed: wire: again": "wire", "wire: rewire: x": "",
		"other: wire: x": "", "rewire: x; wire: y: wire: z": "wire",
	} {
		if got := errtext.RepeatedPrefix(errors.New(text), "other", "wire"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := errtext.RepeatedPrefix(nil, "wire"); got != "" {
		t.Errorf("no error: got %q", got)
	}
}
