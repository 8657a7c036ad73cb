package natsguard_test

import (
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/natstest"
	"github.com/rondo-mcp/rondo/roundtrip/natsguard"
)

// TestNegativeOptions are refused, by guards and stores alike, where they mean
// nothing.
func TestNegativeOptions(t *testing.T) {
	js := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL())
	for name, opts := range map[string]natsguard.Options{
		"Timeout":    {Timeout: -1},
		"Replicas":   {Replicas: -1},
		"MaxBytes":   {MaxBytes: -1},
		"Longest":    {Longest: -1},
		"MaxOutcome": {MaxOutcome: -1},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := natsguard.New(t.Context(), js, &opts)
			if err == nil || !strings.Contains(err.Error(), "must not be negative") {
				t.Errorf("guard: %v", err)
			}
			_, err = natsguard.NewStateStore(t.Context(), js, &opts)
			if err == nil || !strings.Contains(err.Error(), "must not be negative") {
				t.Errorf("store: %v", err)
			}
		})
	}
}
