package roundtrip_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/roundtrip"
)

// offWhenNegative are the numbers of Options that a negative value turns off.
var offWhenNegative = [...]string{"Heartbeat", "MaxWaiting", "MaxWaitingPerPrincipal",
	"MaxWaitingPerSession", "MaxWaitingBytes"}

// Every number and duration of Options has one meaning of a negative value: it turns the
// setting off, or it is refused with the name of the field.
func TestNegativeOptions(t *testing.T) {
	off := make(map[string]bool)
	for _, name := range offWhenNegative {
		off[name] = true
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[roundtrip.Options]()) {
		if !field.Type.ConvertibleTo(reflect.TypeFor[int64]()) {
			continue
		}
		t.Run(field.Name, func(t *testing.T) {
			var opts roundtrip.Options
			value := reflect.ValueOf(&opts).Elem().FieldByIndex(field.Index)
			value.SetInt(-int64(time.Second))
			_, err := roundtrip.NewFunnel(&opts)
			switch {
			case off[field.Name] && err != nil:
				t.Errorf("negative does not turn it off: %v", err)
			case !off[field.Name] && err == nil:
				t.Error("negative is taken")
			case !off[field.Name] && !strings.Contains(err.Error(), field.Name+" "):
				t.Errorf("error %q does not name the field", err)
			}
		})
	}
}

func TestOptionsAreCopied(t *testing.T) {
	opts := roundtrip.Options{MaxRounds: 0}
	if _, err := roundtrip.NewFunnel(&opts); err != nil {
		t.Fatal(err)
	}
	if opts.MaxRounds != 0 || opts.Sealer != nil {
		t.Errorf("NewFunnel filled in its caller's options: %+v", opts)
	}
}
