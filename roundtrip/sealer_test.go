package roundtrip_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/secrettest"
	"github.com/rondo-mcp/rondo/roundtrip"
)

var secret = []byte("0123456789abcdefghijklmnopqrstuv")

// TestSecretsNeverPrint prints keys, a ring, and all that may hold one.
func TestSecretsNeverPrint(t *testing.T) {
	key, err := roundtrip.NewKey("k1", secret)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := roundtrip.NewKeyring(key)
	if err != nil {
		t.Fatal(err)
	}
	opts := roundtrip.Options{Sealer: ring, Audience: "test"}
	funnel, err := roundtrip.NewFunnel(opts)
	if err != nil {
		t.Fatal(err)
	}
	secrettest.Check(t, secret, key, &key, ring, *ring, opts, &opts, funnel, *ring,
		[]any{key, opts},
		struct{ hidden roundtrip.Key }{key}, struct{ hidden *roundtrip.Keyring }{ring},
		struct{ hidden roundtrip.Options }{opts})
	if text := fmt.Sprintf("%+v", opts); !strings.Contains(text, "k1") ||
		!strings.Contains(text, "redacted") {
		t.Errorf("options print as %s, without the key's id", text)
	}
}

func TestNewKeyRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		id     string
		secret []byte
	}{
		"no id": {"", secret}, "short secret": {"k", secret[:31]}, "no secret": {"k", nil},
		"id of an ephemeral key": {"e-1", secret}, "odd id": {"a b", secret},
		"long id": {strings.Repeat("k", 33), secret},
	} {
		if key, err := roundtrip.NewKey(tc.id, tc.secret); err == nil {
			t.Errorf("%s: got %v", name, key)
		}
	}
	key, _ := roundtrip.NewKey("k", secret)
	if _, err := roundtrip.NewKeyring(key, key); err == nil {
		t.Error("two keys of one id are taken")
	}
	if _, err := roundtrip.NewKeyring(roundtrip.Key{}); err == nil {
		t.Error("the zero key is taken")
	}
}

// TestKeyringErrors: messages name the keyring once, and what is wrong in it.
func TestKeyringErrors(t *testing.T) {
	const name = "RONDO_TEST_KEYS"
	encoded := base64.StdEncoding.EncodeToString(secret)
	key, err := roundtrip.NewKey("k", secret)
	if err != nil {
		t.Fatal(err)
	}
	newKey := func(id string, secret []byte) error {
		_,
			err := roundtrip.NewKey(id, secret)
		return err
	}
	newRing := func(primary roundtrip.Key, older ...roundtrip.Key) error {
		_, err := roundtrip.NewKeyring(primary, older...)
		return err
	}
	fromEnv := func(value string) error {
		t.Setenv(name, value)
		_, err := roundtrip.KeyringFromEnv(name)
		return err
	}
	const env = "keyring: environment variable " + name
	for _, tc := range []struct {
		err  error
		want string
	}{
		{newKey("", secret), "key id is empty"},
		{newKey("e-1", secret), `key id begins with "e-", which is reserved for ephemeral keys`},
		{newKey("a b", secret), "key id has a byte at offset 1 that is not a letter, a digit, " +
			"'.', '_' or '-'"},
		{newKey("k", secret[:31]), `key "k": secret has 31 bytes, at least 32 are needed`},
		{newRing(roundtrip.Key{}), "keyring: key 1 is the zero Key"},
		{newRing(key, roundtrip.Key{}), "keyring: key 2 is the zero Key"},
		{newRing(key, key), `keyring: two keys have the id "k"`},
		{fromEnv(""), env + " is not set"},
		{fromEnv(" "), env + ": no key is configured"},
		{fromEnv(","), env + ": entry 1: is empty"},
		{fromEnv(encoded), env + ": entry 1: has no ':' between key id and secret"},
		{fromEnv("k:" + encoded + ",e-1:" + encoded), env + `: entry 2: key id begins with "e-", which is reserved for ephemeral keys`},
		{fromEnv("k:" + encoded[:20]), env +
			": entry 1: secret has 15 bytes, at least 32 are needed"},
		{fromEnv("k:" + encoded + ",k:" + encoded), env + ": entry 2 has the key id of entry 1"},
	} {
		if tc.err == nil || tc.err.Error() != tc.want {
			t.Errorf("got  %v\nwant %s", tc.err, tc.want)
		}
	}
}

