package replica_test

import (
	"context"
	"crypto/sha256"
	"math/rand"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/replica"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

func newCodec(t testing.TB, ids ...string) replica.Codec {
	t.Helper()
	list := make([]keys.Key, len(ids))
	for i, id := range ids {
		secret := sha256.Sum256([]byte(id))
		key, err := keys.NewKey(id, secret[:])
		if err != nil {
			t.Fatal(err)
		}
		list[i] = key
	}
	ring, err := keys.NewKeyring(list[0], list[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	return replica.Codec{Keys: ring.Derive(replica.Purpose)}
}

func newOwner(t testing.TB, name string) replica.Owner {
	t.Helper()
	o, err := replica.NewOwner(name)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestOnlyDNSLabelsAreNames(t *testing.T) {
	for _, name := range []string{"a", "everything-0", "9", strings.Repeat("x", 63)} {
		if _, err := replica.NewOwner(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "-a", "a-", "A", "a.b", "a/b", "a:1", "a@b", "ä", "a b",
		"a%2f", strings.Repeat("x", 64)} {
		if _, err := replica.NewOwner(name); err == nil {
			t.Errorf("%q is taken for a name", name)
		}
	}
}

// tokens returns one token of each kind.
func tokens(t testing.TB, c replica.Codec, o replica.Owner) map[string]string {
	t.Helper()
	all := map[string]string{}
	add := func(kind string) func(string, error) {
		return func(token string, err error) {
			if err != nil {
				t.Fatal(err)
			}
			all[kind] = token
		}
	}
	add("session")(c.SealSession(o, "inner"))
	add("challenge")(c.SealChallenge(replica.Challenge{Owner: o, Nonce: replica.Nonce{1}}))
	add("proof")(c.SealProof(replica.Proof{Nonce: replica.Nonce{2}, Draining: true}))
	add("hop")(c.SealHop(&replica.Hop{Sequence: 3, Method: "POST", RemoteAddr: "[::1]:9"}))
	add("reply")(c.SealReply(replica.Reply{Sequence: 4, Verdict: replica.StaleChannel}))
	return all
}

// openers open a token as each kind.
func openers(c replica.Codec) map[string]func(string) bool {
	return map[string]func(string) bool{
		"session":   func(s string) bool { _, _, ok := c.OpenSession(s); return ok },
		"challenge": func(s string) bool { _, ok := c.OpenChallenge(s); return ok },
		"proof":     func(s string) bool { _, ok := c.OpenProof(s); return ok },
		"hop":       func(s string) bool { _, ok := c.OpenHop(s); return ok },
		"reply":     func(s string) bool { _, ok := c.OpenReply(s); return ok },
	}
}

func TestATokenOpensAsItsOwnKindOnly(t *testing.T) {
	c := newCodec(t, "k1")
	for kind, token := range tokens(t, c, newOwner(t, "a")) {
		for as, open := range openers(c) {
			if got := open(token); got != (kind == as) {
				t.Errorf("a %s opened as %s: got %v", kind, as, got)
			}
		}
	}
}

func TestTokensKeepTheirFields(t *testing.T) {
	c, o := newCodec(t, "k1"), newOwner(t, "everything-0")
	all := tokens(t, c, o)
	if got, inner, _ := c.OpenSession(all["session"]); got != o || inner != "inner" {
		t.Errorf("session: got %v, %q", got, inner)
	}
	if got, _ := c.OpenChallenge(all["challenge"]); got.Owner != o || got.Nonce[0] != 1 {
		t.Errorf("challenge: got %v", got)
	}
	if got, _ := c.OpenProof(all["proof"]); got.Nonce[0] != 2 || !got.Draining {
		t.Errorf("proof: got %v", got)
	}
	if got, _ := c.OpenHop(all["hop"]); got.Sequence != 3 || got.Method != "POST" ||
		got.RemoteAddr != "[::1]:9" {
		t.Errorf("hop: got %v", got)
	}
	if got, _ := c.OpenReply(all["reply"]); got.Sequence != 4 ||
		got.Verdict != replica.StaleChannel {
		t.Errorf("reply: got %v", got)
	}
}

func TestForgedAndForeignTokensAreRefused(t *testing.T) {
	c, foreign := newCodec(t, "k1"), newCodec(t, "k2")
	for kind, token := range tokens(t, c, newOwner(t, "a")) {
		if openers(foreign)[kind](token) {
			t.Errorf("a %s opens under another key", kind)
		}
		for i := range token {
			forged := token[:i] + string("AB"[(token[i]&1)^1]) + token[i+1:]
			if forged != token && openers(c)[kind](forged) {
				t.Fatalf("a %s opens with byte %d changed", kind, i)
			}
			if openers(c)[kind](token[:i]) {
				t.Fatalf("the first %d bytes of a %s open", i, kind)
			}
		}
	}
}

// sealed has a plaintext opened for any token.
type sealed string

func (s sealed) Seal(context.Context, []byte) (string, error) { return "", nil }
func (s sealed) Open(context.Context, string) ([]byte, error) { return []byte(s), nil }

// keep is a Sealer whose tokens are their plaintexts.
type keep struct{}

func (keep) Seal(_ context.Context, p []byte) (string, error)    { return string(p), nil }
func (keep) Open(_ context.Context, text string) ([]byte, error) { return []byte(text), nil }

// FuzzOpen opens any plaintext as every kind. What opens must be spelled as it is sealed.
func FuzzOpen(f *testing.F) {
	for _, token := range tokens(f, replica.Codec{Keys: keep{}}, newOwner(f, "a")) {
		f.Add(token)
	}
	f.Fuzz(func(t *testing.T, plaintext string) {
		c, again := replica.Codec{Keys: sealed(plaintext)}, replica.Codec{Keys: keep{}}
		check := func(kind, got string) {
			if got != plaintext {
				t.Errorf("%s: %q is sealed as %q", kind, plaintext, got)
			}
		}
		if o, inner, ok := c.OpenSession(""); ok {
			got, _ := again.SealSession(o, inner)
			check("session", got)
		}
		if ch, ok := c.OpenChallenge(""); ok {
			got, _ := again.SealChallenge(ch)
			check("challenge", got)
		}
		if p, ok := c.OpenProof(""); ok {
			got, _ := again.SealProof(p)
			check("proof", got)
		}
		if h, ok := c.OpenHop(""); ok {
			got, _ := again.SealHop(h)
			check("hop", got)
		}
		if r, ok := c.OpenReply(""); ok {
			got, _ := again.SealReply(r)
			check("reply", got)
		}
	})
}

func TestKeysRotateWhileSessionsAreOpen(t *testing.T) {
	before, during, after := newCodec(t, "k1", "k2"), newCodec(t, "k2", "k1"), newCodec(t, "k2")
	id, err := before.SealSession(newOwner(t, "a"), "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, ok := during.OpenSession(id); !ok {
		t.Error("an older key that is still enabled does not open")
	}
	if _, _, ok := after.OpenSession(id); ok {
		t.Error("a key that was dropped opens")
	}
}

func TestANumberIsAdmittedOnce(t *testing.T) {
	c := replica.NewChannels()
	id := c.Open()
	numbers := rand.New(rand.NewSource(1)).Perm(4000)
	for _, n := range numbers {
		if !c.Admit(id, uint64(n+1)) {
			t.Fatalf("%d is refused the first time", n+1)
		}
	}
	for _, n := range numbers {
		if c.Admit(id, uint64(n+1)) {
			t.Fatalf("%d is admitted twice", n+1)
		}
	}
	for _, step := range []struct {
		number uint64
		want   bool
	}{
		{0, false}, {4001, true}, {10_000, true}, {10_000, false}, {9_999, true}, {9_999, false},
		{10_000 - 4096, false}, {10_000 - 4095, true}, {10_000 - 4095, false}, {4002, false},
		{20_000, true}, {10_000, false}, {19_000, true}, {19_000, false}, {1 << 60, false},
	} {
		if got := c.Admit(id, step.number); got != step.want {
			t.Errorf("%d: got %v, want %v", step.number, got, step.want)
		}
	}
	if c.Admit(replica.ChannelID{}, 1) {
		t.Error("a channel that was never opened is accepted")
	}
}

func TestChannelsExpireAndAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := replica.NewChannels()
		id := c.Open()
		if !c.Admit(id, 1) {
			t.Error("a new channel is refused")
		}
		time.Sleep(replica.ChannelLife) // in the bubble
		if c.Admit(id, 2) {
			t.Error("a channel outlives ChannelLife")
		}
		first := c.Open()
		for range replica.MaxChannels {
			c.Open()
		}
		if c.Admit(first, 1) {
			t.Error("more than MaxChannels are kept")
		}
	})
}
