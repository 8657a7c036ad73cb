package testkit_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

type fakeSecret struct {
	testing.TB
	failed bool
}

func (f *fakeSecret) Helper()               {}
func (f *fakeSecret) Error(...any)          { f.failed = true }
func (f *fakeSecret) Errorf(string, ...any) { f.failed = true }

// The type hidden keeps the secret in a closure, which printers cannot read.
type hidden struct{ reveal func() []byte }

// A stringer hides the secret only from verbs that call String.
type stringer struct{ secret []byte }

func (stringer) String() string { return "redacted" }

// The type encoded shows the secret in base64, with a prefix.
type encoded struct{ secret []byte }

func (e encoded) String() string { return "key:" + base64.RawURLEncoding.EncodeToString(e.secret) }

type failing struct{ secret []byte }

func (f *failing) MarshalJSON() ([]byte, error) {
	return nil, fmt.Errorf("cannot marshal key %x", f.secret)
}
func (f *failing) Format(s fmt.State, _ rune) { fmt.Fprint(s, "redacted") }

func TestCheck(t *testing.T) {
	sum := sha256.Sum256([]byte("secret"))
	secret := sum[:]
	text := []byte("correct horse battery staple")
	for _, test := range []struct {
		name   string
		secret []byte
		value  any
		leaks  bool
	}{
		{"closure", secret, hidden{func() []byte { return secret }}, false},
		{"pointer to closure", secret, &hidden{func() []byte { return secret }}, false},
		{"digest of the secret", text, sha256.Sum256(text), false},
		{"plain bytes", secret, secret, true},
		{"array", secret, sum, true},
		{"text in bytes", text, text, true},
		{"text in a string", text, string(text), true},
		{"String method alone", secret, stringer{secret}, true},
		{"base64 under a prefix", secret, encoded{secret}, true},
		{"error of a marshaller", secret, &failing{secret}, true},
		{"deep inside", secret, map[string][]any{"a": {struct{ b []byte }{secret}}}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &fakeSecret{}
			testkit.CheckSecret(f, test.secret, test.value)
			if f.failed != test.leaks {
				t.Errorf("reported %v, want %v", f.failed, test.leaks)
			}
		})
	}
}

func TestCheckRefusesToProveNothing(t *testing.T) {
	for name, check := range map[string]func(testing.TB){
		"short secret": func(f testing.TB) { testkit.CheckSecret(f, []byte("abc"), 1) },
		"no values":    func(f testing.TB) { testkit.CheckSecret(f, []byte("long enough")) },
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeSecret{}
			if check(f); !f.failed {
				t.Error("passed, want a failure")
			}
		})
	}
}
