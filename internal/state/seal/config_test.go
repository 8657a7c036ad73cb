package seal_test

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/state/seal"
)

func TestParseKeyring(t *testing.T) {
	// 0xfb and 0xff bytes give '-' and '_', or '+' and '/'.
	secret := append(bytes.Repeat([]byte{0xfb, 0xff}, 16), 1)
	std, url := base64.StdEncoding.EncodeToString(secret), base64.URLEncoding.EncodeToString(secret)
	rawStd, rawURL := strings.TrimRight(std, "="), strings.TrimRight(url, "=")
	second := base64.StdEncoding.EncodeToString(secretBytes(2))

	key, err := seal.NewKey("k1", secret)
	noError(t, err)
	token := mustRing(t, key).Seal([]byte("state"))
	for _, tc := range []struct{ name, text, primary string }{
		{"std", "k1:" + std, "k1"},
		{"std unpadded", "k1:" + rawStd, "k1"},
		{"url", "k1:" + url, "k1"},
		{"url unpadded", "k1:" + rawURL, "k1"},
		{"final newline", "k1:" + std + "\n", "k1"},
		{"two", "k1:" + std + ",k2:" + second, "k1"},
		{"older", "k2:" + second + ",k1:" + std, "k2"},
		{"spaced", "\r\n k2 : " + second + " ,\n\tk1 :\t" + std + " \n", "k2"},
		{"wrapped", "k1:" + std[:20] + "\n" + std[20:], "k1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ring, err := seal.ParseKeyring(tc.text)
			if err != nil {
				t.Errorf("%s: %v", tc.name, err)
				return
			}
			if ring.Primary() != tc.primary || ring.Ephemeral() {
				t.Errorf("%s: got %v, ephemeral %t; want primary %s", tc.name, ring, ring.Ephemeral(),
					tc.primary)
			}
			if _, err := ring.Open(token, maxToken); err != nil {
				t.Errorf("%s: Open: %v", tc.name, err)
			}
		})
	}
}

// Errors must quote nothing: a misplaced ':' or ',' makes any part a secret.
func TestParseKeyringRefuses(t *testing.T) {
	good := base64.StdEncoding.EncodeToString(secretBytes(1))
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", "no key is configured"},
		{"blank", " \n", "no key is configured"},
		{"empty first", ",k1:" + good, "entry 1: is empty"},
		{"empty last", "k1:" + good + ",", "entry 2: is empty"},
		{"no colon", good, "entry 1: has no ':'"},
		{"no id", ":" + good, "entry 1: key id is empty"},
		{"halves swapped", good + ":k1", "entry 1: key id has 44 bytes"},
		{"short hex as id", "00112233445566778899aabbccddeeff:k1", "entry 1: secret"},
		{"lines without commas", "k1:" + good + "\nk2:" + good, "entry 1: has a second ':'"},
		{"reserved id", "k1:" + good + ",e-1:" + good, "entry 2: key id begins with"},
		{"no secret", "k1:", "entry 1: secret has 0 bytes"},
		{"short", "k1:" + base64.StdEncoding.EncodeToString(secretBytes(1)[:31]),
			"entry 1: secret has 31 bytes"},
		{"not base64", "k1:" + strings.Repeat("!", 44), "entry 1: secret is not valid base64"},
		{"wrong padding", "k1:" + good + "=", "entry 1: secret is not valid base64: wrong padding"},
		{"character lost", "k1:" + good[:42], "entry 1: secret"},
		{"same id", "k1:" + good + ",k2:" + good + ",k1:" + good,
			"entry 3 has the key id of entry 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ring, err := seal.ParseKeyring(tc.text)
			if err == nil || ring != nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got %v, %v; want an error with %q", tc.name, ring, err, tc.want)
				return
			}
			for _, part := range strings.FieldsFunc(tc.text,
				func(r rune) bool { return strings.ContainsRune(":,\n =", r) }) {
				if len(part) >= 8 && strings.Contains(err.Error(), part) {
					t.Errorf("%s: the error quotes %q: %v", tc.name, part, err)
				}
			}
		})
	}
}
