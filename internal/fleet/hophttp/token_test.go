package hophttp_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
)

func newCodec(id string) hophttp.Codec { return hophttp.NewCodec(servertest.NewKeyring(id)) }

var fields = map[hophttp.Kind][]string{
	hophttp.KindSession:   {"everything-0", "start", "inner"},
	hophttp.KindChallenge: {"everything-0", "start", "nonce"},
	hophttp.KindProof:     {"nonce", "ticket", ""},
	hophttp.KindHop:       {"ticket", "session", "body", "POST", "[::1]:9"},
	hophttp.KindReply:     {"hop", hophttp.VerdictStale},
}

func TestATokenOpensAsItsOwnKindOnly(t *testing.T) {
	c := newCodec("k1")
	for kind, want := range fields {
		token := c.Seal(kind, want...)
		for as := range fields {
			got, ok := c.Open(as, token)
			if ok != (kind == as) || ok && !slices.Equal(got, want) {
				t.Errorf("kind %d opened as %d: got %q, %v", kind, as, got, ok)
			}
		}
	}
	long := strings.Repeat("x", 1000)
	got, ok := c.Open(hophttp.KindReply, c.Seal(hophttp.KindReply, long, "x"))
	if !ok || got[0] != long[:255] || got[1] != "x" {
		t.Errorf("a long field: got %q", got)
	}
}

func TestForgedAndForeignTokensAreRefused(t *testing.T) {
	c, foreign := newCodec("k1"), newCodec("k2")
	for kind, of := range fields {
		token := c.Seal(kind, of...)
		if _, ok := foreign.Open(kind, token); ok {
			t.Errorf("kind %d opens under another key", kind)
		}
		for i := range token {
			forged := token[:i] + string("AB"[(token[i]&1)^1]) + token[i+1:]
			if _, ok := c.Open(kind, forged); ok && forged != token {
				t.Fatalf("kind %d opens with byte %d changed", kind, i)
			}
			if _, ok := c.Open(kind, token[:i]); ok {
				t.Fatalf("the first %d bytes of kind %d open", i, kind)
			}
		}
	}
}

// Any plaintext is opened as every kind; valid ones are spelled as sealed.
func FuzzOpen(f *testing.F) {
	c, ring := newCodec("k1"), servertest.NewKeyring("k1").Derive("rondo/replicas/v2")
	open := func(t testing.TB, token string) string {
		plaintext, err := ring.Open(t.Context(), token)
		noError(t, err)
		return string(plaintext)
	}
	for kind, of := range fields {
		f.Add(open(f, c.Seal(kind, of...)))
	}
	f.Fuzz(func(t *testing.T, plaintext string) {
		token, err := ring.Seal(t.Context(), []byte(plaintext))
		noError(t, err)
		for kind := range fields {
			got, ok := c.Open(kind, token)
			if !ok {
				continue
			}
			if again := open(t, c.Seal(kind, got...)); again != plaintext {
				t.Errorf("kind %d: %q is sealed as %q", kind, plaintext, again)
			}
		}
	})
}
