package replica

import (
	"context"
	"crypto/rand"
	"errors"
)

// Purpose is what the keyring of replicas is derived for.
const Purpose = "rondo/replicas/v1"

const (
	// MaxName is the length of the longest name, as of a DNS label.
	MaxName = 63
	// MaxInner is the length of the longest inner id.
	MaxInner = 128
	// maxToken is the length of the longest token: a header of some kilobytes. The
	// longest plaintext, a session id, has under 256 bytes.
	maxToken = 1 << 10
)

// A Sealer seals and opens tokens.
type Sealer interface {
	Seal(ctx context.Context, plaintext []byte) (string, error)
	Open(ctx context.Context, text string) ([]byte, error)
}

// A Start is the random number of one start of a replica.
type Start [16]byte

// An Owner is one run of a replica.
type Owner struct {
	Name  string
	Start Start
}

// NewOwner returns the owner that begins now.
func NewOwner(name string) (Owner, error) {
	if !IsName(name) {
		return Owner{}, errors.New("the name of a replica must be a DNS label: 1 to 63 lower-case " +
			"letters, digits and inner hyphens")
	}
	o := Owner{Name: name}
	rand.Read(o.Start[:]) // never fails
	return o, nil
}

// IsName reports whether a replica may have a name: it must be a DNS label, so that
// nothing else than a host can be named by it.
func IsName(name string) bool {
	if name == "" || len(name) > MaxName || name[0] == '-' || name[len(name)-1] == '-' {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
