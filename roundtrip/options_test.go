package roundtrip_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// TestNegativeOptions: a negative number disables the setting, or NewFunnel refuses it.
func TestNegativeOptions(t *testing.T) {
	servertest.CheckNumberFields(t, map[string]bool{
		"RoundTTL": true, "HumanTimeout": true, "MinHumanTime": false,
		"Limits.Rounds": true, "Limits.StateBytes": true,
		"Limits.Waiting": false, "Limits.WaitingPerPrincipal": false,
	}, func(o *roundtrip.Options) error {
		_, err := roundtrip.NewFunnel(o)
		return err
	})
}

func TestOptionsAreCopied(t *testing.T) {
	opts := roundtrip.Options{Limits: roundtrip.Limits{Rounds: 0}}
	if _, err := roundtrip.NewFunnel(&opts); err != nil {
		t.Fatal(err)
	}
	if opts.Limits.Rounds != 0 || opts.Sealer != nil {
		t.Errorf("NewFunnel filled in its caller's options: %+v", opts)
	}
}

func TestFormOptionWhereNoFormIsMade(t *testing.T) {
	c := serve(t, func(context.Context) (protocol.Result, error) {
		return ask(roundtrip.Elicit[Confirmation]("k", "?", roundtrip.AllowSecrets()))
	})
	c.fails(protocol.CodeInternalError)
	raw := json.RawMessage(`{"type":"object","properties":{"password":{"type":"string"}}}`)
	c = serve(t, func(context.Context) (protocol.Result, error) {
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

func TestSharedKeys(t *testing.T) {
	var noted events
	for _, sealer := range []keys.Sealer{nil, ring(t, "k1"), &fakeSealer{}} {
		if _, err := roundtrip.NewFunnel(
			&roundtrip.Options{Sealer: sealer, Audience: "test", Observer: &noted}); err != nil {
			t.Error(err)
		}
	}
	// A sealer that does not name its keys has none to report; transports report ephemeral ones.
	if names := one[event.KeysEnabled](t, &noted); names.Primary != "k1" ||
		fmt.Sprint(names.Enabled) != "[k1]" || len(noted.list) != 1 {
		t.Errorf("events %+v", noted.list)
	}
}

// Two services with one key and equal tools must not accept each other's states.
func TestSharedKeysNeedAnAudience(t *testing.T) {
	for _, sealer := range []keys.Sealer{ring(t, "k1"), &fakeSealer{}} {
		if _, err := roundtrip.NewFunnel(&roundtrip.Options{Sealer: sealer}); err == nil ||
			!strings.Contains(err.Error(), "set Audience") {
			t.Errorf("error %v does not say what to set", err)
		}
	}
	for name, opts := range map[string]roundtrip.Options{
		"default": {}, "ephemeral keys": {Sealer: keys.EphemeralKeyring()},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := roundtrip.NewFunnel(&opts); err != nil {
				t.Error(err)
			}
		})
	}
	sealing := newClient(t, roundtrip.Options{Sealer: ring(t, "k1"), Audience: "files"}, consent)
	sealing.ask("k")
	other := newClient(t, roundtrip.Options{Sealer: ring(t, "k1"), Audience: "mail"}, consent)
	other.call = sealing.call
	frozen(t, other, words.ReasonAudience)
}
