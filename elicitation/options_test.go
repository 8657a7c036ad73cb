package elicitation_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
)

func TestOptionsAreChecked(t *testing.T) {
	for _, how := range []elicitation.Validation{3, -1} {
		if _, err := elicitation.New(&elicitation.Options{Validation: how}); err == nil {
			t.Errorf("validation %d is accepted", how)
		}
	}
}

// A negative number means no limit, or New refuses it.
func TestNegativeOptions(t *testing.T) {
	servertest.CheckNumberFields(t, map[string]bool{
		"Timeout": true, "SweepInterval": true, "MinHumanTime": false,
		"MaxPending": false, "MaxPerPrincipal": false,
	}, func(o *elicitation.Options) error {
		_, err := elicitation.New(o)
		return err
	})
}

func TestOptionsFromEnv(t *testing.T) {
	const timeout, most, sweep = "ELICITATION_TIMEOUT", "ELICITATION_MAX_CONCURRENT",
		"ELICITATION_CLEANUP_INTERVAL"
	limits := func(pending, each int) elicitation.Options {
		return elicitation.Options{MaxPending: pending, MaxPerPrincipal: each}
	}
	for _, test := range []struct {
		name string
		env  map[string]string
		want elicitation.Options
		bad  string
	}{
		{name: "nothing"},
		{name: "empty", env: map[string]string{timeout: "", most: "", sweep: ""}},
		{name: "durations", env: map[string]string{timeout: "2m30s", sweep: "300"},
			want: elicitation.Options{Timeout: 150 * time.Second, SweepInterval: 5 * time.Minute}},
		{name: "large number", env: map[string]string{most: "1000"}, want: limits(1000, 160)},
		{name: "less than the default", env: map[string]string{most: "60"},
			want: limits(60, 16)},
		{name: "less than all defaults", env: map[string]string{most: "3"}, want: limits(3, 3)},
		{name: "the largest number", env: map[string]string{most: "2147483647"},
			want: limits(2147483647, 343597383)},
		{name: "zero", env: map[string]string{most: "0"}, bad: most},
		{name: "words", env: map[string]string{most: "many"}, bad: most},
		{name: "no time", env: map[string]string{timeout: "0s"}, bad: timeout},
		{name: "time overflows", env: map[string]string{timeout: "9223372036854775807"},
			bad: timeout},
		{name: "time of no unit", env: map[string]string{sweep: "5 min"}, bad: sweep},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := elicitation.OptionsFromEnv(func(key string) (string, bool) {
				v, ok := test.env[key]
				if !ok {
					v = "7" // ignored, since ok is false
				}
				return v, ok
			})
			if test.bad != "" {
				if err == nil || !strings.Contains(err.Error(), test.bad) {
					t.Errorf("error is %v, want one that names %s", err, test.bad)
				}
				return
			}
			if err != nil || got.Timeout != test.want.Timeout ||
				got.SweepInterval != test.want.SweepInterval ||
				got.MaxPending != test.want.MaxPending ||
				got.MaxPerPrincipal != test.want.MaxPerPrincipal {
				t.Errorf("got %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}
