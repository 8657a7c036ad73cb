package seal_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/internal/state/seal"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

const maxToken = 64 << 10

// alphabet is base64url, in the order of the values.
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// secretBytes returns a secret whose 32 bytes all differ.
func secretBytes(seed byte) []byte {
	sum := sha256.Sum256([]byte{'t', 'e', 's', 't', seed})
	return sum[:]
}

func mustKey(t testing.TB, id string, seed byte) seal.Key {
	t.Helper()
	key, err := seal.NewKey(id, secretBytes(seed))
	noError(t, err)
	return key
}

func mustRing(t testing.TB, primary seal.Key, older ...seal.Key) *seal.Keyring {
	t.Helper()
	ring, err := seal.NewKeyring(primary, older...)
	noError(t, err)
	return ring
}

func TestRoundTrip(t *testing.T) {
	ring := mustRing(t, mustKey(t, "k1", 1))
	for _, size := range []int{0, 1, 2, 3, 15, 16, 17, 200, 4096, 40 << 10} {
		want := bytes.Repeat([]byte{0xa5}, size)
		token := ring.Seal(want)
		if strings.Contains(token, string(want)) && size > 0 {
			t.Errorf("size %d: token contains the plaintext", size)
		}
		got, err := ring.Open(token, len(token))
		if err != nil {
			t.Fatalf("size %d: Open: %v", size, err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("size %d: Open gave other bytes back", size)
		}
	}
}

func TestTokensAreFresh(t *testing.T) {
	ring := mustRing(t, mustKey(t, "k1", 1))
	seen := make(map[string]bool)
	for range 1000 {
		token := ring.Seal([]byte("same"))
		if seen[token] {
			t.Fatal("Seal returned the same token twice")
		}
		seen[token] = true
	}
}

// TestFormat opens and seals a token by the design record alone.
func TestFormat(t *testing.T) {
	const id, plaintext = "2026-07.a_B", "what the record says"
	ring := mustRing(t, mustKey(t, id, 7))
	random := [24]byte([]byte("abcdefghijklmnopqrstuvwx"))

	info := "rondo/requestState/v1" + string(rune(len(id))) + id + string(random[:12])
	key, err := hkdf.Key(sha256.New, secretBytes(7), []byte("rondo/requestState/v1"), info, 32)
	noError(t, err)
	block, err := aes.NewCipher(key)
	noError(t, err)
	gcm, err := cipher.NewGCM(block)
	noError(t, err)
	raw := append([]byte{1, byte(len(id))}, id...)
	raw = append(raw, random[:]...)
	raw = gcm.Seal(raw, random[12:], []byte(plaintext), []byte("\x12rondo/requestState\x01\x0b"+id))
	want := base64.RawURLEncoding.EncodeToString(raw)

	if got := ring.SealRandom([]byte(plaintext), random); got != want {
		t.Errorf("Seal\n got %s\nwant %s", got, want)
	}
	got, err := ring.Open(want, maxToken)
	if err != nil || string(got) != plaintext {
		t.Errorf("Open = %q, %v; want %q", got, err, plaintext)
	}
}

// TestEveryTamperedByte replaces each byte with every other base64url character, and some more.
func TestEveryTamperedByte(t *testing.T) {
	ring := mustRing(t, mustKey(t, "k1", 1), mustKey(t, "k2", 2))
	for _, plaintext := range []string{"", "a", "ab", "a state of some length"} {
		token := []byte(ring.Seal([]byte(plaintext)))
		for i, honest := range token {
			for _, c := range []byte(alphabet + "+/= \t\r\n\x00\x80\xff") {
				if c == honest {
					continue
				}
				forged := bytes.Clone(token)
				forged[i] = c
				got, err := ring.Open(string(forged), maxToken)
				if err == nil {
					t.Fatalf("%q: opened with %q at %d", plaintext, c, i)
				}
				if got != nil {
					t.Fatalf("%q: Open returned bytes beside %v", plaintext, err)
				}
				outside := !strings.ContainsRune(alphabet, rune(c))
				if outside != errors.Is(err, seal.ErrAlphabet) {
					t.Fatalf("%q: %q at %d: %v", plaintext, c, i, err)
				}
			}
		}
	}
}

func TestEveryTruncation(t *testing.T) {
	ring := mustRing(t, mustKey(t, "k1", 1))
	token := ring.Seal([]byte("a state of some length"))
	const shortest = 2 + 2 + 24 + 16 // bytes, with an empty plaintext
	for n := range len(token) {
		_, err := ring.Open(token[:n], maxToken)
		switch {
		case err == nil:
			t.Errorf("opened the first %d characters", n)
		case n*6/8 < shortest && !errors.Is(err, seal.ErrTruncated) &&
			!errors.Is(err, seal.ErrNonCanonical):
			t.Errorf("first %d characters: %v", n, err)
		}
		if _, err := ring.Open(token[n+1:], maxToken); err == nil {
			t.Errorf("opened without the first %d characters", n+1)
		}
	}
	for i := range alphabet {
		if _, err := ring.Open(token+alphabet[i:i+1], maxToken); err == nil {
			t.Errorf("opened with %q behind it", alphabet[i])
		}
	}
}

// TestInsertedByte guards against decoders that skip bytes, as encoding/base64 does with CR and LF.
func TestInsertedByte(t *testing.T) {
	ring := mustRing(t, mustKey(t, "k1", 1))
	token := ring.Seal([]byte("state"))
	for i := range len(token) + 1 {
		for c := range 256 {
			b := string([]byte{byte(c)})
			_, err := ring.Open(token[:i]+b+token[i:], maxToken)
			if strings.Contains(alphabet, b) {
				if err == nil {
					t.Fatalf("opened with %q at %d", b, i)
				}
			} else if !errors.Is(err, seal.ErrAlphabet) {
				t.Fatalf("%q at %d: got %v, want ErrAlphabet", b, i, err)
			}
		}
	}
}

func TestLimit(t *testing.T) {
	ring := mustRing(t, mustKey(t, "k1", 1))
	token := ring.Seal([]byte("state"))
	for _, tc := range []struct {
		name string
		max  int
		want error
	}{
		{"over the length", len(token) + 1, nil},
		{"the length", len(token), nil},
		{"one less", len(token) - 1, seal.ErrTooLong},
		{"zero", 0, seal.ErrTooLong},
		{"negative", -1, seal.ErrTooLong},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ring.Open(token, tc.max)
			testkit.WantIs(t, "opened", err, tc.want)
		})
	}
}

