package gosdk_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/fleettest"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/server/replicas"
)

// askTwice returns a new server with a tool that asks twice, and one that does not ask.
func askTwice() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "asker", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "t", InputSchema: raw(`{"type":"object"}`)},
		func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
			first, err := gosdk.Elicit(ctx, req.Session, formQuestion())
			if err != nil {
				return nil, err
			}
			second, err := gosdk.Elicit(gosdk.WithKey(ctx, "again"), req.Session,
				&mcp.ElicitParams{Mode: "form", Message: "Really?",
					RequestedSchema: raw(reasonForm)})
			if err != nil {
				return nil, err
			}
			return toolText(first.Action + " and " + second.Action), nil
		})
	server.AddTool(&mcp.Tool{Name: "plain", InputSchema: raw(`{"type":"object"}`)},
		func(context.Context, *toolRequest) (*mcp.CallToolResult, error) {
			return toolText("plain"), nil
		})
	return server
}

// sure is a person who accepts both questions of askTwice.
func sure(t testing.TB) *person {
	return newPerson(t, map[string]string{formQuestion().Message: `{"reason":"because"}`,
		"Really?": `{"reason":"because"}`})
}

// atOnce returns opts for answers that come at once, from a test.
func atOnce(opts *gosdk.Options) *gosdk.Options {
	var o gosdk.Options
	if opts != nil {
		o = *opts
	}
	if o.MinHumanTime == 0 {
		o.MinHumanTime = -1
	}
	return &o
}

func newAdapter(t testing.TB, opts *gosdk.Options) *gosdk.Adapter {
	t.Helper()
	a, err := gosdk.New(atOnce(opts))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// overHTTP runs a test with the clients of both kinds, in both eras.
func overHTTP(t *testing.T, test func(t *testing.T, revision string,
	dial func(t *testing.T, h http.Handler, who *person) (peer, *wiretest.Recorder))) {
	for _, revision := range []string{modern, legacy} {
		for _, kind := range []string{"sdk", "rondo"} {
			t.Run(kind+"/"+revision, func(t *testing.T) {
				test(t, revision,
					func(t *testing.T, h http.Handler, who *person) (peer, *wiretest.Recorder) {
						endpoint, recorder := serve(t, h)
						client := &http.Client{Transport: recorder}
						if kind == "sdk" {
							return dialSDK(t, who, false, revision, &mcp.StreamableClientTransport{
								Endpoint: endpoint, HTTPClient: client}), recorder
						}
						over, err := clienthttp.New(endpoint,
							&clienthttp.Options{HTTPClient: client})
						if err != nil {
							t.Fatal(err)
						}
						return dialRondo(t, who, false, revision, over), recorder
					})
			})
		}
	}
}

// A server may be made for each request: all of them share the adapter's key.
func TestServersMadePerRequest(t *testing.T) {
	for _, json := range []bool{false, true} {
		t.Run(fmt.Sprintf("JSONResponse=%t", json), func(t *testing.T) {
			overHTTP(t, func(t *testing.T, revision string,
				dial func(*testing.T, http.Handler, *person) (peer, *wiretest.Recorder)) {
				var made, requests atomic.Int32
				h := newHandler(t, newAdapter(t, nil), func(r *http.Request) *mcp.Server {
					for name := range r.Header {
						if strings.Contains(name, "rondo") {
							t.Errorf("getServer sees the header %q", name)
						}
					}
					made.Add(1)
					return askTwice()
				}, &mcp.StreamableHTTPOptions{JSONResponse: json})
				who := sure(t)
				c, _ := dial(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					requests.Add(1)
					h.ServeHTTP(w, r)
				}), who)
				for n := 1; n <= 2; n++ {
					if got, err := c.do(within(t), "t"); err != nil || got != "accept and accept" {
						t.Fatalf("got %q, %v", got, err)
					}
					who.wantAsked(n)
				}
				if made.Load() > requests.Load() {
					t.Errorf("%d servers were made for %d requests", made.Load(), requests.Load())
				}
			})
		})
	}
}

// GetServer may return nothing: that is answered as the SDK answers it.
func TestNoServerForARequest(t *testing.T) {
	get := func(*http.Request) *mcp.Server { return nil }
	ours := newHandler(t, newAdapter(t, nil), get, nil)
	for name, version := range map[string]string{"modern": modern, "legacy": ""} {
		t.Run(name, func(t *testing.T) {
			theirs := mcp.NewStreamableHTTPHandler(get,
				&mcp.StreamableHTTPOptions{Stateless: version == modern})
			want, got := postInitialize(theirs, version), postInitialize(ours, version)
			if want.Code != 400 || got.Code != want.Code ||
				got.Body.String() != want.Body.String() {
				t.Errorf("got %d %s, the SDK alone %d %s", got.Code, got.Body, want.Code, want.Body)
			}
		})
	}
}

