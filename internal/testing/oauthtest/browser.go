package oauthtest

import (
	"cmp"
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

const maxHops = 10

// A Page is a page that a browser has loaded.
type Page struct {
	Status int
	Header http.Header
	Body   string
	next   *url.URL // the redirect's target, or nil
}

// A Browser follows redirects. The authorization server consents without a user.
type Browser struct {
	// Client loads pages. Its redirect policy is not used. Nil: http.DefaultClient.
	Client *http.Client
	// Deliver takes the callback to the client. Nil: the browser loads it.
	Deliver func(ctx context.Context, callback *url.URL)

	ctx     context.Context
	running sync.WaitGroup

	mu     sync.Mutex
	opened []string
	last   Page
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

// Open opens a URL like xdg-open: it returns at once, and the browser continues when ctx ends.
func (b *Browser) Open(_ context.Context, address string) error {
	b.mu.Lock()
	b.opened = append(b.opened, address)
	b.mu.Unlock()
	b.running.Go(func() {
		callback, err := b.Visit(b.ctx, address)
		switch {
		case err != nil: // the login times out
		case b.Deliver != nil:
			b.Deliver(b.ctx, callback)
		default:
			_, _ = b.Load(b.ctx, callback.String()) // likewise: on an error the login times out
		}
	})
	return nil
}

// Wait returns when the browser is idle.
func (b *Browser) Wait() { b.running.Wait() }

func (b *Browser) Opened() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.opened)
}

func (b *Browser) LastPage() Page {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// Visit follows redirects to the redirect URI in the address, and returns the callback.
func (b *Browser) Visit(ctx context.Context, address string) (callback *url.URL, err error) {
	at, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	redirect := at.Query().Get("redirect_uri")
	for range maxHops {
		page, err := b.Load(ctx, at.String())
		if at = page.next; err != nil || at == nil {
			return nil, fmt.Errorf("oauthtest: the browser ends at %d %s, %v", page.Status,
				strings.TrimSpace(page.Body), err)
		}
		if redirect != "" && strings.HasPrefix(at.String(), redirect) {
			return at, nil
		}
	}
	return nil, errors.New("oauthtest: the browser was redirected too often")
}

// Load loads one page without its redirects.
func (b *Browser) Load(ctx context.Context, address string) (Page, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return Page{}, err
	}
	return b.Do(request)
}

// Do loads a page by a custom request.
func (b *Browser) Do(request *http.Request) (page Page, err error) {
	client := *cmp.Or(b.Client, http.DefaultClient)
	client.CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}
	response, err := client.Do(request)
	if err != nil {
		return page, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	page = Page{response.StatusCode, response.Header, string(body), nil}
	page.next, _ = response.Location()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = page
	return page, err
}
