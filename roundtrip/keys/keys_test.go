package keys_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var secret = []byte("0123456789abcdefghijklmnopqrstuv")

// TestSecretsNeverPrint prints keys, a ring, and structs with them.
func TestSecretsNeverPrint(t *testing.T) {
	key, err := keys.NewKey("k1", secret)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := keys.NewKeyring(key)
	if err != nil {
		t.Fatal(err)
	}
	opts := roundtrip.Options{Sealer: ring, Audience: "test"}
	funnel, err := roundtrip.NewFunnel(&opts)
	if err != nil {
		t.Fatal(err)
	}
	testkit.CheckSecret(t, secret, key, &key, ring, *ring, opts, &opts, funnel, *ring,
		[]any{key, opts},
		struct{ hidden keys.Key }{key}, struct{ hidden *keys.Keyring }{ring},
		struct{ hidden roundtrip.Options }{opts})
	if text := fmt.Sprintf("%+v", opts); !strings.Contains(text, "k1") ||
		!strings.Contains(text, "redacted") {
		t.Errorf("options print as %s, without the key's id", text)
	}
}

// TestKeyringErrors: messages name the keyring once, and give package seal's reason.
func TestKeyringErrors(t *testing.T) {
	const name = "RONDO_TEST_KEYS"
	encoded := base64.StdEncoding.EncodeToString(secret)
	key, err := keys.NewKey("k", secret)
	if err != nil {
		t.Fatal(err)
	}
	newKey := func(id string, secret []byte) error {
		_, err := keys.NewKey(id, secret)
		return err
	}
	newRing := func(primary keys.Key, older ...keys.Key) error {
		_, err := keys.NewKeyring(primary, older...)
		return err
	}
	fromEnv := func(value string) error {
		t.Setenv(name, value)
		_, err := keys.KeyringFromEnv(os.LookupEnv, name)
		return err
	}
	const env = "keyring: environment variable " + name
	for _, tc := range []struct {
		name string
		err  error
		want string
	}{
		{"short secret", newKey("k", secret[:31]), `key "k": secret has 31 bytes, at least 32 are needed`},
		{"same id", newRing(key, key), `keyring: two keys have the id "k"`},
		{"empty variable", fromEnv(""), env + " is not set"},
		{"second is reserved", fromEnv("k:" + encoded + ",e-1:" + encoded),
			env + `: entry 2: key id begins with "e-", which is reserved for ephemeral keys`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.err == nil || tc.err.Error() != tc.want {
				t.Errorf("got  %v\nwant %s", tc.err, tc.want)
			}
		})
	}
}

func TestKeyringFromEnv(t *testing.T) {
	const name = "RONDO_TEST_KEYS"
	encoded := base64.StdEncoding.EncodeToString(secret)
	t.Setenv(name, "new:"+base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))+", old:"+
		encoded)
	ring, err := keys.KeyringFromEnv(os.LookupEnv, name)
	if err != nil {
		t.Fatal(err)
	}
	if ring.Primary() != "new" || ring.Ephemeral() {
		t.Errorf("primary %s, ephemeral %v", ring.Primary(), ring.Ephemeral())
	}
	key, _ := keys.NewKey("old", secret)
	old, _ := keys.NewKeyring(key)
	text, err := old.Seal(t.Context(), []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	plaintext, err := ring.Open(t.Context(), text)
	if err != nil || string(plaintext) != "x" {
		t.Errorf("the older key does not open: %v", err)
	}
}
