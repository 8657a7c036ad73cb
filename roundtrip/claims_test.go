package roundtrip_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/rondo-mcp/rondo/roundtrip"
)

// TestClaimsHaveOneEncoding changes each byte of honest claims to each other,
// and pads each that may be a number. What is still read is written as it came.
func TestClaimsHaveOneEncoding(t *testing.T) {
	data := appended(t, honest())
	check := func(changed []byte) bool {
		again, err := roundtrip.ReencodeClaims(changed)
		if err == nil && !bytes.Equal(again, changed) {
			t.Errorf("%x is read, and written again as %x", changed, again)
		}
		return err == nil
	}
	if !check(data) {
		t.Fatal("honest claims are refused")
	}
	for i := range data {
		changed := bytes.Clone(data)
		for b := range 256 {
			changed[i] = byte(b)
			check(changed)
		}
		check(slices.Concat(data[:i], []byte{data[i] | 0x80, 0}, data[i+1:]))
		if check(data[:i]) {
			t.Errorf("claims of %d bytes are read", i)
		}
	}
	// Key, kind, outcome: of what nobody can have answered nothing is carried.
	outcome := bytes.Index(data, []byte("region")) + len("region") + 1
	for _, b := range []byte{byte(roundtrip.Missing), byte(roundtrip.Invalid), 255} {
		changed := bytes.Clone(data)
		changed[outcome] = b
		if check(changed) {
			t.Errorf("an answer of outcome %d is read", b)
		}
	}
}
