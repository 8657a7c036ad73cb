package oauth

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// A Key names a record of a [TokenStore]. A login's key has all fields (Account may be empty), an
// issuer's dynamic registrations only Issuer, an endpoint's pointer to its login no Issuer.
type Key struct{ Issuer, Resource, Account string }

// A TokenStore keeps logins and dynamic registrations: usable tokens and secrets. Calls may
// overlap, and must return when their context ends. An error fails the call that needs the record
// with [ErrStore].
type TokenStore interface {
	// Load returns the record under a key, or nil if there is none. The caller does not change it.
	Load(ctx context.Context, k Key) ([]byte, error)
	// Save replaces the record atomically. It may keep record, which does not change afterwards.
	Save(ctx context.Context, k Key, record []byte) error
	// Delete removes the record under a key. It returns nil if there is none.
	Delete(ctx context.Context, k Key) error
	// Lock acquires a key's exclusive lock, across all processes that share the store, until unlock
	// is called (once). ctx ends only the wait. The locks of dead processes must be released.
	Lock(ctx context.Context, k Key) (unlock func(), err error)
}

// NewMemoryStore returns a store in memory, for one process.
func NewMemoryStore() TokenStore {
	return &memoryStore{records: map[Key][]byte{}, locks: map[Key]chan struct{}{}}
}

func (m *memoryStore) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "store in memory") }

type memoryStore struct {
	mu      sync.Mutex
	records map[Key][]byte
	locks   map[Key]chan struct{} // each channel holds a value while its key is locked
}

func (m *memoryStore) Load(_ context.Context, k Key) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.records[k], nil
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

type tokenRecord struct {
	Login     string    `json:"login"` // random name of the login
	Access    string    `json:"access_token"`
	Refresh   string    `json:"refresh_token,omitempty"`
	Expiry    time.Time `json:"expiry,omitzero"`
	Obtained  time.Time `json:"obtained"`
	LoggedIn  time.Time `json:"logged_in"`
	Requested []string  `json:"requested"`
	Granted   []string  `json:"granted"`
	ClientID  string    `json:"client_id"`
	BoundTo   string    `json:"jkt,omitempty"` // written by older versions; unused
}

type pointerRecord struct {
	Issuer   string `json:"issuer"`
	Resource string `json:"resource"`
}

// A clientsRecord has the dynamic registrations at an authorization server, the newest first. There
// is one per redirect URI, because overlapping logins listen on different ports.
type clientsRecord struct {
	Clients []clientRecord `json:"clients"`
}

const maxClients = 8 // registrations kept per authorization server

type clientRecord struct {
	ClientID    string    `json:"client_id"`
	Secret      string    `json:"client_secret,omitempty"`
	Method      string    `json:"method"`
	RedirectURI string    `json:"redirect_uri"`
	Expiry      time.Time `json:"expiry,omitzero"` // of the secret
}

// loadRecord returns nil if there is no record, or its format is that of another version.
func loadRecord[T any](ctx context.Context, store TokenStore, k Key) (record *T, err error) {
	data, err := store.Load(ctx, k)
	if err != nil {
		return nil, storeError(err)
	}
	record = new(T)
	if data == nil || json.Unmarshal(data, record) != nil {
		return nil, nil // the login or registration starts again
	}
	return record, nil
}

func saveRecord(ctx context.Context, store TokenStore, k Key, record any) error {
	data, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return storeError(store.Save(ctx, k, data))
}
