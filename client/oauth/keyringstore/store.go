package keyringstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/gofrs/flock"
	"github.com/zalando/go-keyring"

	"github.com/rondo-mcp/rondo/client/oauth"
)

const (
	// maxService bounds the name of a program, in bytes: Windows takes less than 512, macOS has a
	// bound for all parts of an entry together.
	maxService = 128
	// lockPause is the time between two attempts to acquire the lock of the key.
	lockPause = 20 * time.Millisecond
	// lockFile is held while a key is read or created: of processes that start at once, one does.
	lockFile = "keyring.lock"
)

// New returns a store in a folder, which it creates for its owner alone if it does not exist. The
// keyring has the key under service, the name of the program as people read it there, and a digest
// of the path of the folder. If there is no key, New creates one. Processes that have the same
// person, folder and service share the store.
//
// The end of ctx ends New: a keyring that is locked may ask the person for a password, and waits
// for as long as they need. New returns an error where there is no keyring, for example in a
// container, and where it does not keep the key. It never seals with a key that is not in the
// keyring. Calls may overlap.
func New(ctx context.Context, folder, service string) (*oauth.FileStore, error) {
	return open(ctx, osKeyring{keyring.Get, keyring.Set}, folder, service)
}

// An osKeyring has the operations on the keyring of the operating system. They may block while it
// asks the person.
type osKeyring struct {
	get func(service, user string) (string, error)
	set func(service, user, text string) error
}

// open is New with a keyring.
func open(ctx context.Context, ring osKeyring, folder, service string) (*oauth.FileStore, error) {
	if strings.TrimSpace(service) == "" || len(service) > maxService ||
		strings.ContainsFunc(service, unicode.IsControl) {
		return nil, fmt.Errorf("keyringstore: service must be the name of the program: 1 to %d "+
			"bytes, without control characters", maxService)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	user, err := entryName(folder)
	if err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(folder, lockFile), flock.SetPermissions(0o600))
	if ok, err := lock.TryLockContext(ctx, lockPause); err != nil || !ok {
		return nil, fmt.Errorf("keyringstore: another call or process waits for the keyring: %w",
			errors.Join(err, ctx.Err()))
	}
	type loaded struct {
		key [32]byte
		err error
	}
	done := make(chan loaded, 1)
	go func() { // which holds the lock as long as the keyring needs
		key, err := ring.loadKey(service, user)
		_ = lock.Close()
		done <- loaded{key, err}
	}()
	select {
	case l := <-done:
		if l.err != nil {
			return nil, fmt.Errorf("keyringstore: the keyring of the operating system: %w (without "+
				"one, keep a key elsewhere and use oauth.NewFileStore)", l.err)
		}
		return oauth.NewFileStore(folder, l.key)
	case <-ctx.Done():
		return nil, fmt.Errorf("keyringstore: the keyring has not answered; it may wait for the "+
			"person to unlock it: %w", ctx.Err())
	}
}

// entryName returns the name of the entry of a folder in the keyring: a digest, since keyrings
// bound names, and do not take each character of a path.
func entryName(folder string) (string, error) {
	path, err := filepath.Abs(folder)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	sum := sha256.Sum256([]byte(path))
	return "key-" + base64.RawURLEncoding.EncodeToString(sum[:18]), err
}

// loadKey returns the key in an entry of the keyring, and creates it if there is none. A panic is
// an error: go-keyring panics when a daemon ends while it asks the person.
func (ring osKeyring) loadKey(service, user string) (key [32]byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("it panicked")
		}
	}()
	text, err := ring.get(service, user)
	if errors.Is(err, keyring.ErrNotFound) {
		text, err = ring.createKey(service, user)
	}
	if err != nil {
		return key, err
	}
	decoded, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(decoded) != len(key) {
		return key, fmt.Errorf("the entry %s of %s is no key of this package; remove it to log "+
			"in anew", user, service)
	}
	return [32]byte(decoded), nil
}

// createKey creates a random key in the keyring, and reads it again: some keyrings report no error
// when the person refuses to unlock them.
func (ring osKeyring) createKey(service, user string) (string, error) {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	text := base64.RawURLEncoding.EncodeToString(key[:])
	if err := ring.set(service, user, text); err != nil {
		return "", err
	}
	switch kept, err := ring.get(service, user); {
	case errors.Is(err, keyring.ErrNotFound), err == nil && kept != text:
		return "", errors.New("it does not keep the key")
	case err != nil:
		return "", err
	}
	return text, nil
}
