package oauth_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

func newFileStore(t *testing.T, folder string, key byte) oauth.TokenStore {
	t.Helper()
	store, err := oauth.NewFileStore(folder, [32]byte{key})
	check(t, err)
	return store
}

func TestStoresKeepRecords(t *testing.T) {
	for name, store := range map[string]oauth.TokenStore{
		"memory": oauth.NewMemoryStore(), "file": newFileStore(t, t.TempDir(), 1)} {
		t.Run(name, func(t *testing.T) {
			k := oauth.Key{Issuer: "i", Resource: "r", Account: "a"}
			if got, err := store.Load(t.Context(), k); got != nil || err != nil {
				t.Errorf("got %v", err)
			}
			noError.check(t, store.Delete(t.Context(), k))
			for _, text := range []string{"one", "two"} {
				noError.check(t, store.Save(t.Context(), k, []byte(text)))
				got, err := store.Load(t.Context(), k)
				if err != nil || string(got) != text {
					t.Errorf("got %s, %v", got, err)
				}
			}
			for _, other := range []oauth.Key{{"i", "r", ""}, {"", "i\x00r", "a"},
				{"i", "", "r\x00a"}, {"i\x00r", "", "a"}} {
				if got, err := store.Load(t.Context(), other); got != nil || err != nil {
					t.Errorf("%q is the same record", other)
				}
			}
			noError.check(t, store.Delete(t.Context(), k))
			if got, err := store.Load(t.Context(), k); got != nil || err != nil {
				t.Errorf("got %v", err)
			}
		})
	}
}

type lockedStore struct{ oauth.TokenStore }

func (lockedStore) Lock(context.Context, oauth.Key) (func(), error) {
	return nil, errors.New("the disk is full")
}

// If the store cannot be locked, the login fails before a page opens.
func TestStoreThatCannotBeLocked(t *testing.T) {
	scenario{opts: func(_ *site, o *oauth.Options) {
		o.Store = lockedStore{oauth.NewMemoryStore()}
	}, script: "search:store metadata=0 authorize=0", says: "the disk is full"}.play(t)
}

// Files that cannot be opened are errors, and no login replaces them.
func TestFilesThatCannotBeOpened(t *testing.T) {
	for name, spoil := range map[string]func(file, other string) error{
		"torn":  func(file, _ string) error { return os.Truncate(file, 10) },
		"empty": func(file, _ string) error { return os.Truncate(file, 0) },
		"that of another record": func(file, other string) error {
			data, err := os.ReadFile(other)
			return errors.Join(err, os.WriteFile(file, data, 0o600))
		},
		"a folder": func(file, _ string) error {
			return errors.Join(os.Remove(file), os.Mkdir(file, 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			s, _ := newLogin(t, inFiles(t, folder, 1))
			files := records(t, folder)
			for i, file := range files {
				data, err := os.ReadFile(file)
				noError.check(t, err)
				s.wantNoSecrets(string(data))
				noError.check(t, spoil(file, files[(i+1)%len(files)]))
			}
			s.run(s.source(inFiles(t, folder, 1)), "search:store authorize=1")
		})
	}
	t.Run("sealed with another key", func(t *testing.T) {
		folder := t.TempDir()
		s, _ := newLogin(t, inFiles(t, folder, 1))
		// The files' names depend on the key, so the login is not found.
		s.run(s.source(inFiles(t, folder, 2)), "search")
		s.run(s.source(inFiles(t, folder, 1)), "search authorize=2")
	})
}

func inFiles(t *testing.T, folder string, key byte) func(o *oauth.Options) {
	t.Helper()
	return storedIn(newFileStore(t, folder, key))
}

func records(t *testing.T, folder string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(folder, "*"))
	check(t, err)
	found := slices.DeleteFunc(all, func(file string) bool {
		return strings.HasSuffix(file, ".lock")
	})
	if len(found) < 2 {
		t.Fatalf("only %q", found)
	}
	return found
}

// A login outlives its process: the next process needs no user.
func TestLoginOutlivesAProcess(t *testing.T) {
	folder := t.TempDir()
	s, _ := newLogin(t, inFiles(t, folder, 1))
	s.run(s.source(inFiles(t, folder, 1)), "expire search authorize=1 refresh=1 logout")
	s.run(s.source(inFiles(t, folder, 1), nobody), "search:required")
}

