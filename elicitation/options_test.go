package elicitation_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]elicitation.Options{
		"negative Timeout":         {Timeout: -1},
		"negative MaxTimeout":      {MaxTimeout: -1},
		"negative DeliveryTimeout": {DeliveryTimeout: -1},
		"negative SweepInterval":   {SweepInterval: -1},
		"negative RetryAfter":      {RetryAfter: -1},
		"negative MaxSchemaBytes":  {MaxSchemaBytes: -1},
		"negative MaxSchemaDepth":  {MaxSchemaDepth: -1},
		"negative MaxContentBytes": {MaxContentBytes: -1},
		"unknown Validation":       {Validation: 3},
		"negative Validation":      {Validation: -1},
		"maximum below default":    {Timeout: time.Minute, MaxTimeout: time.Second},
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

// What a negative number means is decided for each field: there is no limit or no heartbeat,
// or New refuses it and names the field. A new field has to be decided, too.
func TestNegativeOptions(t *testing.T) {
	off := map[string]bool{
		"Heartbeat": true, "MaxPending": true, "MaxPerPrincipal": true, "MaxPerSession": true,
		"MaxPerUpstream": true, "MinHumanTime": true,
	}
	numbers := 0
	for _, field := range reflect.VisibleFields(reflect.TypeFor[elicitation.Options]()) {
		if field.Type.Kind() != reflect.Int && field.Type.Kind() != reflect.Int64 {
			continue
		}
		numbers++
		t.Run(field.Name, func(t *testing.T) {
			var o elicitation.Options
			reflect.ValueOf(&o).Elem().FieldByIndex(field.Index).SetInt(-1)
			_, err := elicitation.New(&o)
			switch {
			case off[field.Name] && err != nil:
				t.Errorf("off: %v", err)
			case !off[field.Name] && (err == nil || !contains(err.Error(), ": "+field.Name+" ")):
				t.Errorf("error is %v, want one that names the field", err)
			}
		})
	}
	if numbers < len(off) {
		t.Errorf("found %d numbers", numbers)
	}
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
			elicitation.Options{MaxPending: 250, MaxPerPrincipal: 40, MaxPerSession: 40,
				MaxPerUpstream: 125}, ""},
		{"large number", map[string]string{"ELICITATION_MAX_CONCURRENT": "1000"},
			elicitation.Options{MaxPending: 1000, MaxPerPrincipal: 160, MaxPerSession: 160,
				MaxPerUpstream: 500}, ""},
		{"the default", map[string]string{"ELICITATION_MAX_CONCURRENT": "100"},
			elicitation.Options{MaxPending: 100, MaxPerPrincipal: 16, MaxPerSession: 16,
				MaxPerUpstream: 50}, ""},
		{"less than the default", map[string]string{"ELICITATION_MAX_CONCURRENT": "60"},
			elicitation.Options{MaxPending: 60, MaxPerPrincipal: 16, MaxPerSession: 16,
				MaxPerUpstream: 50}, ""},
		{"less than all defaults", map[string]string{"ELICITATION_MAX_CONCURRENT": "3"},
			elicitation.Options{MaxPending: 3, MaxPerPrincipal: 3, MaxPerSession: 3,
				MaxPerUpstream: 3}, ""},
		{"the largest number", map[string]string{"ELICITATION_MAX_CONCURRENT": "2147483647"},
			elicitation.Options{MaxPending: 2147483647, MaxPerPrincipal: 343597383,
				MaxPerSession: 343597383, MaxPerUpstream: 1073741823}, ""},
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
				got.MaxPending != test.want.MaxPending ||
				got.MaxPerPrincipal != test.want.MaxPerPrincipal ||
				got.MaxPerSession != test.want.MaxPerSession ||
				got.MaxPerUpstream != test.want.MaxPerUpstream {
				t.Errorf("got %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}

// Limits that cannot work are refused at once.
func TestLimitsThatCannotWorkAreRefused(t *testing.T) {
	for name, o := range map[string]elicitation.Options{
		"overflow":             {MaxContentBytes: int(^uint(0) >> 1)},
		"overflow, schema":     {MaxSchemaBytes: int(^uint(0) >> 1)},
		"no keys of the fleet": {Store: newMapStore()},
		"keys of one replica":  {Store: newMapStore(), Keys: keys.EphemeralKeyring()},
	} {
		if _, err := elicitation.New(&o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