// postInitialize sends initialize, or, in a modern revision, server/discover.
func postInitialize(h http.Handler, version string) *httptest.ResponseRecorder {
	if version == "" {
		return serveDirectly(h, "", initialize)
	}
	return serveDirectly(h, version, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,`+
		`"method":"server/discover","params":{"_meta":{%q:%q,%q:{}}}}`,
		protocol.MetaProtocolVersion, version, protocol.MetaClientCapabilities))
}

// serveDirectly serves a POST without a connection.
func serveDirectly(h http.Handler, version, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "http://localhost/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", bothTypes)
	if version != "" {
		r.Header.Set("MCP-Protocol-Version", version)
		r.Header.Set("Mcp-Method", "server/discover")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Without sessions any replica serves any request. Whoever cannot be asked is told why.
func TestStatelessReplicas(t *testing.T) {
	for _, json := range []bool{false, true} {
		t.Run(fmt.Sprintf("JSONResponse=%t", json), func(t *testing.T) {
			overHTTP(t, func(t *testing.T, revision string,
				dial func(*testing.T, http.Handler, *person) (peer, *wiretest.Recorder)) {
				f := fleettest.Start(t, 2, func(r *replicas.Options) http.Handler {
					a := newAdapter(t, &gosdk.Options{Options: roundtrip.Options{Sealer: r.Keys,
						Audience: "asker"}})
					server := askTwice()
					return newHandler(t, a, func(*http.Request) *mcp.Server { return server },
						&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: json})
				})
				c, recorder := dial(t, f.Balancer(), sure(t))
				for range 4 {
					if got, err := c.do(within(t), "plain"); err != nil || got != "plain" {
						t.Fatalf("got %q, %v", got, err)
					}
				}
				got, err := c.do(within(t), "t")
				switch {
				case revision == modern && (err != nil || got != "accept and accept"):
					t.Errorf("got %q, %v", got, err)
				case revision == legacy &&
					!strings.Contains(fmt.Sprint(got, err), "it has no session"):
					t.Errorf("got %q, %v, want a refusal that says why", got, err)
				}
				for _, m := range recorder.Messages() {
					if strings.HasPrefix(m.HTTP, "4") && !strings.HasPrefix(m.HTTP, "405") ||
						strings.HasPrefix(m.HTTP, "5") {
						t.Errorf("%s: %s", m.HTTP, m.Body)
					}
				}
			})
		})
	}
}

// At start one line means that replicas need a shared key, where they have none.
func TestStatelessNeedsASharedKey(t *testing.T) {
	get := func(*http.Request) *mcp.Server { return nil }
	for name, test := range map[string]struct {
		opts      gosdk.Options
		stateless bool
		lines     int
	}{
		"a key of this process": {gosdk.Options{}, true, 1},
		"a keyring of this process": {gosdk.Options{Options: roundtrip.Options{
			Sealer: keys.EphemeralKeyring()}}, true, 1},
		"a shared key": {gosdk.Options{Options: roundtrip.Options{
			Sealer: fleettest.NewKeyring("k1"), Audience: "a"}}, true, 0},
		"sessions": {gosdk.Options{}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			newHandler(t, newAdapter(t, &test.opts), get, &mcp.StreamableHTTPOptions{
				Stateless: test.stateless, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if got := strings.Count(log.String(), "need a shared one"); got != test.lines ||
				strings.Count(log.String(), "\n") != test.lines {
				t.Errorf("the log has %q, want %d lines", log.String(), test.lines)
			}
		})
	}
}

// optionTests has a value for each field of the SDK's options. A field that a later version
// adds fails TestOptionsOfTheSDK: decide what Handler does with it.
var optionTests = map[string]any{
	"Stateless":                    true,
	"JSONResponse":                 true,
	"Logger":                       slog.New(slog.DiscardHandler),
	"EventStore":                   mcp.NewMemoryEventStore(nil),
	"SessionTimeout":               time.Minute,
	"DisableLocalhostProtection":   true,
	"CrossOriginProtection":        http.NewCrossOriginProtection(),
	"MaxRequestBodyBytes":          int64(1 << 20),
	"PropagateRequestCancellation": true,
}

// With each option of the SDK, alone, both eras are served.
func TestOptionsOfTheSDK(t *testing.T) {
	fields := reflect.TypeFor[mcp.StreamableHTTPOptions]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		t.Run(name, func(t *testing.T) {
			value, ok := optionTests[name]
			if !ok {
				t.Fatal("the adapter does not know this option of the SDK")
			}
			overHTTP(t, func(t *testing.T, revision string,
				dial func(*testing.T, http.Handler, *person) (peer, *wiretest.Recorder)) {
				var opts mcp.StreamableHTTPOptions
				reflect.ValueOf(&opts).Elem().FieldByName(name).Set(reflect.ValueOf(value))
				server := askTwice()
				c, _ := dial(t, newHandler(t, newAdapter(t, nil),
					func(*http.Request) *mcp.Server { return server }, &opts), sure(t))
				if got, err := c.do(within(t), "plain"); err != nil || got != "plain" {
					t.Errorf("got %q, %v", got, err)
				}
				if opts.Stateless && revision == legacy {
					return
				}
				if got, err := c.do(within(t), "t"); err != nil || got != "accept and accept" {
					t.Errorf("got %q, %v", got, err)
				}
			})
		})
	}
}

// What cannot be honored is an error that names the field.
func TestOptionsThatContradict(t *testing.T) {
	ring := fleettest.NewKeyring("k1")
	a := newAdapter(t, &gosdk.Options{
		Options:  roundtrip.Options{Sealer: ring, Audience: "a"},
		Replicas: &replicas.Options{Name: "a", Keys: ring},
	})
	_, err := a.Handler(func(*http.Request) *mcp.Server { return nil },
		&mcp.StreamableHTTPOptions{Stateless: true})
	if err == nil || !strings.Contains(err.Error(), "Stateless") {
		t.Errorf("got %v", err)
	}
	if _, err := a.Handler(nil, nil); err == nil || !strings.Contains(err.Error(), "getServer") {
		t.Errorf("got %v", err)
	}
	if gosdk.IsKnownOption("Unheard") {
		t.Error("an option of a later version is taken for a known one")
	}
}

// With JSONResponse a call in a session is answered with JSON, and with a stream if it asks.
func TestJSONResponsesInSessions(t *testing.T) {
	for name, opts := range map[string]*mcp.StreamableHTTPOptions{
		"alone":     {JSONResponse: true},
		"resumable": {JSONResponse: true, EventStore: mcp.NewMemoryEventStore(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			server := askTwice()
			a := newAdapter(t, nil)
			h := newHandler(t, a, func(*http.Request) *mcp.Server { return server }, opts)
			endpoint, recorder := serve(t, h)
			who := sure(t)
			c := dialSDK(t, who, false, legacy, &mcp.StreamableClientTransport{Endpoint: endpoint,
				HTTPClient: &http.Client{Transport: recorder}})
			if got, err := c.do(within(t), "plain"); err != nil || got != "plain" {
				t.Errorf("got %q, %v", got, err)
			}
			if got, err := c.do(within(t), "t"); err != nil || got != "accept and accept" {
				t.Errorf("got %q, %v", got, err)
			}
			for call, want := range map[string]string{"initialize": "application/json",
				`"plain"`: "application/json", `"t"`: "text/event-stream"} {
				if got := typeOfResponse(recorder.Messages(), call); got != want {
					t.Errorf("%s is answered with %q, want %q", call, got, want)
				}
			}
		})
	}
}

// typeOfResponse returns the content type of the response to the request that contains text.
func typeOfResponse(messages []wiretest.Message, text string) string {
	found := false
	for _, m := range messages {
		body := string(m.Body)
		if m.From == wiretest.Client {
			found = strings.Contains(body, text) && strings.Contains(body, `"method"`) &&
				!strings.Contains(body, "notifications/")
			continue
		}
		for _, line := range m.Header {
			if media, ok := strings.CutPrefix(line, "Content-Type: "); ok && found {
				return media
			}
		}
	}
	return ""
}

// A panic of getServer is answered.
func TestPanicOfGetServer(t *testing.T) {
	for _, version := range []string{modern, ""} {
		t.Run("version "+version, func(t *testing.T) {
			o := &observer{}
			h := newHandler(t,
				newAdapter(t, &gosdk.Options{Options: roundtrip.Options{Observer: o}}),
				func(*http.Request) *mcp.Server { panic("no database") }, nil)
			w := postInitialize(h, version)
			message, err := protocol.DecodeMessage(w.Body.Bytes())
			response, ok := message.(*protocol.Response)
			if err != nil || !ok || w.Code != 500 || response.Error == nil ||
				response.Error.Code != protocol.CodeInternalError ||
				strings.Contains(w.Body.String(), "database") {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
			if n := o.count(isPanic); n != 1 {
				t.Errorf("%d events of a panic", n)
			}
		})
	}
}

func isPanic(e event.Event) bool {
	_, ok := e.(event.HandlerPanicked)
	return ok
}