func TestRotation(t *testing.T) {
	k1, k2 := mustKey(t, "k1", 1), mustKey(t, "k2", 2)
	before, during, after := mustRing(t, k1, k2), mustRing(t, k2, k1), mustRing(t, k2)
	old := before.Seal([]byte("old"))
	fresh := during.Seal([]byte("new"))

	if got := before.Primary() + " " + during.Primary(); got != "k1 k2" {
		t.Errorf("primaries = %q, want %q", got, "k1 k2")
	}
	for _, tc := range []struct {
		name  string
		ring  *seal.Keyring
		token string
		want  error
	}{
		{"old token before", before, old, nil},
		{"new token before", before, fresh, nil},
		{"old token during", during, old, nil},
		{"new token during", during, fresh, nil},
		{"old token after", after, old, seal.ErrUnknownKey},
		{"new token after", after, fresh, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := tc.ring.Open(tc.token, maxToken)
			testkit.WantIs(t, "opened", err, tc.want)
		})
	}
}

// If two ids share a secret, a token of one id must not open as the other's.
func TestIDIsBound(t *testing.T) {
	ring := mustRing(t, mustKey(t, "k1", 1), mustKey(t, "k2", 1))
	raw, err := base64.RawURLEncoding.DecodeString(ring.Seal([]byte("state")))
	noError(t, err)
	raw[3] = '2'
	_, err = ring.Open(base64.RawURLEncoding.EncodeToString(raw), maxToken)
	testkit.WantIs(t, "another id's token", err, seal.ErrAuthentication)
}

