package bearer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

const (
	// defaultKeysLifetime is for keys without max-age. The other two bound any max-age.
	defaultKeysLifetime = 15 * time.Minute
	minKeysLifetime     = time.Minute
	maxKeysLifetime     = 24 * time.Hour
	maxStaleTime        = 24 * time.Hour   // greatest age of keys that are used while fetches fail
	unknownKeyPause     = 30 * time.Second // made-up keys must not flood the issuer
	failurePause        = 5 * time.Second  // after a failed fetch
	fetchTimeout        = 10 * time.Second // for up to three requests for metadata and one for keys
	maxKeys             = 100
	maxKeysBytes        = 512 << 10
	maxKeysTried        = 5 // for a token without a key id
)

// An issuer is an authorization server with its keys, which are fetched.
type issuer struct {
	Issuer
	http          *http.Client
	introspecting chan struct{}                     // semaphore of look-ups
	hostCalls     chan struct{}                     // semaphore of Verify calls
	failures      *budget                           // of failed look-ups
	fetchFailed   func(issuerURL string, err error) // Options.FetchFailed

	mu         sync.Mutex
	keys       []jose.JSONWebKey
	fetched    time.Time     // start of the fetch that returned the keys, or zero
	freshUntil time.Time     // the keys are stale after this
	lastFetch  time.Time     // start of the last fetch
	lastMiss   time.Time     // start of the last fetch that lacked a token's key
	fetchErr   error         // the last fetch's error, or nil
	fetching   chan struct{} // closed at the end of the fetch in flight, or nil
}

func newIssuer(configured Issuer, o *Options, client *http.Client) (*issuer, error) {
	i := &issuer{Issuer: configured, http: client, fetchFailed: o.FetchFailed,
		introspecting: make(chan struct{}, maxIntrospections),
		hostCalls:     make(chan struct{}, maxHostCalls), failures: newBudget(&configured)}
	if configured.Keys == nil {
		return i, nil
	}
	keys, err := readKeys(configured.Keys)
	if err == nil && len(keys) == 0 {
		err = errors.New("it has no key that can be used")
	}
	if err != nil {
		return nil, fmt.Errorf("bearer: issuer %s: Keys: %w", configured.URL, err)
	}
	i.keys = keys
	return i, nil
}

// findKeys returns the keys that may have signed a token that was issued at issued or earlier. For
// an unknown key it waits for a fetch. It refreshes stale keys in the background.
func (i *issuer) findKeys(ctx context.Context, id, algorithm string, issued time.Time) (
	[]jose.JSONWebKey, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if found := i.selectKeysLocked(id, algorithm); i.Keys != nil || len(found) > 0 {
		if i.Keys == nil && time.Now().After(i.freshUntil) &&
			time.Since(i.lastFetch) >= failurePause {
			i.startFetchLocked()
		}
		if len(found) == 0 {
			return nil, refuseKey(id)
		}
		return found, nil
	}
	if err := i.awaitFetchLocked(ctx, id, issued); err != nil {
		return nil, err
	}
	if found := i.selectKeysLocked(id, algorithm); len(found) > 0 {
		return found, nil
	}
	return nil, i.recordMissLocked(id, issued)
}

// refetchKeys fetches the keys again for a token that has no key id and a signature of no known
// key. If the keys were fetched after the token was issued, it refuses the token.
func (i *issuer) refetchKeys(ctx context.Context, algorithm string, issued time.Time) (
	[]jose.JSONWebKey, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.Keys != nil || issued.Before(i.fetched) {
		return nil, refuse(badSignature, "", nil)
	}
	if err := i.awaitFetchLocked(ctx, "", issued); err != nil {
		return nil, err
	}
	return i.selectKeysLocked("", algorithm), nil
}

// awaitFetchLocked waits for the fetch in flight, or starts one, and unlocks i.mu meanwhile. If no
// fetch may start yet, it returns the error for a token with that key id.
func (i *issuer) awaitFetchLocked(ctx context.Context, id string, issued time.Time) error {
	if i.fetching == nil && i.fetchPauseLocked() > 0 {
		return i.missingKeyErrorLocked(id, issued)
	}
	fetching := i.startFetchLocked()
	i.mu.Unlock()
	select {
	case <-fetching:
	case <-ctx.Done():
	}
	i.mu.Lock()
	if err := ctx.Err(); err != nil {
		return postpone(issuerUnreachable, defaultRetry, err)
	}
	return nil
}

