package gosdk_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// fragileStore is an event store that panics in one of its methods.
type fragileStore struct {
	mcp.EventStore
	panicsIn string
}

func (s *fragileStore) use(method string) {
	if method == s.panicsIn {
		panic("no database")
	}
}

func (s *fragileStore) Open(ctx context.Context, session, stream string) error {
	s.use("Open")
	return s.EventStore.Open(ctx, session, stream)
}

func (s *fragileStore) Append(ctx context.Context, session, stream string, data []byte) error {
	s.use("Append")
	return s.EventStore.Append(ctx, session, stream, data)
}

func (s *fragileStore) After(ctx context.Context, session, stream string,
	index int) iter.Seq2[[]byte, error] {
	s.use("After")
	return s.EventStore.After(ctx, session, stream, index)
}

func (s *fragileStore) SessionClosed(ctx context.Context, session string) error {
	s.use("SessionClosed")
	return s.EventStore.SessionClosed(ctx, session)
}

// TestAuthorsCodeThatPanics has what the SDK calls of the author's outside of middleware: the
// request is answered, the panic reported, and the next request served.
func TestAuthorsCodeThatPanics(t *testing.T) {
	for name, status := range map[string]int{"GetSessionID": http.StatusInternalServerError,
		"Open": http.StatusInternalServerError, "Append": http.StatusOK, "After": http.StatusOK,
		"SessionClosed": http.StatusOK} {
		t.Run(name, func(t *testing.T) {
			opts := &mcp.ServerOptions{}
			if name == "GetSessionID" {
				opts.GetSessionID = func() string { panic("no database") }
			}
			server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, opts)
			o := &observer{}
			a := newAdapter(t, &gosdk.Options{Options: roundtrip.Options{Observer: o}})
			endpoint, recorder := serve(t, newHandler(t, a,
				func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
					EventStore: &fragileStore{mcp.NewMemoryEventStore(nil), name}}))
			p := &picky{t: t, endpoint: endpoint, transport: recorder}
			exchange := func(method, body string, header ...string) *http.Response {
				response, text := p.exchange(method, body, header...)
				if strings.Contains(text, "database") {
					t.Errorf("the client reads %s", text)
				}
				return response
			}
			response := exchange(http.MethodPost, initialize)
			if response.StatusCode != status {
				t.Errorf("initialize: status %d, want %d", response.StatusCode, status)
			}
			p.session = response.Header.Get("Mcp-Session-Id")
			if name == "After" {
				if r := exchange(http.MethodGet, "", "Last-Event-ID", "_0"); r.StatusCode < 400 {
					t.Errorf("resuming: status %d", r.StatusCode)
				}
			}
			if p.session != "" {
				exchange(http.MethodDelete, "")
			}
			if o.count(isPanic) == 0 {
				t.Error("no panic was reported")
			}
			dialSDK(t, newPerson(t, nil), true, modern, &mcp.StreamableClientTransport{
				Endpoint: endpoint, HTTPClient: &http.Client{Transport: recorder}})
		})
	}
}

// TestRefusalsKeepHeadersOfMiddleware has refusals that the adapter writes itself, behind the
// host's CORS middleware: a page in a browser can read them.
func TestRefusalsKeepHeadersOfMiddleware(t *testing.T) {
	a := newAdapter(t, &gosdk.Options{Options: roundtrip.Options{Observer: event.Discard}})
	fails := func(*http.Request) *mcp.Server { panic("no database") }
	h := newHandler(t, a, fails, &mcp.StreamableHTTPOptions{MaxRequestBodyBytes: 200})
	allowed := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "https://app.example")
		h.ServeHTTP(w, r)
	})
	for body, status := range map[string]int{
		strings.Repeat(" ", 201):                              http.StatusRequestEntityTooLarge,
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"t"}`:        http.StatusBadRequest,
		`{"jsonrpc":"2.0","id":1,"method":"server/discover"}`: http.StatusInternalServerError,
	} {
		w := serveDirectly(allowed, modern, body)
		if got := w.Header().Get("Access-Control-Allow-Origin"); w.Code != status ||
			got != "https://app.example" {
			t.Errorf("%s: got status %d, origin %q; want %d", body, w.Code, got, status)
		}
	}
}

// A body that is too long is refused in the SDK's words, in both eras.
func TestLongBodiesAreRefusedAsByTheSDK(t *testing.T) {
	opts := &mcp.StreamableHTTPOptions{MaxRequestBodyBytes: 200, Stateless: true}
	server := mcp.NewServer(&mcp.Implementation{Name: "host", Version: "1"}, nil)
	find := func(*http.Request) *mcp.Server { return server }
	a := newAdapter(t, &gosdk.Options{Options: roundtrip.Options{Observer: event.Discard}})
	for _, revision := range []string{modern, legacy} {
		var texts [2]string
		for i, h := range []http.Handler{mcp.NewStreamableHTTPHandler(find, opts),
			newHandler(t, a, find, opts)} {
			w := serveDirectly(h, revision, strings.Repeat(" ", 201))
			texts[i] = fmt.Sprint(w.Code, " ", w.Body)
		}
		if texts[1] != texts[0] || !strings.HasPrefix(texts[0], "413 ") {
			t.Errorf("%s: got %q, the SDK alone answers %q", revision, texts[1], texts[0])
		}
	}
}
