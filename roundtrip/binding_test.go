package roundtrip_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

const (
	tokenOfAlice = "Bearer alice-canary-4242"
	tokenOfBob   = "Bearer bob"
)

func sureHandler(ctx context.Context) (protocol.Result, error) {
	if _, err := roundtrip.Ask[Confirmation](ctx, "k", "Sure?"); err != nil {
		return nil, err
	}
	return say("done")
}

func TestStatesOfAnonymousCallersAreBoundToTheCredential(t *testing.T) {
	ada := toolCall().Principal
	for _, tc := range []struct {
		name      string
		principal protocol.Principal
		from, to  string
		accepted  bool
	}{
		{"the same", protocol.Principal{}, tokenOfAlice, tokenOfAlice, true},
		{"another", protocol.Principal{}, tokenOfAlice, tokenOfBob, false},
		{"lost", protocol.Principal{}, tokenOfAlice, "", false},
		{"new", protocol.Principal{}, "", tokenOfBob, false},
		{"none", protocol.Principal{}, "", "", true},
		{"renewed by a known principal", ada, tokenOfAlice, tokenOfBob, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := serve(t, sureHandler)
			c.call.Principal, c.call.Credential = tc.principal, tc.from
			c.ask("k").answer("k", accepted)
			c.call.Credential = tc.to
			if tc.accepted {
				c.says("done")
				return
			}
			c.fails(protocol.CodeInvalidParams)
			rejected := one[event.StateRejected](t, c.events)
			if rejected.Reason != words.ReasonPrincipal {
				t.Errorf("rejected for %s", rejected.Reason)
			}
			if tc.from != "" {
				contains(t, rejected.Err.Error(), "principal", "credentials may have been renewed")
			}
			for _, e := range c.events.list {
				if where, ok := e.(event.StateRejected); ok && where.Err != nil &&
					strings.Contains(where.Err.Error(), "canary") {
					t.Error("the token is in an event")
				}
			}
		})
	}
}

type peeking struct {
	keys.Sealer
	sealed []byte
}

func (p *peeking) Seal(ctx context.Context, plaintext []byte) (string, error) {
	p.sealed = append(p.sealed, plaintext...)
	return p.Sealer.Seal(ctx, plaintext)
}

// States contain no tokens, and every replica recognizes the holder, even after a change of keys,
// with a guard and with stored states.
func TestCredentialsOnReplicas(t *testing.T) {
	older, newer := strings.Repeat("a", 32), strings.Repeat("b", 32)
	encode := func(id, secret string) string {
		return id + ":" + base64.RawStdEncoding.EncodeToString([]byte(secret))
	}
	ring := func(text string) *keys.Keyring {
		t.Helper()
		k, err := keys.KeyringFromEnv(func(string) (string, bool) { return text, true }, "KEYS")
		noError(t, err)
		return k
	}
	states, guard := store.NewMemoryStateStore(0), store.NewMemoryGuard(0)
	sealer := &peeking{Sealer: ring(encode("old", older))}
	opts := roundtrip.Options{Sealer: sealer, Guard: guard, StateStore: states,
		Limits: roundtrip.Limits{StateBytes: 200}}
	first := newClient(t, opts, sureHandler)
	first.call.Principal, first.call.Credential = protocol.Principal{}, tokenOfAlice
	first.ask("k").answer("k", accepted)
	if strings.Contains(string(sealer.sealed), "canary") {
		t.Error("the token is in the state")
	}

	opts.Sealer = ring(encode("new", newer) + "," + encode("old", older))
	second := newClient(t, opts, sureHandler)
	second.call = first.call
	second.says("done")
}

func TestAnonymousStatesAreReportedOnce(t *testing.T) {
	c := serve(t, sureHandler)
	for _, known := range []func(*roundtrip.Call){
		func(call *roundtrip.Call) {},
		func(call *roundtrip.Call) { call.Principal = protocol.LocalPrincipal() },
		func(call *roundtrip.Call) {
			call.Principal, call.Credential = protocol.Principal{}, tokenOfAlice
		},
	} {
		c.call = toolCall()
		known(&c.call)
		c.ask("k")
	}
	if got := all[event.AnonymousState](c.events); len(got) != 0 {
		t.Errorf("reported %v of callers that are known", got)
	}
	for range 2 {
		c.call = toolCall()
		c.call.Principal = protocol.Principal{}
		c.ask("k")
	}
	if got := one[event.AnonymousState](t, c.events); got.Target != "deploy" {
		t.Errorf("got %+v", got)
	}
}

// TestCredentialDigest compares a digest with its description: replicas of two releases must agree.
func TestCredentialDigest(t *testing.T) {
	flow := [16]byte([]byte("0123456789abcdef"))
	mac := hmac.New(sha256.New, flow[:])
	mac.Write([]byte("rondo credential binding 1\x00" + tokenOfBob))
	if got, want := roundtrip.DigestCredential(flow, tokenOfBob),
		hex.EncodeToString(mac.Sum(nil)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