func TestEphemeral(t *testing.T) {
	a, b := seal.NewEphemeralKey(), seal.NewEphemeralKey()
	if !a.Ephemeral() || a.ID() == b.ID() || len(a.ID()) != 10 || !strings.HasPrefix(a.ID(), "e-") {
		t.Errorf("ephemeral keys %v and %v", a, b)
	}
	ringA, ringB := mustRing(t, a), mustRing(t, b)
	if !ringA.Ephemeral() {
		t.Error("the keyring of an ephemeral key is not ephemeral")
	}
	if mustRing(t, mustKey(t, "k1", 1), a).Ephemeral() {
		t.Error("a keyring is ephemeral for the sake of an older key")
	}
	token := ringA.Seal([]byte("state"))
	_, err := ringA.Open(token, maxToken)
	noError(t, err)
	_, err = ringB.Open(token, maxToken)
	testkit.WantIs(t, "another's token", err, seal.ErrForeignEphemeral)
}

func TestNewKeyRefuses(t *testing.T) {
	good := secretBytes(1)
	for _, tc := range []struct {
		name, id string
		secret   []byte
		want     string
	}{
		{"empty id", "", good, "key id is empty"},
		{"long id", strings.Repeat("k", seal.MaxID+1), good, "33 bytes"},
		{"space", "a b", good, "offset 1"},
		{"newline", "a\n", good, "offset 1"},
		{"not ASCII", "é", good, "offset 0"},
		{"colon", "a:b", good, "offset 1"},
		{"reserved", "e-mine", good, "reserved"},
		{"no secret", "k1", nil, "secret has 0 bytes"},
		{"short secret", "k1", good[:31], "secret has 31 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			key, err := seal.NewKey(tc.id, tc.secret)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got error %v, want one with %q", tc.name, err, tc.want)
			}
			if _, err := seal.NewKeyring(key); err == nil {
				t.Errorf("%s: the refused key is usable", tc.name)
			}
		})
	}
	if _, err := seal.NewKey(strings.Repeat("k", seal.MaxID), append(good, good...)); err != nil {
		t.Errorf("longest id and a long secret: %v", err)
	}
}

func TestNewKeyCopiesTheSecret(t *testing.T) {
	secret := secretBytes(1)
	key, err := seal.NewKey("k1", secret)
	noError(t, err)
	token := mustRing(t, mustKey(t, "k1", 1)).Seal([]byte("state"))
	clear(secret)
	if _, err := mustRing(t, key).Open(token, maxToken); err != nil {
		t.Errorf("after the caller cleared its secret: %v", err)
	}
}

func TestNewKeyringRefuses(t *testing.T) {
	k1 := mustKey(t, "k1", 1)
	for _, tc := range []struct {
		name    string
		primary seal.Key
		older   []seal.Key
		want    string
	}{
		{"zero primary", seal.Key{}, nil, "key 1 is the zero Key"},
		{"zero older", k1, []seal.Key{{}}, "key 2 is the zero Key"},
		{"same id", k1, []seal.Key{mustKey(t, "k2", 2), mustKey(t, "k1", 3)}, `id "k1"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ring, err := seal.NewKeyring(tc.primary, tc.older...)
			if err == nil || ring != nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got %v, %v; want an error with %q", tc.name, ring, err, tc.want)
			}
		})
	}
}

// TestConcurrentUse is for the race detector, and for scratch shared by mistake.
func TestConcurrentUse(t *testing.T) {
	ring := mustRing(t, mustKey(t, "k1", 1))
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			want := bytes.Repeat([]byte{byte(worker)}, 100*worker)
			for range 200 {
				token := ring.Seal(want)
				got, err := ring.Open(token, maxToken)
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("worker %d: got %s, %v", worker, hex.EncodeToString(got), err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("sync.Pool drops values at random under the race detector")
	}
	ring := mustRing(t, mustKey(t, "k1", 1))
	plaintext := make([]byte, 200)
	token := ring.Seal(plaintext)
	// The AES key schedule, the GCM around it and the result: one each.
	const want = 3
	if got := testing.AllocsPerRun(500, func() { ring.Seal(plaintext) }); got > want {
		t.Errorf("Seal makes %v allocations, want at most %d", got, want)
	}
	if got := testing.AllocsPerRun(500, func() { ring.Open(token, maxToken) }); got > want {
		t.Errorf("Open makes %v allocations, want at most %d", got, want)
	}
}
