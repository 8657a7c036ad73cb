package wire

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"
)

// A Sealer protects the state of Deploy in peers whose library leaves that to the handler. It uses
// AES-256-GCM and binds a state to what the specification recommends (basic/patterns/mrtr), as a
// careful author would do with the standard library.
type Sealer struct{ aead cipher.AEAD }

type claims struct {
	Expires   int64  `json:"exp"`
	Tool      string `json:"tool"`
	Arguments []byte `json:"args"` // digest of the arguments
}

// NewSealer returns a sealer with a new key.
func NewSealer() *Sealer {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // internal error: the key has the right length
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // internal error: AES has the right block size
	}
	return &Sealer{aead}
}

func digest(arguments string) []byte {
	sum := sha256.Sum256([]byte(arguments))
	return sum[:]
}

// Seal returns the state of a tool's call. The answering call must repeat arguments.
func (s *Sealer) Seal(tool, arguments string) string {
	plain, err := json.Marshal(claims{time.Now().Add(10 * time.Minute).Unix(), tool,
		digest(arguments)})
	if err != nil {
		panic(err) // internal error: the struct can be marshalled
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, []byte(tool)))
}

// Open checks the state of a call.
func (s *Sealer) Open(state, tool, arguments string) error {
	sealed, err := base64.RawURLEncoding.DecodeString(state)
	if err != nil {
		return err
	}
	plain, err := s.aead.Open(nil, nil, sealed, []byte(tool))
	if err != nil {
		return err
	}
	var c claims
	if err := json.Unmarshal(plain, &c); err != nil {
		return err
	}
	if c.Tool != tool || c.Expires < time.Now().Unix() ||
		string(c.Arguments) != string(digest(arguments)) {
		return errors.New("state rejected")
	}
	return nil
}
