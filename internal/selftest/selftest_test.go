package selftest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/rondo-mcp/rondo/internal/selftest"
)

func check(name string, err error) selftest.Check {
	return selftest.Check{Name: name, Run: func(context.Context) error { return err }}
}

func TestRunNamesTheFirstFailure(t *testing.T) {
	grey := errors.New("it is grey")
	err := selftest.Run([]selftest.Check{
		check("water is wet", nil),
		check("the sky is blue", grey),
		check("never reached", errors.New("")),
	})
	if !errors.Is(err, grey) || err.Error() != "the sky is blue: it is grey" {
		t.Errorf("got %v", err)
	}
}

func TestRunTurnsPanicsIntoErrors(t *testing.T) {
	broken := selftest.Check{Name: "it runs", Run: func(context.Context) error { panic("no") }}
	err := selftest.Run([]selftest.Check{broken})
	if err == nil || err.Error() != "it runs: panic: no" {
		t.Errorf("got %v", err)
	}
}

func TestRunBoundsItsChecks(t *testing.T) {
	bounded := selftest.Check{Name: "bounded", Run: func(ctx context.Context) error {
		if _, ok := ctx.Deadline(); !ok {
			return errors.New("no deadline")
		}
		return nil
	}}
	if err := selftest.Run([]selftest.Check{bounded}); err != nil {
		t.Error(err)
	}
}

func TestEqual(t *testing.T) {
	if err := selftest.Equal("a", "a"); err != nil {
		t.Errorf("equal texts: %v", err)
	}
	if err := selftest.Equal("a", "b"); err == nil || err.Error() != `got "a", want "b"` {
		t.Errorf("different texts: %v", err)
	}
}
