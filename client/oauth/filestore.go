package oauth

import (
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

	"github.com/rondo-mcp/rondo/internal/seal"
)

const (
	// lockPause is the time between two looks at a lock that another process holds.
	lockPause = 20 * time.Millisecond
	// maxRecordBytes bounds a record in a file.
	maxRecordBytes = 1 << 20
)

// A FileStore keeps records in sealed files of a folder, a file for each. Processes that have the
// same folder and key share it. A file that cannot be opened, because it is torn or of another
// key, is an error and is not replaced before somebody has taken it away.
type FileStore struct {
	folder string
	ring   *seal.Keyring
	names  []byte // makes names of files
}

// NewFileStore returns a store in a folder, which is made, readable for its owner alone, if it is
// not there. key seals the files. It must be random and be kept elsewhere, for example in the
// keyring of the operating system.
func NewFileStore(folder string, key [32]byte) (*FileStore, error) {
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
	info, err := os.Stat(folder)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("oauth: %s is not a folder", folder)
	}
	return &FileStore{folder, ring, names}, nil
}

// Format implements [fmt.Formatter]. It prints the folder alone, whatever the verb.
func (s *FileStore) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "store in the folder %s", s.folder)
}

// path returns the file of a record. Names do not tell which servers a person uses.
func (s *FileStore) path(k Key) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%s", s.names, k.Issuer, k.Resource,
		k.Account))
	return filepath.Join(s.folder, base64.RawURLEncoding.EncodeToString(sum[:18]))
}

// Load implements [Store].
func (s *FileStore) Load(_ context.Context, k Key) ([]byte, error) {
	path := s.path(k)
	token, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoRecord
	}
	if err != nil {
		return nil, err
	}
	whole, err := s.ring.Open(nil, string(token), maxRecordBytes)
	if err != nil {
		return nil, fmt.Errorf("oauth: the file %s cannot be opened: it is torn, or sealed with "+
			"another key; remove it to log in anew: %w", path, err)
	}
	name, record, ok := cutName(whole)
	if !ok || name != filepath.Base(path) {
		return nil, fmt.Errorf("oauth: the file %s is that of another record", path)
	}
	return record, nil
}

// cutName splits the name of its file off a record: files that change places are noticed.
func cutName(whole []byte) (name string, record []byte, ok bool) {
	for i, c := range whole {
		if c == 0 {
			return string(whole[:i]), whole[i+1:], true
		}
	}
	return "", nil, false
}

// Save implements [Store]. The record is written aside and put into its place.
func (s *FileStore) Save(_ context.Context, k Key, record []byte) error {
	path := s.path(k)
	token := s.ring.Seal(fmt.Appendf(nil, "%s\x00%s", filepath.Base(path), record))
	f, err := os.CreateTemp(s.folder, "new-*") // readable for its owner alone
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

// Delete implements [Store].
func (s *FileStore) Delete(_ context.Context, k Key) error {
	if err := os.Remove(s.path(k)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Lock implements [Store], by a lock on a file that the operating system lets go when the process
// dies. The file stays.
func (s *FileStore) Lock(ctx context.Context, k Key) (unlock func(), err error) {
	lock := flock.New(s.path(k)+".lock", flock.SetPermissions(0o600))
	ok, err := lock.TryLockContext(ctx, lockPause)
	if err != nil || !ok {
		return nil, errors.Join(err, ctx.Err())
	}
	return func() { _ = lock.Close() }, nil
}
