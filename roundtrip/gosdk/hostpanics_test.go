package gosdk_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

const initializeBody = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{` +
	`"protocolVersion":"` + legacy + `","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`

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
			client := &http.Client{Transport: recorder}
			response := send(t, client, http.MethodPost, endpoint, initializeBody, nil)
			if response.StatusCode != status {
				t.Errorf("initialize: status %d, want %d", response.StatusCode, status)
			}
			session := map[string]string{"Mcp-Session-Id": response.Header.Get("Mcp-Session-Id")}
			if name == "After" {
				session["Last-Event-ID"] = "_0"
				if r := send(t, client, http.MethodGet, endpoint, "", session); r.StatusCode < 400 {
					t.Errorf("resuming: status %d", r.StatusCode)
				}
			}
			if session["Mcp-Session-Id"] != "" {
				send(t, client, http.MethodDelete, endpoint, "", session)
			}
			if o.count(isPanic) == 0 {
				t.Error("no panic was reported")
			}
			dialSDK(t, newPerson(t, nil), true, modern, &mcp.StreamableClientTransport{
				Endpoint: endpoint, HTTPClient: client})
		})
	}
}

// send sends a request, and reads its response to the end.
func send(t *testing.T, client *http.Client, method, url, body string,
	headers map[string]string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(within(t), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatalf("%s was not answered: %v", method, err)
	}
	var read bytes.Buffer
	_, _ = read.ReadFrom(response.Body)
	_ = response.Body.Close()
	if strings.Contains(read.String(), "database") {
		t.Errorf("the client reads %s", read.String())
	}
	return response
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
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/",
			strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("MCP-Protocol-Version", modern)
		w := httptest.NewRecorder()
		allowed.ServeHTTP(w, r)
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
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/",
				strings.NewReader(strings.Repeat(" ", 201)))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			r.Header.Set("MCP-Protocol-Version", revision)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			texts[i] = fmt.Sprint(w.Code, " ", w.Body)
		}
		if texts[1] != texts[0] || !strings.HasPrefix(texts[0], "413 ") {
			t.Errorf("%s: got %q, the SDK alone answers %q", revision, texts[1], texts[0])
		}
	}
}
