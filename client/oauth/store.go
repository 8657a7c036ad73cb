package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// ErrNoRecord says that a [Store] has no record under a key.
var ErrNoRecord = errors.New("oauth: there is no record")

// A Key names a record of a [Store]. Records of logins have a Resource, those of registrations an
// Issuer alone: they are the program's, whatever the account.
// Those that say which login is an endpoint's have no Issuer.
type Key struct{ Issuer, Resource, Account string }

// A Store keeps what has to outlive a process. Records hold tokens and secrets: whoever can read
// them can use them. Its methods may be called concurrently.
type Store interface {
	// Load returns the record under a key, or [ErrNoRecord].
	Load(ctx context.Context, k Key) ([]byte, error)
	// Save replaces the record under a key, as a whole or not at all.
	Save(ctx context.Context, k Key, record []byte) error
	// Delete removes the record under a key, if there is one.
	Delete(ctx context.Context, k Key) error
	// Lock waits until nobody else holds the lock of a key, in all processes that share the
	// store, and holds it until unlock is called. The lock of a process that dies is free.
	Lock(ctx context.Context, k Key) (unlock func(), err error)
}

// NewMemoryStore returns a store that lives as long as the process.
func NewMemoryStore() Store {
	return &memoryStore{records: map[Key][]byte{}, locks: map[Key]chan struct{}{}}
}

// Format implements [fmt.Formatter]. It prints no records, whatever the verb.
func (m *memoryStore) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "store in memory") }

type memoryStore struct {
	mu      sync.Mutex
	records map[Key][]byte
	locks   map[Key]chan struct{} // each holds a value while it is locked
}

func (m *memoryStore) Load(_ context.Context, k Key) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	record, ok := m.records[k]
	if !ok {
		return nil, ErrNoRecord
	}
	return record, nil
}

func (m *memoryStore) Save(_ context.Context, k Key, record []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records[k] = record
	return nil
}

func (m *memoryStore) Delete(_ context.Context, k Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.records, k)
	return nil
}

func (m *memoryStore) Lock(ctx context.Context, k Key) (unlock func(), err error) {
	m.mu.Lock()
	lock := m.locks[k]
	if lock == nil {
		lock = make(chan struct{}, 1)
		m.locks[k] = lock
	}
	m.mu.Unlock()
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A tokenRecord is a login in the store.
type tokenRecord struct {
	Login     string    `json:"login"` // a random name of the login
	Access    string    `json:"access_token"`
	Refresh   string    `json:"refresh_token,omitempty"`
	Expiry    time.Time `json:"expiry,omitzero"`
	Obtained  time.Time `json:"obtained"`
	LoggedIn  time.Time `json:"logged_in"`
	Requested []string  `json:"requested"`
	Granted   []string  `json:"granted"`
	ClientID  string    `json:"client_id"`
}

// A pointerRecord says which login is that of an endpoint.
type pointerRecord struct {
	Issuer   string `json:"issuer"`
	Resource string `json:"resource"`
}

// A clientsRecord are the dynamic registrations at an authorization server, the newest first. There
// is more than one where logins overlap that come back to different ports.
type clientsRecord struct {
	Clients []clientRecord `json:"clients"`
}

// maxClients is how many registrations at an authorization server are kept.
const maxClients = 8

// A clientRecord is a dynamic registration.
type clientRecord struct {
	ClientID    string    `json:"client_id"`
	Secret      string    `json:"client_secret,omitempty"`
	Method      string    `json:"method"`
	RedirectURI string    `json:"redirect_uri"`
	Expiry      time.Time `json:"expiry,omitzero"` // of the secret
}

// load reads a record. It is nil if there is none, or none that can be read.
func load[T any](ctx context.Context, store Store, k Key) (record *T, err error) {
	data, err := store.Load(ctx, k)
	if errors.Is(err, ErrNoRecord) {
		return nil, nil
	}
	if err != nil {
		return nil, &StoreError{err}
	}
	record = new(T)
	if json.Unmarshal(data, record) != nil {
		return nil, nil // of another version: what it was for begins anew
	}
	return record, nil
}

func save(ctx context.Context, store Store, k Key, record any) error {
	data, err := json.Marshal(record)
	if err != nil {
		return err
	}
	if err := store.Save(ctx, k, data); err != nil {
		return &StoreError{err}
	}
	return nil
}
