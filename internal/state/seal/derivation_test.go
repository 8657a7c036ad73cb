package seal_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/rondo-mcp/rondo/internal/state/seal"
)

func TestADerivedKeyringOpensOnlyItsOwnTokens(t *testing.T) {
	ring := mustRing(t, mustKey(t, "k1", 1), mustKey(t, "k2", 2))
	one, again, other := ring.Derive("one"), ring.Derive("one"), ring.Derive("other")
	token := one.Seal([]byte("state"))
	if got, err := again.Open(token, maxToken); err != nil || string(got) != "state" {
		t.Errorf("the same purpose: got %q, %v", got, err)
	}
	for name, wrong := range map[string]*seal.Keyring{
		"another purpose": other, "no purpose": ring, "twice derived": one.Derive("one"),
	} {
		if _, err := wrong.Open(token, maxToken); !errors.Is(err, seal.ErrAuthentication) {
			t.Errorf("%s: got %v, want ErrAuthentication", name, err)
		}
	}
	if _, err := one.Open(ring.Seal([]byte("state")), maxToken); err == nil {
		t.Error("a derived keyring opens a token of the keyring that it is derived from")
	}
	if got, want := one.IDs(), ring.IDs(); !slices.Equal(got, want) {
		t.Errorf("ids: got %v, want %v", got, want)
	}
}

func TestADerivedKeyringRotatesLikeItsOriginal(t *testing.T) {
	old := mustRing(t, mustKey(t, "k1", 1)).Derive("p")
	rotated := mustRing(t, mustKey(t, "k2", 2), mustKey(t, "k1", 1)).Derive("p")
	if _, err := rotated.Open(old.Seal([]byte("x")), maxToken); err != nil {
		t.Errorf("a token of the older key: %v", err)
	}
	if _, err := old.Open(rotated.Seal([]byte("x")), maxToken); !errors.Is(err,
		seal.ErrUnknownKey) {
		t.Errorf("a token of a key that is not enabled yet: got %v", err)
	}
}
