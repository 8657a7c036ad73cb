package elicitation_test

import (
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]elicitation.Options{
		"unknown Validation":    {Validation: 3},
		"negative Validation":   {Validation: -1},
		"maximum below default": {Timeout: time.Minute, MaxTimeout: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := elicitation.New(&o); err == nil {
				t.Errorf("%+v is accepted", o)
			}
		})
	}
	if _, err := elicitation.New(nil); err != nil {
		t.Errorf("no options: %v", err)
	}
}

// TestNegativeOptions: a negative number means that there is no limit or no heartbeat, or New
// refuses it.
func TestNegativeOptions(t *testing.T) {
	servertest.CheckNumberFields(t, map[string]bool{
		"Timeout": true, "MaxTimeout": true, "DeliveryTimeout": true, "SweepInterval": true,
		"RetryAfter": true, "Limits.SchemaBytes": true, "Limits.SchemaDepth": true,
		"Limits.ContentBytes": true, "Heartbeat": false, "MinHumanTime": false,
		"Limits.Pending": false, "Limits.PerPrincipal": false, "Limits.PerSession": false,
		"Limits.PerUpstream": false,
	}, func(o *elicitation.Options) error {
		_, err := elicitation.New(o)
		return err
	})
}

func TestOptionsFromEnv(t *testing.T) {
	for _, test := range []struct {
		name string
		env  map[string]string
		want elicitation.Options
		bad  string
	}{
		{"nothing", nil, elicitation.Options{}, ""},
		{"empty", map[string]string{"ELICITATION_TIMEOUT": "", "ELICITATION_MAX_CONCURRENT": "",
			"ELICITATION_CLEANUP_INTERVAL": ""}, elicitation.Options{}, ""},
		{"durations", map[string]string{"ELICITATION_TIMEOUT": "2m30s",
			"ELICITATION_CLEANUP_INTERVAL": "1h"},
			elicitation.Options{Timeout: 150 * time.Second, SweepInterval: time.Hour}, ""},
		{"seconds", map[string]string{"ELICITATION_TIMEOUT": "90",
			"ELICITATION_CLEANUP_INTERVAL": "300"},
			elicitation.Options{Timeout: 90 * time.Second, SweepInterval: 5 * time.Minute}, ""},
		{"number", map[string]string{"ELICITATION_MAX_CONCURRENT": "250"},
			elicitation.Options{Limits: elicitation.Limits{Pending: 250, PerPrincipal: 40,
				PerSession:  40,
				PerUpstream: 125}}, ""},
		{"large number", map[string]string{"ELICITATION_MAX_CONCURRENT": "1000"},
			elicitation.Options{Limits: elicitation.Limits{Pending: 1000, PerPrincipal: 160,
				PerSession:  160,
				PerUpstream: 500}}, ""},
		{"the default", map[string]string{"ELICITATION_MAX_CONCURRENT": "100"},
			elicitation.Options{Limits: elicitation.Limits{Pending: 100, PerPrincipal: 16,
				PerSession:  16,
				PerUpstream: 50}}, ""},
		{"less than the default", map[string]string{"ELICITATION_MAX_CONCURRENT": "60"},
			elicitation.Options{Limits: elicitation.Limits{Pending: 60, PerPrincipal: 16,
				PerSession:  16,
				PerUpstream: 50}}, ""},
		{"less than all defaults", map[string]string{"ELICITATION_MAX_CONCURRENT": "3"},
			elicitation.Options{Limits: elicitation.Limits{Pending: 3, PerPrincipal: 3,
				PerSession:  3,
				PerUpstream: 3}}, ""},
		{"the largest number", map[string]string{"ELICITATION_MAX_CONCURRENT": "2147483647"},
			elicitation.Options{Limits: elicitation.Limits{Pending: 2147483647,
				PerPrincipal: 343597383,
				PerSession:   343597383, PerUpstream: 1073741823}}, ""},
		{"zero", map[string]string{"ELICITATION_MAX_CONCURRENT": "0"}, elicitation.Options{},
			"ELICITATION_MAX_CONCURRENT"},
		{"negative", map[string]string{"ELICITATION_MAX_CONCURRENT": "-1"}, elicitation.Options{},
			"ELICITATION_MAX_CONCURRENT"},
		{"words", map[string]string{"ELICITATION_MAX_CONCURRENT": "many"}, elicitation.Options{},
			"ELICITATION_MAX_CONCURRENT"},
		{"no time", map[string]string{"ELICITATION_TIMEOUT": "0s"}, elicitation.Options{},
			"ELICITATION_TIMEOUT"},
		{"negative time", map[string]string{"ELICITATION_TIMEOUT": "-5"}, elicitation.Options{},
			"ELICITATION_TIMEOUT"},
		{"time overflows", map[string]string{"ELICITATION_TIMEOUT": "9223372036854775807"},
			elicitation.Options{}, "ELICITATION_TIMEOUT"},
		{"time of no unit", map[string]string{"ELICITATION_CLEANUP_INTERVAL": "5 min"},
			elicitation.Options{}, "ELICITATION_CLEANUP_INTERVAL"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := elicitation.OptionsFromEnv(func(key string) (string, bool) {
				v,
					ok := test.env[key]
				return v, ok
			})
			if test.bad != "" {
				if err == nil || !contains(err.Error(), test.bad) {
					t.Errorf("error is %v, want one that names %s", err, test.bad)
				}
				return
			}
			if err != nil || got.Timeout != test.want.Timeout ||
				got.SweepInterval != test.want.SweepInterval ||
				got.Limits.Pending != test.want.Limits.Pending ||
				got.Limits.PerPrincipal != test.want.Limits.PerPrincipal ||
				got.Limits.PerSession != test.want.Limits.PerSession ||
				got.Limits.PerUpstream != test.want.Limits.PerUpstream {
				t.Errorf("got %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}

// Limits that cannot work are refused at once.
func TestLimitsThatCannotWorkAreRefused(t *testing.T) {
	for name, o := range map[string]elicitation.Options{
		"overflow":             {Limits: elicitation.Limits{ContentBytes: int(^uint(0) >> 1)}},
		"overflow, schema":     {Limits: elicitation.Limits{SchemaBytes: int(^uint(0) >> 1)}},
		"no keys of the fleet": {Store: newMapStore()},
		"keys of one replica":  {Store: newMapStore(), Keys: keys.EphemeralKeyring()},
	} {
		if _, err := elicitation.New(&o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