func TestFileStoreIsForItsOwner(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "logins")
	newFileStore(t, folder, 1)
	info, err := os.Stat(folder)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, err := oauth.NewFileStore(folder, [32]byte{}); err == nil {
		t.Error("a key of zeros was accepted")
	}
	file := filepath.Join(folder, "file")
	noError.check(t, os.WriteFile(file, nil, 0o600))
	if _, err := oauth.NewFileStore(file, [32]byte{1}); err == nil {
		t.Error("a file is not a folder")
	}
}

// A watchedStore remembers the keys of its records, and edits records when they are loaded.
type watchedStore struct {
	oauth.TokenStore
	keys  map[oauth.Key]bool // of records; nil: not remembered
	locks *atomic.Int32      // counts the locks of endpoints; nil: not counted
	edit  func(k oauth.Key, record map[string]any)
}

func (s *watchedStore) Load(ctx context.Context, k oauth.Key) ([]byte, error) {
	record, err := s.TokenStore.Load(ctx, k)
	if record == nil || s.edit == nil {
		return record, err
	}
	members := map[string]any{}
	if err := json.Unmarshal(record, &members); err != nil {
		return nil, err
	}
	s.edit(k, members)
	return json.Marshal(members)
}

func (s *watchedStore) Save(ctx context.Context, k oauth.Key, record []byte) error {
	if s.keys != nil {
		s.keys[k] = true
	}
	return s.TokenStore.Save(ctx, k, record)
}

func (s *watchedStore) Delete(ctx context.Context, k oauth.Key) error {
	delete(s.keys, k)
	return s.TokenStore.Delete(ctx, k)
}

func (s *watchedStore) Lock(ctx context.Context, k oauth.Key) (func(), error) {
	if s.locks != nil && k.Resource != "" {
		s.locks.Add(1)
	}
	return s.TokenStore.Lock(ctx, k)
}

func editedLogins(store oauth.TokenStore, edit func(login map[string]any)) *watchedStore {
	return &watchedStore{TokenStore: store, edit: func(k oauth.Key, record map[string]any) {
		if k.Issuer != "" && k.Resource != "" {
			edit(record)
		}
	}}
}

// The function expiring makes all tokens of a store look expired.
func expiring(store oauth.TokenStore) *watchedStore {
	return editedLogins(store, func(login map[string]any) {
		login["expiry"] = time.Now().Add(-time.Hour)
	})
}

// After a logout nothing is left of a login, even if the server has moved to another issuer.
func TestNothingIsLeftOfALogin(t *testing.T) {
	store := &watchedStore{TokenStore: oauth.NewMemoryStore(), keys: map[oauth.Key]bool{}}
	s, source := newLogin(t, storedIn(store))
	s.resource.SetServers(oauthtest.NewServer(t, nil))
	s.run(source, "search logout")
	for key := range store.keys {
		if key.Resource != "" { // registrations are the program's
			t.Errorf("the record of %v is left", key)
		}
	}
}

// A registration whose secret has expired is used neither for a refresh nor for a login.
func TestRegistrationWhoseSecretHasExpired(t *testing.T) {
	var over atomic.Bool
	store := &watchedStore{TokenStore: oauth.NewMemoryStore(),
		edit: func(_ oauth.Key, record map[string]any) {
			clients, _ := record["clients"].([]any)
			for _, c := range clients {
				if over.Load() {
					c.(map[string]any)["expiry"] = time.Now().Add(-time.Second)
				}
			}
		}}
	s := newSite(t, nil)
	onlyMethod("client_secret_basic")(s)
	source := s.source(storedIn(store))
	s.run(source, "search expire")
	over.Store(true)
	s.browser.Deliver = func(ctx context.Context, callback *url.URL) {
		over.Store(false) // the new registration has not expired
		// The login may end before the page is loaded.
		_, err := s.browser.Load(context.WithoutCancel(ctx), callback.String())
		noError.check(t, err)
	}
	s.run(source, "search register=2 authorize=2 refresh=0")
}

// A key-bound token that an older version stored is never sent as a bearer token.
func TestBoundTokenInTheStore(t *testing.T) {
	memory := oauth.NewMemoryStore()
	s, _ := newLogin(t, storedIn(memory))
	old := s.resource.Requests(oauthtest.Call)[1].Header.Get("Authorization")
	before := s.resource.Count(oauthtest.Call)
	s.run(s.source(storedIn(editedLogins(memory, func(login map[string]any) {
		login["jkt"] = "thumbprint"
	}))), "search authorize=2")
	for _, r := range s.resource.Requests(oauthtest.Call)[before:] {
		if r.Header.Get("Authorization") == old {
			t.Error("the bound token was sent")
		}
	}
}
