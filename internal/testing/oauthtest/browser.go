package oauthtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// maxHops bounds the redirects that a browser follows.
const maxHops = 10

// A Page is one that a browser has loaded.
type Page struct {
	Status int
	Header http.Header
	Body   string
}

// A Browser is that of a person who logs in. The authorization server consents by itself, so all
// that a browser does is follow redirects.
type Browser struct {
	// Client loads pages. Nil: http.DefaultClient. Its redirect policy is not used.
	Client *http.Client
	// Deliver takes the callback to the client. Nil: the browser loads it. A test that wants a
	// wrong, a second or no callback brings its own and calls Load as often as it likes.
	Deliver func(ctx context.Context, callback *url.URL)

	ctx     context.Context
	running sync.WaitGroup

	mu     sync.Mutex
	opened []string
	pages  []Page
}

// NewBrowser returns a browser that is closed when the test ends.
func NewBrowser(t testing.TB) *Browser {
	ctx, cancel := context.WithCancel(context.Background())
	b := &Browser{ctx: ctx}
	t.Cleanup(func() {
		cancel()
		b.running.Wait()
	})
	return b
}

// Open opens a URL as xdg-open does: it returns at once, and the browser goes on when ctx ends.
func (b *Browser) Open(_ context.Context, address string) error {
	b.mu.Lock()
	b.opened = append(b.opened, address)
	b.mu.Unlock()
	b.running.Go(func() {
		callback, err := b.Visit(b.ctx, address)
		switch {
		case err != nil: // the login ends by its own time
		case b.Deliver != nil:
			b.Deliver(b.ctx, callback)
		default:
			_, _ = b.Load(b.ctx, callback.String()) // likewise
		}
	})
	return nil
}

// Wait returns when all that was opened has been followed to its end.
func (b *Browser) Wait() { b.running.Wait() }

// Opened returns the URLs that were opened.
func (b *Browser) Opened() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.opened)
}

// LastPage returns the page that was loaded last.
func (b *Browser) LastPage() Page {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pages[len(b.pages)-1]
}

// Visit loads pages until one redirects to the redirect URI in the address, and returns where.
func (b *Browser) Visit(ctx context.Context, address string) (callback *url.URL, err error) {
	at, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	redirect := at.Query().Get("redirect_uri")
	for range maxHops {
		page, err := b.Load(ctx, at.String())
		if err != nil {
			return nil, err
		}
		if page.Status < 300 || page.Status > 399 {
			return nil, fmt.Errorf("oauthtest: the browser ends at a page with status %d: %s",
				page.Status, strings.TrimSpace(page.Body))
		}
		if at, err = at.Parse(page.Header.Get("Location")); err != nil {
			return nil, err
		}
		if redirect != "" && strings.HasPrefix(at.String(), redirect) {
			return at, nil
		}
	}
	return nil, errors.New("oauthtest: the browser was redirected too often")
}

// Load loads one page and follows nothing.
func (b *Browser) Load(ctx context.Context, address string) (Page, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return Page{}, err
	}
	return b.Do(request)
}

// Do is Load with a request that a browser does not make by itself: with another method, another
// Host, or another site behind it.
func (b *Browser) Do(request *http.Request) (page Page, err error) {
	if request.URL.Scheme != "http" && request.URL.Scheme != "https" {
		return page, fmt.Errorf("oauthtest: the browser was told to open %q", request.URL)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	if b.Client != nil {
		client.Transport, client.Jar = b.Client.Transport, b.Client.Jar
	}
	response, err := client.Do(request)
	if err != nil {
		return page, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	page = Page{response.StatusCode, response.Header, string(body)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pages = append(b.pages, page)
	return page, err
}
