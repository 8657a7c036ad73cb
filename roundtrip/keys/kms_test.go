package keys_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// A kms is a program's own Sealer, with keys elsewhere, built on package keys only.
type kms struct {
	ids       []string // the first is the primary
	ephemeral bool
}

var (
	_ keys.Sealer    = (*kms)(nil)
	_ keys.Describer = (*kms)(nil)
)

func (k *kms) Primary() string { return k.ids[0] }
func (k *kms) IDs() []string   { return k.ids }
func (k *kms) Ephemeral() bool { return k.ephemeral }

func (k *kms) box(id string) cipher.AEAD {
	block, err := aes.NewCipher([]byte((id + strings.Repeat("-", 32))[:32]))
	if err != nil {
		panic(err)
	}
	box, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return box
}

func (k *kms) Seal(_ context.Context, plaintext []byte) (string, error) {
	sealed := k.box(k.ids[0]).Seal(nil, nil, plaintext, nil)
	return k.ids[0] + "." + base64.RawURLEncoding.EncodeToString(sealed), nil
}

func (k *kms) Open(_ context.Context, text string) ([]byte, error) {
	id, body, ok := strings.Cut(text, ".")
	if !ok {
		return nil, keys.ErrMalformed
	}
	if !slices.Contains(k.ids, id) {
		if strings.HasPrefix(id, "e-") {
			return nil, &keys.KeyError{ID: id, Err: keys.ErrForeignEphemeral}
		}
		return nil, &keys.KeyError{ID: id, Err: keys.ErrUnknownKey}
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(body)
	if err != nil {
		return nil, errors.Join(keys.ErrMalformed, err)
	}
	plaintext, err := k.box(id).Open(nil, nil, sealed, nil)
	if err != nil {
		return nil, keys.ErrTampered
	}
	return plaintext, nil
}

type recorder struct{ events []event.Event }

func (r *recorder) Observe(_ context.Context, e event.Event) { r.events = append(r.events, e) }

func kmsFunnel(t *testing.T, sealer keys.Sealer) (*roundtrip.Funnel, *[]event.Event) {
	t.Helper()
	var seen recorder
	funnel, err := roundtrip.NewFunnel(&roundtrip.Options{Sealer: sealer, Audience: "test",
		Observer: &seen})
	if err != nil {
		t.Fatal(err)
	}
	return funnel, &seen.events
}

// askOnce asks with state, and returns the question's state, or the error.
func askOnce(funnel *roundtrip.Funnel, state protocol.RequestState) (protocol.RequestState, error) {
	call := roundtrip.Call{Version: protocol.V20260728, Method: protocol.MethodCallTool,
		Target: "tool", State: state}
	result, err := funnel.Do(context.Background(), call,
		func(context.Context) (protocol.Result, error) {
			return roundtrip.InputRequired(roundtrip.WithState("kept")), nil
		})
	if err != nil {
		return protocol.RequestState{}, err
	}
	return result.(*protocol.InputRequiredResult).RequestState, nil
}

func TestForeignSealerRotatesKeys(t *testing.T) {
	before, _ := kmsFunnel(t, &kms{ids: []string{"k1"}})
	state, err := askOnce(before, protocol.RequestState{})
	if err != nil {
		t.Fatal(err)
	}
	during, seen := kmsFunnel(t, &kms{ids: []string{"k2", "k1"}})
	enabled, ok := (*seen)[0].(event.KeysEnabled)
	if !ok || enabled.Primary != "k2" || !slices.Equal(enabled.Enabled, []string{"k2", "k1"}) {
		t.Errorf("at start: %+v", (*seen)[0])
	}
	next, err := askOnce(during, state)
	if err != nil {
		t.Fatalf("a state of the older key is refused: %v", err)
	}
	if text, _ := next.Text(); !strings.HasPrefix(text, "k2.") {
		t.Errorf("state %q is not sealed with the new primary key", text)
	}
}

func TestForeignSealerGivesReasons(t *testing.T) {
	for _, test := range []struct {
		name, text string
		reason     event.Reason
		keyID      string
	}{
		{"retired key", "k0.AAAA", words.ReasonUnknownKey, "k0"},
		{"ephemeral key of another process", "e-1.AAAA", words.ReasonForeignEphemeral, "e-1"},
		{"no token", "AAAA", words.ReasonMalformed, ""},
		{"not base64", "k1.A", words.ReasonMalformed, ""},
		{"changed", "k1." + base64.RawURLEncoding.EncodeToString([]byte(rand.Text()+rand.Text())),
			words.ReasonTampered, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			funnel, seen := kmsFunnel(t, &kms{ids: []string{"k1"}})
			if _, err := askOnce(funnel, protocol.StateText(test.text)); err == nil {
				t.Fatal("the state is taken")
			}
			for _, e := range *seen {
				if e, ok := e.(event.StateRejected); ok {
					if e.Reason != test.reason || e.KeyID != test.keyID {
						t.Errorf("reason %q, key %q", e.Reason, e.KeyID)
					}
					return
				}
			}
			t.Errorf("no refusal in %+v", *seen)
		})
	}
}
