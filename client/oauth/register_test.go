package oauth_test

import (
	"context"
	"encoding/json"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

// An editingStore changes members of records while it is on.
type editingStore struct {
	oauth.TokenStore
	on   *atomic.Bool
	edit func(k oauth.Key, record map[string]any)
}

func (s editingStore) Load(ctx context.Context, k oauth.Key) ([]byte, error) {
	record, err := s.TokenStore.Load(ctx, k)
	if err != nil || !s.on.Load() {
		return record, err
	}
	var members map[string]any
	if err := json.Unmarshal(record, &members); err != nil {
		return nil, err
	}
	s.edit(k, members)
	return json.Marshal(members)
}

// TestRegistrationWhoseSecretHasExpired: it is used neither for a refresh nor for a login.
func TestRegistrationWhoseSecretHasExpired(t *testing.T) {
	s := newSite(t, &oauthtest.Options{AuthMethods: []string{"client_secret_basic"}}, nil)
	store := editingStore{oauth.NewMemoryStore(), new(atomic.Bool),
		func(k oauth.Key, record map[string]any) {
			clients, _ := record["clients"].([]any)
			for _, c := range clients {
				c.(map[string]any)["expiry"] = time.Now().Add(-time.Second)
			}
		}}
	source := s.source(t, func(o *oauth.Options) { o.Store = store })
	noError.check(t, s.call(t.Context(), source, "search"))
	s.as.Expire()
	store.on.Store(true)
	s.browser.Deliver = func(ctx context.Context, callback *url.URL) {
		store.on.Store(false) // the new one is not over
		// The login may end before the page is read.
		_, err := s.browser.Load(context.WithoutCancel(ctx), callback.String())
		noError.check(t, err)
	}
	noError.check(t, s.call(t.Context(), source, "search"))
	s.wantCounts(t, counts{oauthtest.Register: 2, oauthtest.Authorize: 2, oauthtest.Refresh: 0})
}
