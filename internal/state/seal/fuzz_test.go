package seal_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"testing"

	"github.com/rondo-mcp/rondo/internal/state/seal"
)

// FuzzOpen finds panics, unknown refusals, and tokens that open in a non-canonical spelling.
func FuzzOpen(f *testing.F) {
	seeds := append(acceptedVectors(f), refusedVectors(f)...)
	if len(seeds) == 0 {
		f.Fatal("no seeds")
	}
	for _, v := range seeds {
		f.Add(v.token)
	}
	ring, err := seal.ParseKeyring(vectorK1 + "," + vectorK2 + "," + vectorK3)
	noError(f, err)
	f.Fuzz(func(t *testing.T, token string) {
		plaintext, err := ring.Open(token, 8<<10)
		if err != nil {
			if plaintext != nil {
				t.Errorf("bytes beside the error %v", err)
			}
			if !isVerdict(err) {
				t.Errorf("error %v is none of the documented ones", err)
			}
			return
		}
		raw, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil {
			t.Fatalf("opened %q, which does not decode: %v", token, err)
		}
		if again := base64.RawURLEncoding.EncodeToString(raw); again != token {
			t.Errorf("opened a second spelling\n got %q\nfor %q", token, again)
		}
	})
}

func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("a state"), byte(0), uint16(0))
	f.Add([]byte{}, byte(0x80), uint16(40))
	ring, err := seal.ParseKeyring(vectorK1)
	noError(f, err)
	f.Fuzz(func(t *testing.T, plaintext []byte, flip byte, at uint16) {
		token := []byte(ring.Seal(plaintext))
		got, err := ring.Open(string(token), len(token))
		if err != nil || !bytes.Equal(got, plaintext) {
			t.Fatalf("Open = %x, %v; want %x", got, err, plaintext)
		}
		if flip == 0 {
			return
		}
		token[int(at)%len(token)] ^= flip
		if _, err := ring.Open(string(token), len(token)); err == nil {
			t.Errorf("opened with %#x flipped at %d", flip, int(at)%len(token))
		}
	})
}

func isVerdict(err error) bool {
	for _, want := range verdicts {
		if want != nil && errors.Is(err, want) {
			return true
		}
	}
	return false
}
