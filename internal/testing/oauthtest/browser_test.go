package oauthtest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

func TestBrowserDeliversTheCallback(t *testing.T) {
	as := oauthtest.NewServer(t, nil)
	arrived := make(chan url.Values, 3)
	receiver := httptest.NewServer(http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) { arrived <- r.URL.Query() }))
	t.Cleanup(receiver.Close)
	as.AddClient(oauthtest.Client{ID: "app", RedirectURIs: []string{receiver.URL + "/callback"}})
	address := as.URL + "/authorize?" + url.Values{"client_id": {"app"},
		"redirect_uri": {receiver.URL + "/callback"}, "response_type": {"code"},
		"code_challenge_method": {"S256"}, "state": {"s"},
		"code_challenge": {"0123456789012345678901234567890123456789012"},
		"resource":       {"https://api.example/mcp"}}.Encode()
	browser := oauthtest.NewBrowser(t)
	ctx, cancel := context.WithCancel(t.Context())
	if err := browser.Open(ctx, address); err != nil {
		t.Fatal(err)
	}
	cancel() // a browser outlives who started it
	if got := <-arrived; got.Get("code") == "" || got.Get("state") != "s" {
		t.Errorf("callback %v", got)
	}
	browser.Wait()
	if len(browser.Opened()) != 1 || len(browser.Pages()) != 2 {
		t.Errorf("%d opened, %d pages", len(browser.Opened()), len(browser.Pages()))
	}
	browser = oauthtest.NewBrowser(t)
	browser.Deliver = func(ctx context.Context, callback *url.URL) {
		for range 2 {
			_, _ = browser.Load(ctx, callback.String())
		}
	}
	if err := browser.Open(t.Context(), address); err != nil {
		t.Fatal(err)
	}
	browser.Wait()
	if len(arrived) != 2 {
		t.Errorf("%d callbacks, want 2", len(arrived))
	}
}

func TestBrowserOpensNothingExceptPages(t *testing.T) {
	for _, address := range []string{"javascript:alert(1)", "file:///etc/passwd", "calculator"} {
		browser := oauthtest.NewBrowser(t)
		if _, err := browser.Visit(t.Context(), address); err == nil {
			t.Errorf("%s was opened", address)
		}
	}
}
