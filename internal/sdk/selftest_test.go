package sdk_test

import (
	"context"
	"errors"
	"testing"

	"github.com/rondo-mcp/rondo/internal/sdk"
)

func check(name string, err error) sdk.Check {
	return sdk.Check{Name: name, Run: func(context.Context) error { return err }}
}

func TestRunNamesTheFirstFailure(t *testing.T) {
	grey := errors.New("it is grey")
	err := sdk.Run([]sdk.Check{
		check("water is wet", nil),
		check("the sky is blue", grey),
		check("never reached", errors.New("")),
	})
	if !errors.Is(err, grey) || err.Error() != "the sky is blue: it is grey" {
		t.Errorf("got %v", err)
	}
}

func TestRunTurnsPanicsIntoErrors(t *testing.T) {
	broken := sdk.Check{Name: "it runs", Run: func(context.Context) error { panic("no") }}
	err := sdk.Run([]sdk.Check{broken})
	if err == nil || err.Error() != "it runs: panic: no" {
		t.Errorf("got %v", err)
	}
}

func TestRunBoundsItsChecks(t *testing.T) {
	bounded := sdk.Check{Name: "bounded", Run: func(ctx context.Context) error {
		if _, ok := ctx.Deadline(); !ok {
			return errors.New("no deadline")
		}
		return nil
	}}
	if err := sdk.Run([]sdk.Check{bounded}); err != nil {
		t.Error(err)
	}
}

func TestEqual(t *testing.T) {
	if err := sdk.Equal("a", "a"); err != nil {
		t.Errorf("equal texts: %v", err)
	}
	if err := sdk.Equal("a", "b"); err == nil || err.Error() != `got "a", want "b"` {
		t.Errorf("different texts: %v", err)
	}
}
