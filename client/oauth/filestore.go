package oauth

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/rondo-mcp/rondo/internal/state/seal"
)

const (
	lockPause      = 20 * time.Millisecond // between two attempts to acquire a lock
	maxRecordBytes = 1 << 20
)

type fileStore struct {
	folder string
	ring   *seal.Keyring
	names  []byte // the key that hashes the names of files
}

// NewFileStore returns a store that keeps each record in a sealed file of a folder, which it
// creates for its owner alone. Processes with the same folder and key share the store. key must be
// random and kept elsewhere, for example in the OS keyring (see README.md). A damaged file, or one
// sealed with another key, is an error until it is removed: no login replaces it. NewFileStore
// fails if the folder cannot be used, or if key is zero.
func NewFileStore(folder string, key [32]byte) (TokenStore, error) {
	if key == [32]byte{} {
		return nil, errors.New("oauth: the key of the store is zero; it must be random")
	}
	sealing, err := seal.NewKey("store", key[:])
	if err != nil {
		return nil, err
	}
	ring, err := seal.NewKeyring(sealing)
	if err != nil {
		return nil, err
	}
	names, err := hkdf.Key(sha256.New, key[:], nil, "rondo oauth file names", sha256.Size)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	return &fileStore{folder, ring, names}, nil
}

// Format prints only the folder.
func (s *fileStore) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "store in the folder %s", s.folder)
}

// recordPath returns a record's path. The name is a keyed hash, which hides the servers in use.
func (s *fileStore) recordPath(k Key) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%s", s.names, k.Issuer, k.Resource,
		k.Account))
	return filepath.Join(s.folder, base64.RawURLEncoding.EncodeToString(sum[:18]))
}

func (s *fileStore) Load(_ context.Context, k Key) ([]byte, error) {
	path := s.recordPath(k)
	token, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	whole, err := s.ring.Open(string(token), maxRecordBytes)
	if err != nil {
		return nil, fmt.Errorf("oauth: the file %s cannot be opened: it is torn, or sealed with "+
			"another key; remove it to log in again: %w", path, err)
	}
	// The name is sealed with the record, so that a renamed file is detected.
	name, record, ok := bytes.Cut(whole, []byte{0})
	if !ok || string(name) != filepath.Base(path) {
		return nil, fmt.Errorf("oauth: the file %s belongs to another record", path)
	}
	return record, nil
}

// Save writes a temporary file and renames it.
func (s *fileStore) Save(_ context.Context, k Key, record []byte) error {
	path := s.recordPath(k)
	token := s.ring.Seal(fmt.Appendf(nil, "%s\x00%s", filepath.Base(path), record))
	f, err := os.CreateTemp(s.folder, "new-*") // readable for its owner only
	if err != nil {
		return err
	}
	_, err = f.WriteString(token)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

func (s *fileStore) Delete(_ context.Context, k Key) error {
	if err := os.Remove(s.recordPath(k)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Lock acquires an advisory file lock, released when the process dies. The lock's file stays.
func (s *fileStore) Lock(ctx context.Context, k Key) (unlock func(), err error) {
	lock := flock.New(s.recordPath(k)+".lock", flock.SetPermissions(0o600))
	ok, err := lock.TryLockContext(ctx, lockPause)
	if err != nil || !ok {
		return nil, errors.Join(err, ctx.Err())
	}
	return func() { _ = lock.Close() }, nil
}
