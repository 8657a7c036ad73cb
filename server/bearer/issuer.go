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

	"github.com/rondo-mcp/rondo/internal/jsonx"
)

const (
	// keysTime is how long keys are fresh where their issuer does not say; what it says counts
	// between minKeysTime and maxKeysTime.
	keysTime    = 15 * time.Minute
	minKeysTime = time.Minute
	maxKeysTime = 24 * time.Hour
	// staleTime is how long keys are used that cannot be fetched anew.
	staleTime = 24 * time.Hour
	// unknownKeyPause is the time between two fetches for keys that are not there, so that
	// tokens with made-up keys do not make the server flood the issuer.
	unknownKeyPause = 30 * time.Second
	// failurePause is the time between two fetches after one that failed.
	failurePause = 5 * time.Second
	// maxKeys and maxKeysBytes bound a key set.
	maxKeys      = 100
	maxKeysBytes = 512 << 10
	// maxTries is how many keys are tried for a token that names none.
	maxTries = 5
)

// An issuer is an authorization server with what is known of its keys.
type issuer struct {
	Issuer
	http   *http.Client
	asked  chan struct{}                     // an element for each token it is asked about
	failed func(issuerURL string, err error) // nil: nobody is told

	mu      sync.Mutex
	keys    []jose.JSONWebKey
	fetched time.Time     // when the fetch began that brought them; zero: none has
	fresh   time.Time     // until when
	tried   time.Time     // when the last fetch began
	missed  time.Time     // when the last fetch began that was in vain for a token
	failure error         // of the last fetch, nil: it succeeded
	running chan struct{} // closed when the fetch that runs ends, nil: none runs
}

func newIssuer(configured Issuer, o *Options, client *http.Client) (*issuer, error) {
	i := &issuer{Issuer: configured, http: client, failed: o.FetchFailed,
		asked: make(chan struct{}, maxAsked)}
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

// keysFor returns the keys that may have signed a token, which was issued before the time issued.
// It fetches them where they are not known or not fresh any more.
func (i *issuer) keysFor(ctx context.Context, id, algorithm string, issued time.Time) (
	[]jose.JSONWebKey, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if found := i.fittingLocked(id, algorithm); i.Keys != nil || len(found) > 0 {
		i.refreshLocked()
		if len(found) == 0 {
			return nil, refuse(unknownKey, nil)
		}
		return found, nil
	}
	if i.running == nil && i.pauseLocked() > 0 {
		return nil, i.missLocked(id, issued)
	}
	running := i.fetchLocked()
	i.mu.Unlock()
	select {
	case <-running:
	case <-ctx.Done():
	}
	i.mu.Lock()
	if err := ctx.Err(); err != nil {
		return nil, &unavailableError{defaultRetry, err}
	}
	if found := i.fittingLocked(id, algorithm); len(found) > 0 {
		return found, nil
	}
	if i.failure == nil {
		i.missed = i.tried
	}
	return nil, i.missLocked(id, issued)
}

// missLocked refuses a token whose key is not there: for good only if the keys are younger than
// the token or have one of that name, for else the issuer may have a new one.
func (i *issuer) missLocked(id string, issued time.Time) error {
	named := id != "" && slices.ContainsFunc(i.keys, func(key jose.JSONWebKey) bool {
		return key.KeyID == id
	})
	if i.failure == nil && (named || issued.Before(i.fetched)) {
		return refuse(unknownKey, nil)
	}
	cause := i.failure
	if cause == nil {
		cause = errors.New("its key is not known, and may be newer than the known ones")
	}
	return &unavailableError{max(i.pauseLocked(), time.Second), cause}
}

// pauseLocked returns how long no fetch may begin for a key that is not there.
func (i *issuer) pauseLocked() time.Duration {
	if i.failure != nil {
		return failurePause - time.Since(i.tried)
	}
	return unknownKeyPause - time.Since(i.missed)
}

// fittingLocked returns the keys that fit a token: that of its id, or else a few.
func (i *issuer) fittingLocked(id, algorithm string) []jose.JSONWebKey {
	if i.Keys == nil && time.Since(i.fetched) > staleTime {
		return nil
	}
	var found []jose.JSONWebKey
	for n := range i.keys {
		key := &i.keys[n]
		if (id == "" || key.KeyID == id) && fits(key, algorithm) && len(found) < maxTries {
			found = append(found, *key)
		}
	}
	return found
}

// refreshLocked fetches keys that are not fresh any more, while the old ones are used.
func (i *issuer) refreshLocked() {
	if i.Keys == nil && time.Now().After(i.fresh) && time.Since(i.tried) >= failurePause {
		i.fetchLocked()
	}
}

// fetchLocked returns a channel that is closed when a fetch has ended, which it starts unless one
// runs. The fetch has a time limit of its own: no caller ends it.
func (i *issuer) fetchLocked() <-chan struct{} {
	if i.running != nil {
		return i.running
	}
	done := make(chan struct{})
	i.running, i.tried = done, time.Now()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*requestTime)
		defer cancel()
		keys, fresh, err := i.fetch(ctx)
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.failure = err; err == nil {
			i.keys, i.fetched, i.fresh = keys, i.tried, time.Now().Add(fresh)
		}
		i.running = nil
		close(done)
		if err != nil && i.failed != nil {
			go i.reportFailure(err) // who waits for the keys does not wait for the host
		}
	}()
	return done
}

// reportFailure tells the host of a failed fetch. A panic of the host's ends nothing else.
func (i *issuer) reportFailure(err error) {
	defer func() { _ = recover() }()
	i.failed(i.URL, err)
}

// fetch gets the keys of the issuer, and how long they are fresh.
func (i *issuer) fetch(ctx context.Context) ([]jose.JSONWebKey, time.Duration, error) {
	at := i.KeysURL
	if at == "" {
		var err error
		if at, err = i.discover(ctx); err != nil {
			return nil, 0, err
		}
	}
	body, header, err := get(ctx, i.http, at, maxKeysBytes)
	if err != nil {
		return nil, 0, fmt.Errorf("the keys of %s: %w", i.URL, err)
	}
	keys, err := readKeys(body)
	if err != nil {
		return nil, 0, fmt.Errorf("the keys of %s: %w", i.URL, err)
	}
	return keys, freshness(header), nil
}

// readKeys reads a key set. Keys that cannot verify signatures are left out, such as those of
// kinds that are not known, symmetric and private ones, and keys for encryption.
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
