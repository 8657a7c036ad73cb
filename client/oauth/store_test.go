package oauth_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

func newFileStore(t *testing.T, folder string, key byte) *oauth.FileStore {
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
			if _, err := store.Load(t.Context(), k); !errors.Is(err, oauth.ErrNoRecord) {
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
				if _, err := store.Load(t.Context(), other); !errors.Is(err, oauth.ErrNoRecord) {
					t.Errorf("%q is the same record", other)
				}
			}
			noError.check(t, store.Delete(t.Context(), k))
			if _, err := store.Load(t.Context(), k); !errors.Is(err, oauth.ErrNoRecord) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A lockedStore cannot be locked.
type lockedStore struct{ oauth.TokenStore }

func (lockedStore) Lock(context.Context, oauth.Key) (func(), error) {
	return nil, errors.New("the disk is full")
}

// TestStoreThatCannotBeLocked fails the login before a page opens.
func TestStoreThatCannotBeLocked(t *testing.T) {
	s := newSite(t, nil, nil)
	source := s.source(t, func(o *oauth.Options) {
		o.Store = lockedStore{oauth.NewMemoryStore()}
	})
	wantedKind(oauth.ErrStore, "the disk is full").check(t, s.call(t.Context(), source, "search"))
	s.wantCounts(t, counts{oauthtest.Metadata: 0, oauthtest.Authorize: 0})
}

// TestFilesThatCannotBeOpened are errors, and nobody is logged in over them.
func TestFilesThatCannotBeOpened(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, file string, all []string){
		"torn": func(t *testing.T, file string, _ []string) {
			noError.check(t, os.Truncate(file, 10))
		},
		"empty": func(t *testing.T, file string, _ []string) {
			noError.check(t, os.Truncate(file, 0))
		},
		"that of another record": func(t *testing.T, file string, all []string) {
			for _, other := range all {
				if other != file {
					data, err := os.ReadFile(other)
					noError.check(t, err)
					noError.check(t, os.WriteFile(file, data, 0o600))
				}
			}
		},
		"a folder": func(t *testing.T, file string, _ []string) {
			noError.check(t, os.Remove(file))
			noError.check(t, os.Mkdir(file, 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, folder := newSite(t, nil, nil), t.TempDir()
			noError.check(t, s.call(t.Context(), s.withFiles(t, folder, 1), "search"))
			for _, file := range records(t, folder) {
				data, err := os.ReadFile(file)
				noError.check(t, err)
				s.wantNoSecrets(t, string(data))
				spoil(t, file, records(t, folder))
			}
			s.wantStoreError(t, s.withFiles(t, folder, 1))
		})
	}
	t.Run("sealed with another key", func(t *testing.T) {
		s, folder := newSite(t, nil, nil), t.TempDir()
		noError.check(t, s.call(t.Context(), s.withFiles(t, folder, 1), "search"))
		source := s.withFiles(t, folder, 2) // names depend on the key: it is nobody's login
		noError.check(t, s.call(t.Context(), source, "search"))
		noError.check(t, s.call(t.Context(), s.withFiles(t, folder, 1), "search"))
		s.wantCounts(t, counts{oauthtest.Authorize: 2})
	})
}

func (s *site) withFiles(t *testing.T, folder string, key byte) *oauth.Source {
	t.Helper()
	return s.source(t, func(o *oauth.Options) { o.Store = newFileStore(t, folder, key) })
}

func (s *site) wantStoreError(t *testing.T, source *oauth.Source) {
	t.Helper()
	err := s.call(t.Context(), source, "search")
	wantedKind(oauth.ErrStore, "").check(t, err)
	s.wantCounts(t, counts{oauthtest.Authorize: 1})
}

// records returns the files of records.
func records(t *testing.T, folder string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(folder, "*"))
	check(t, err)
	var found []string
	for _, file := range all {
		if !strings.HasSuffix(file, ".lock") {
			found = append(found, file)
		}
	}
	if len(found) < 2 {
		t.Fatalf("only %q", found)
	}
	return found
}

// TestLoginOutlivesAProcess: the next one needs no person.
func TestLoginOutlivesAProcess(t *testing.T) {
	s, folder := newSite(t, nil, nil), t.TempDir()
	noError.check(t, s.call(t.Context(), s.withFiles(t, folder, 1), "search"))
	s.as.Expire()
	next := s.withFiles(t, folder, 1)
	noError.check(t, s.call(t.Context(), next, "search"))
	s.wantCounts(t, counts{oauthtest.Authorize: 1, oauthtest.Refresh: 1})
	noError.check(t, next.Logout(t.Context()))
	last := s.source(t, func(o *oauth.Options) {
		o.Store, o.Interaction = newFileStore(t, folder, 1), nil
	})
	if err := s.call(t.Context(), last, "search"); !isA[*oauth.LoginRequiredError](err) {
		t.Errorf("got %v after a logout", err)
	}
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

// TestNothingIsLeftOfALogin after a logout, also where the server has moved to another
// authorization server since.
func TestNothingIsLeftOfALogin(t *testing.T) {
	s, store := newSite(t, nil, nil), &watchedStore{TokenStore: oauth.NewMemoryStore(),
		keys: map[oauth.Key]bool{}}
	source := s.source(t, func(o *oauth.Options) { o.Store = store })
	noError.check(t, s.call(t.Context(), source, "search"))
	s.resource.SetServers(oauthtest.NewServer(t, nil))
	noError.check(t, s.call(t.Context(), source, "search"))
	noError.check(t, source.Logout(t.Context()))
	for key := range store.keys {
		if key.Resource != "" { // registrations are those of the program
			t.Errorf("the record of %v is left", key)
		}
	}
}

// A watchedStore knows the keys of its records.
type watchedStore struct {
	oauth.TokenStore
	keys map[oauth.Key]bool
}

func (s *watchedStore) Save(ctx context.Context, k oauth.Key, record []byte) error {
	s.keys[k] = true
	return s.TokenStore.Save(ctx, k, record)
}

func (s *watchedStore) Delete(ctx context.Context, k oauth.Key) error {
	delete(s.keys, k)
	return s.TokenStore.Delete(ctx, k)
}
