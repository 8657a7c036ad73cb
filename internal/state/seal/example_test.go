package seal_test

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/state/seal"
)

func Example() {
	secret := bytes.Repeat([]byte{7}, seal.MinSecret) // use random bytes
	key, err := seal.NewKey("2026-07", secret)
	if err != nil {
		panic(err)
	}
	ring, err := seal.NewKeyring(key)
	if err != nil {
		panic(err)
	}
	fmt.Println(ring)

	token := string(ring.AppendSeal(nil, []byte("step 2 of 3")))
	state, err := ring.Open(nil, token, 16<<10)
	fmt.Printf("%s, %v\n", state, err)

	_, err = ring.Open(nil, token+"A", 16<<10)
	fmt.Println(err != nil)

	other, err := seal.NewKeyring(seal.NewEphemeralKey())
	if err != nil {
		panic(err)
	}
	_, err = other.Open(nil, token, 16<<10)
	fmt.Println(errors.Is(err, seal.ErrUnknownKey))
	// Output:
	// seal.Keyring(ids=2026-07, secrets redacted)
	// step 2 of 3, <nil>
	// true
	// true
}