// recordMissLocked records that the last fetch lacked a token's key. It returns the token's error.
func (i *issuer) recordMissLocked(id string, issued time.Time) error {
	if i.fetchErr == nil {
		i.lastMiss = i.lastFetch
	}
	return i.missingKeyErrorLocked(id, issued)
}

// missingKeyErrorLocked returns the error for a token with an unknown key. It refuses the token
// only if the keys were fetched after the token was issued, or have its key id for another
// algorithm: otherwise the issuer may have published the key since.
func (i *issuer) missingKeyErrorLocked(id string, issued time.Time) error {
	named := id != "" && slices.ContainsFunc(i.keys, func(key jose.JSONWebKey) bool {
		return key.KeyID == id
	})
	if i.fetchErr == nil && (named || issued.Before(i.fetched)) {
		return refuseKey(id)
	}
	after := max(i.fetchPauseLocked(), time.Second)
	if i.fetchErr != nil {
		return postpone(issuerUnreachable, after, i.fetchErr)
	}
	return postpone(keyNotPublished, after,
		fmt.Errorf("its key set of %s does not have it", i.fetched.UTC().Format(time.RFC3339)))
}

func refuseKey(id string) error {
	return refuse(unknownKey, hintKey, fmt.Errorf("kid is %s", errtext.Value(id)))
}

// fetchPauseLocked returns how long a fetch for an unknown key must wait. 0 or less: not at all.
func (i *issuer) fetchPauseLocked() time.Duration {
	if i.fetchErr != nil {
		return failurePause - time.Since(i.lastFetch)
	}
	return unknownKeyPause - time.Since(i.lastMiss)
}

// selectKeysLocked returns the known keys of an id and algorithm, or the first few without an id.
func (i *issuer) selectKeysLocked(id, algorithm string) []jose.JSONWebKey {
	if i.Keys == nil && time.Since(i.fetched) > maxStaleTime {
		return nil
	}
	var found []jose.JSONWebKey
	for n := range i.keys {
		key := &i.keys[n]
		if (id == "" || key.KeyID == id) && canVerify(key, algorithm) && len(found) < maxKeysTried {
			found = append(found, *key)
		}
	}
	return found
}

// startFetchLocked starts a fetch unless one is in flight, and returns a channel that is closed
// when it ends. The fetch has its own time limit, and callers do not cancel it.
func (i *issuer) startFetchLocked() <-chan struct{} {
	if i.fetching != nil {
		return i.fetching
	}
	done := make(chan struct{})
	i.fetching, i.lastFetch = done, time.Now()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
		defer cancel()
		keys, fresh, err := i.fetchKeys(ctx)
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.fetchErr = err; err == nil {
			i.keys, i.fetched, i.freshUntil = keys, i.lastFetch, time.Now().Add(fresh)
		}
		i.fetching = nil
		close(done)
		if err != nil && i.fetchFailed != nil {
			go i.reportFailure(err) // callers that wait for the keys need not wait for the host
		}
	}()
	return done
}

// reportFailure calls Options.FetchFailed, and recovers from a panic.
func (i *issuer) reportFailure(err error) {
	defer func() { _ = recover() }()
	i.fetchFailed(i.URL, err)
}

func (i *issuer) fetchKeys(ctx context.Context) ([]jose.JSONWebKey, time.Duration, error) {
	at := i.KeysURL
	if at == "" {
		var err error
		if at, err = i.discoverKeysURL(ctx); err != nil {
			return nil, 0, err
		}
	}
	body, header, err := i.fetchDocument(ctx, at, maxKeysBytes)
	if err != nil {
		return nil, 0, fmt.Errorf("the keys of %s: %w", i.URL, err)
	}
	keys, err := readKeys(body)
	if err != nil {
		return nil, 0, fmt.Errorf("the keys of %s: %w", i.URL, err)
	}
	return keys, freshnessLifetime(header), nil
}

// readKeys decodes a JSON Web Key Set (RFC 7517, section 5). It omits keys that must not verify
// signatures: keys of unknown types, symmetric and private keys, and keys for encryption.
func readKeys(data []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := jsonx.Unmarshal(data, &set); err != nil || set.Keys == nil {
		return nil, errors.New("it is not a JSON Web Key Set")
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("it has more than %d keys", maxKeys)
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) != nil || !key.Valid() || !key.IsPublic() ||
			key.Use != "" && key.Use != "sig" {
			continue
		}
		keys = append(keys, key)
	}
	return keys, nil
}