func TestKeyringFromEnv(t *testing.T) {
	const name = "RONDO_TEST_KEYS"
	encoded := base64.StdEncoding.EncodeToString(secret)
	for _, tc := range []struct{ name, value, want string }{
		{"unset", "", "not set"},
		{"no id", encoded, name},
		{"swapped", encoded + ":k1", name},
		{"short", "k1:" + encoded[:20], name},
		{"not base64", "k1:" + strings.Repeat("%", 44), name},
		{"twice", "k1:" + encoded + ",k1:" + encoded, name},
		{"only commas", ",,", name},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv(name, tc.value)
			_, err := roundtrip.KeyringFromEnv(name)
			if err == nil {
				t.Fatal("no error")
			}
			contains(t, err.Error(), tc.want)
			if strings.Contains(err.Error(), encoded[:12]) {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}

	t.Setenv(name, "new:"+base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))+", old:"+
		encoded)
	ring, err := roundtrip.KeyringFromEnv(name)
	if err != nil {
		t.Fatal(err)
	}
	if ring.Primary() != "new" || ring.Ephemeral() {
		t.Errorf("primary %s, ephemeral %v", ring.Primary(), ring.Ephemeral())
	}
	key, _ := roundtrip.NewKey("old", secret)
	old, _ := roundtrip.NewKeyring(key)
	plaintext, err := ring.Open(t.Context(), seal(t, old, []byte("x")))
	if err != nil || string(plaintext) != "x" {
		t.Errorf("the older key does not open: %v", err)
	}
}

func TestSharedKeys(t *testing.T) {
	var noted events
	if _, err := roundtrip.NewFunnel(roundtrip.Options{Observer: &noted}); err != nil {
		t.Fatal(err)
	}
	if event := one[roundtrip.EphemeralKey](t, &noted); !strings.HasPrefix(event.KeyID, "e-") {
		t.Errorf("event %+v", event)
	}
	for _, sealer := range []roundtrip.Sealer{nil, roundtrip.EphemeralKeyring()} {
		if _, err := roundtrip.NewFunnel(roundtrip.Options{Sealer: sealer,
			RequireSharedKey: true}); err == nil {
			t.Error("an ephemeral key passes for a shared one")
		}
	}
	noted.list = nil
	for _, sealer := range []roundtrip.Sealer{ring(t, "k1"), &fakeSealer{}} {
		if _, err := roundtrip.NewFunnel(roundtrip.Options{Sealer: sealer, RequireSharedKey: true,
			Audience: "test", Observer: &noted}); err != nil {
			t.Error(err)
		}
	}
	// A sealer that does not name its keys has none to tell of.
	if keys := one[roundtrip.KeysEnabled](t, &noted); keys.Primary != "k1" ||
		fmt.Sprint(keys.Enabled) != "[k1]" || len(noted.list) != 1 {
		t.Errorf("events %+v", noted.list)
	}
}

// Two services that have one key and equal tools would accept each other's
// states if nothing told them apart.
func TestSharedKeysNeedAnAudience(t *testing.T) {
	for _, sealer := range []roundtrip.Sealer{ring(t, "k1"), &fakeSealer{}} {
		if _, err := roundtrip.NewFunnel(roundtrip.Options{Sealer: sealer}); err == nil ||
			!strings.Contains(err.Error(), "set Audience") {
			t.Errorf("error %v does not say what to set", err)
		}
	}
	for _, opts := range []roundtrip.Options{{}, {Plain: true},
		{Sealer: roundtrip.EphemeralKeyring()}} {
		if _, err := roundtrip.NewFunnel(opts); err != nil {
			t.Error(err)
		}
	}
	sealing := newClient(t, roundtrip.Options{Sealer: ring(t, "k1"), Audience: "files"}, consent)
	sealing.ask("k")
	other := newClient(t, roundtrip.Options{Sealer: ring(t, "k1"), Audience: "mail"}, consent)
	other.call = sealing.call
	frozen(t, other, roundtrip.ReasonAudience)
}

func TestPrincipal(t *testing.T) {
	for _, tc := range []struct {
		principal roundtrip.Principal
		anonymous bool
		want      string
	}{
		{roundtrip.Principal{}, true, "anonymous"},
		{roundtrip.Local(), false, "local"},
		{roundtrip.Principal{Subject: "ada"}, false, "ada"},
		{roundtrip.Principal{Issuer: "https://issuer.example", Subject: "ada"}, false,
			"https://issuer.example ada"},
	} {
		if got := tc.principal.String(); got != tc.want ||
			tc.principal.Anonymous() != tc.anonymous {
			t.Errorf("%q, anonymous %v; want %q, %v", got, tc.principal.Anonymous(), tc.want,
				tc.anonymous)
		}
	}
}

func TestPushErrorNamesTheWayOut(t *testing.T) {
	err := &roundtrip.PushError{Method: "elicitation/create",
		Cause: "the connection has no session"}
	contains(t, err.Error(), "elicitation/create", "the connection has no session", "InputRequired")
}

func TestObservers(t *testing.T) {
	var a, b events
	roundtrip.Observers(&a, nil, &b).Observe(t.Context(), roundtrip.EphemeralKey{KeyID: "x"})
	if len(a.list) != 1 || len(b.list) != 1 {
		t.Errorf("told %d and %d, want 1 each", len(a.list), len(b.list))
	}
}
