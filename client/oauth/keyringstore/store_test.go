package keyringstore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/client/oauth/keyringstore"
)

// A ring is a keyring of an operating system.
type ring struct {
	mu      sync.Mutex
	entries map[string]string
	created int
	get     func(text string, err error) (string, error) // nil: as it is
}

func (r *ring) load(service, user string) (string, error) {
	r.mu.Lock()
	text, ok := r.entries[service+"\x00"+user]
	r.mu.Unlock()
	var err error
	if !ok {
		err = keyring.ErrNotFound
	}
	if r.get != nil {
		return r.get(text, err)
	}
	return text, err
}

func (r *ring) save(service, user, text string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries == nil {
		r.entries = map[string]string{}
	}
	r.entries[service+"\x00"+user] = text
	r.created++
	return nil
}

func (r *ring) open(ctx context.Context, folder, service string) (*oauth.FileStore, error) {
	return keyringstore.NewWith(ctx, r.load, r.save, folder, service)
}

func (r *ring) mustOpen(t *testing.T, folder, service string) *oauth.FileStore {
	t.Helper()
	store, err := r.open(t.Context(), folder, service)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

var record = oauth.Key{Issuer: "https://login.example.com", Resource: "https://mcp.example.com",
	Account: "ann"}

func save(t *testing.T, store oauth.TokenStore, text string) {
	t.Helper()
	if err := store.Save(t.Context(), record, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func wantRecord(t *testing.T, store oauth.TokenStore, want string) {
	t.Helper()
	if got, err := store.Load(t.Context(), record); err != nil || string(got) != want {
		t.Errorf("got %d bytes, %v, want %d", len(got), err, len(want))
	}
}

func wantNoRecord(t *testing.T, store oauth.TokenStore) {
	t.Helper()
	if got, err := store.Load(t.Context(), record); !errors.Is(err, oauth.ErrNoRecord) {
		t.Errorf("got %q, %v, want no record", got, err)
	}
}

// TestLoginThatNoEntryHolds: the tokens of identity providers are longer than an entry of a
// keyring may be, and none of their bytes is in it.
func TestLoginThatNoEntryHolds(t *testing.T) {
	r, folder := new(ring), filepath.Join(t.TempDir(), "a", "logins")
	tokens := strings.Repeat("token.", 20_000)
	save(t, r.mustOpen(t, folder, "Notes"), tokens)
	wantRecord(t, r.mustOpen(t, folder, "Notes"), tokens)
	for name, text := range r.entries {
		if len(name)+len(text) > 100 {
			t.Errorf("an entry has %d bytes and a name of %d", len(text), len(name))
		}
	}
	files, err := os.ReadDir(folder)
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		info, err := file.Info()
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %v, %v", file.Name(), info.Mode(), err)
		}
		data, err := os.ReadFile(filepath.Join(folder, file.Name()))
		if err != nil || strings.Contains(string(data), "token.") {
			t.Errorf("%s has a token, %v", file.Name(), err)
		}
	}
}

// TestEachFolderAndProgramHasItsKey: and a folder has the same by each of its paths.
func TestEachFolderAndProgramHasItsKey(t *testing.T) {
	r, folder, other := new(ring), t.TempDir(), t.TempDir()
	save(t, r.mustOpen(t, folder, "Notes"), "one")
	wantNoRecord(t, r.mustOpen(t, folder, "Mail"))
	wantNoRecord(t, r.mustOpen(t, other, "Notes"))
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(folder, link); err != nil {
		t.Fatal(err)
	}
	wantRecord(t, r.mustOpen(t, link, "Notes"), "one")
	t.Chdir(filepath.Dir(folder))
	wantRecord(t, r.mustOpen(t, filepath.Base(folder), "Notes"), "one")
	if r.created != 3 {
		t.Errorf("%d keys were created, want 3", r.created)
	}
}

func TestCallsThatOverlapCreateOneKey(t *testing.T) {
	r, folder := new(ring), t.TempDir()
	stores := make([]*oauth.FileStore, 8)
	var calls sync.WaitGroup
	for i := range stores {
		calls.Go(func() {
			var err error
			if stores[i], err = r.open(t.Context(), folder, "Notes"); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	save(t, stores[0], "one")
	for _, store := range stores {
		wantRecord(t, store, "one")
	}
	if r.created != 1 {
		t.Errorf("%d keys were created", r.created)
	}
}

// TestKeyThatIsLost leads to another login, and not to an error that lasts.
func TestKeyThatIsLost(t *testing.T) {
	r, folder := new(ring), t.TempDir()
	save(t, r.mustOpen(t, folder, "Notes"), "one")
	clear(r.entries)
	store := r.mustOpen(t, folder, "Notes")
	wantNoRecord(t, store)
	save(t, store, "two")
	wantRecord(t, r.mustOpen(t, folder, "Notes"), "two")
}

// always returns the get of a ring whose entries are all one text.
func always(text string) func(string, error) (string, error) {
	return func(string, error) (string, error) { return text, nil }
}

// TestKeyringsThatFail are errors. No file is sealed.
func TestKeyringsThatFail(t *testing.T) {
	broken := errors.New("the keyring is broken")
	for name, test := range map[string]struct {
		get  func(text string, err error) (string, error)
		want string
	}{
		"there is none": {func(string, error) (string, error) { return "", broken },
			"the keyring of the operating system: the keyring is broken (without one, keep a key " +
				"elsewhere and use oauth.NewFileStore)"},
		"it forgets": {func(string, error) (string, error) { return "", keyring.ErrNotFound },
			"it does not keep the key"},
		"it fails later": {func(_ string, err error) (string, error) {
			if err == nil {
				err = broken
			}
			return "", err
		}, "the keyring is broken"},
		"it changes the key": {func(text string, err error) (string, error) {
			return strings.ToLower(text), err
		}, "it does not keep the key"},
		"it panics":  {func(string, error) (string, error) { panic("secret") }, "it panicked"},
		"empty":      {always(""), "is no key of"},
		"short":      {always("c2VjcmV0"), "is no key of"},
		"long":       {always(strings.Repeat("secr", 11)), "is no key of"},
		"no base64":  {always("secret!"), "is no key of"},
		"all zeroes": {always(strings.Repeat("A", 43)), "is zero"},
	} {
		t.Run(name, func(t *testing.T) {
			r, folder := &ring{get: test.get}, t.TempDir()
			store, err := r.open(t.Context(), folder, "Notes")
			if err == nil || store != nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, %v, want %q", store, err, test.want)
			}
			if err != nil && (strings.Contains(err.Error(), "secr") ||
				strings.Contains(err.Error(), "c2VjcmV0")) {
				t.Errorf("the error has the entry: %v", err)
			}
			r.get = nil
			clear(r.entries)
			wantNoRecord(t, r.mustOpen(t, folder, "Notes")) // the lock was released
		})
	}
}

// TestKeyringThatAsksThePerson: a call does not wait for longer than its context. One that comes
// meanwhile does not ask the person a second time.
func TestKeyringThatAsksThePerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unlocked := make(chan struct{})
		var asked atomic.Int64
		r, folder := new(ring), t.TempDir()
		r.get = func(text string, err error) (string, error) {
			asked.Add(1)
			<-unlocked
			return text, err
		}
		for _, want := range []string{"the keyring has not answered", "another call or process"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			store, err := r.open(ctx, folder, "Notes")
			cancel()
			if store != nil || !errors.Is(err, context.DeadlineExceeded) ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("got %v, %v, want %q", store, err, want)
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("the person was asked %d times", n)
		}
		close(unlocked)
		save(t, r.mustOpen(t, folder, "Notes"), "one")
		if r.created != 1 {
			t.Errorf("%d keys were created", r.created)
		}
	})
}

func TestMistakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string][2]string{
		"no name of the program": {t.TempDir(), ""}, "blank": {t.TempDir(), " \t"},
		"a second line": {t.TempDir(), "Notes\nadd-generic-password"},
		"a long name":   {t.TempDir(), strings.Repeat("n", 129)},
		"a file":        {file, "Notes"}, "no folder": {"", "Notes"},
	} {
		t.Run(name, func(t *testing.T) {
			r := new(ring)
			if store, err := r.open(t.Context(), test[0], test[1]); err == nil {
				t.Errorf("got %v", store)
			}
			if r.created != 0 {
				t.Error("a key was created")
			}
		})
	}
}

// TestTheLibrary: New uses the library's keyring.
func TestTheLibrary(t *testing.T) {
	keyring.MockInit()
	folder := t.TempDir()
	for _, want := range []bool{false, true} {
		store, err := keyringstore.New(t.Context(), folder, "Notes")
		if err != nil {
			t.Fatal(err)
		}
		if want {
			wantRecord(t, store, "one")
		}
		save(t, store, "one")
	}
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(files) != 2 || !slices.Contains(files, filepath.Join(folder,
		"keyring.lock")) {
		t.Errorf("got %q, %v, want a lock and a record", files, err)
	}
}
