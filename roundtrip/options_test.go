package roundtrip_test

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// offWhenNegative are the numbers of Options that a negative value turns off.
var offWhenNegative = [...]string{"Heartbeat", "MaxWaiting", "MaxWaitingPerPrincipal",
	"MaxWaitingPerSession", "MaxWaitingBytes", "MinHumanTime"}

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

// A form that is made cannot be changed, so an option of forms elsewhere is a mistake.
func TestFormOptionWhereNoFormIsMade(t *testing.T) {
	c := newClient(t, roundtrip.Options{}, func(context.Context) (protocol.Result, error) {
		return ask(roundtrip.Elicit[Confirmation]("k", "?", roundtrip.AllowSecrets()))
	})
	c.fails(protocol.CodeInternalError)
	raw := json.RawMessage(`{"type":"object","properties":{"password":{"type":"string"}}}`)
	c = newClient(t, roundtrip.Options{}, func(context.Context) (protocol.Result, error) {
		return ask(roundtrip.ElicitSchema("k", "?", raw, roundtrip.AllowSecrets(),
			roundtrip.AskAgain()))
	})
	c.ask("k")
}

func TestNewQuestion(t *testing.T) {
	if q, err := roundtrip.NewQuestion[Confirmation]("k"); err != nil || q.Key() != "k" {
		t.Errorf("got %v, %v", q, err)
	}
	if _, err := roundtrip.NewQuestion[Confirmation](""); err == nil {
		t.Error("an empty key is taken")
	}
	_, err := roundtrip.NewQuestion[int]("k")
	if err == nil || !strings.Contains(err.Error(), `"k"`) {
		t.Errorf("error %v does not name the key", err)
	}
}
