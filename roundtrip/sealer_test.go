package roundtrip_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

func TestSharedKeys(t *testing.T) {
	var noted events
	if _, err := roundtrip.NewFunnel(&roundtrip.Options{Observer: &noted}); err != nil {
		t.Fatal(err)
	}
	if e := one[event.EphemeralKey](t, &noted); !strings.HasPrefix(e.KeyID, "e-") {
		t.Errorf("event %+v", e)
	}
	noted.list = nil
	for _, sealer := range []keys.Sealer{ring(t, "k1"), &fakeSealer{}} {
		if _, err := roundtrip.NewFunnel(
			&roundtrip.Options{Sealer: sealer, Audience: "test", Observer: &noted}); err != nil {
			t.Error(err)
		}
	}
	// A sealer that does not name its keys has none to tell of.
	if names := one[event.KeysEnabled](t, &noted); names.Primary != "k1" ||
		fmt.Sprint(names.Enabled) != "[k1]" || len(noted.list) != 1 {
		t.Errorf("events %+v", noted.list)
	}
}

// Two services that have one key and equal tools would accept each other's
// states if nothing told them apart.
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
