package oauth_test

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"testing"

	"github.com/rondo-mcp/rondo/client/oauth"
)

// openLogins returns a store in a folder, whose key is in the OS keyring.
func openLogins(folder string) (oauth.TokenStore, error) {
	text, err := keyring.Get("Notes", "logins")
	if errors.Is(err, keyring.ErrNotFound) {
		if err = keyring.Set("Notes", "logins", rand.Text()); err == nil {
			text, err = keyring.Get("Notes", "logins") // some keep nothing and return no error
		}
	}
	if err == nil && len(text) < len(rand.Text()) {
		err = errors.New("the entry in the keyring is no key; remove it to log in again")
	}
	if err != nil {
		return nil, err
	}
	return oauth.NewFileStore(folder, sha256.Sum256([]byte(text)))
}

// keyring mimics package github.com/zalando/go-keyring, in memory.
var keyring memoryKeyring

type memoryKeyring struct {
	ErrNotFound error
	entries     map[[2]string]string // by service and user; nil: the keyring keeps nothing
}

func (k *memoryKeyring) Get(service, user string) (string, error) {
	if text, ok := k.entries[[2]string{service, user}]; ok {
		return text, nil
	}
	return "", k.ErrNotFound
}

func (k *memoryKeyring) Set(service, user, text string) error {
	if k.entries != nil {
		k.entries[[2]string{service, user}] = text
	}
	return nil
}

// A login is never sealed with a key that is not in the keyring.
func TestKeyInTheKeyring(t *testing.T) {
	s, folder := newSite(t, nil), t.TempDir()
	keyring = memoryKeyring{errors.New("not found"), map[[2]string]string{}}
	for range 2 { // the second round is a restarted program
		store, err := openLogins(folder)
		noError.check(t, err)
		s.run(s.source(storedIn(store)), "search authorize=1")
	}
	keyring.entries[[2]string{"Notes", "logins"}] = ""
	if store, err := openLogins(folder); err == nil {
		t.Errorf("got %v for an entry that is no key", store)
	}
	keyring.entries = nil
	if store, err := openLogins(folder); !errors.Is(err, keyring.ErrNotFound) {
		t.Errorf("got %v, %v where the key was not kept", store, err)
	}
}
