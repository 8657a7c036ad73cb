package mcpgo_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// hostFields has what mcp-go's transports are configured by, field by field, and what the
// adapter makes of it. A field of a new version that nobody has looked at fails the test.
var hostFields = map[string]map[string]string{
	"StreamableHTTPServer": {
		"server":                           "found by Handler",
		"sessionTools":                     "inner state",
		"sessionResources":                 "inner state",
		"sessionResourceTemplates":         "inner state",
		"sessionLogLevels":                 "inner state",
		"activeSessions":                   "inner state",
		"requestIDCounter":                 "inner state",
		"resumableStreams":                 "inner state",
		"listeningStreams":                 "inner state",
		"listeningPumpStops":               "inner state",
		"sessionLastActive":                "inner state",
		"sweeperCancel":                    "inner state",
		"mu":                               "inner state",
		"eventStore":                       "honoured; no mark is stored",
		"httpServer":                       "Start serves without the adapter: refused",
		"endpointPath":                     "of Start alone",
		"tlsCertFile":                      "of Start alone",
		"tlsKeyFile":                       "of Start alone",
		"contextFunc":                      "honoured; must keep the context",
		"sessionIdManagerResolver":         "honoured",
		"sessionIdManager":                 "honoured",
		"listenHeartbeatInterval":          "honoured",
		"logger":                           "honoured",
		"disableStreaming":                 "honoured",
		"disableLocalhostProtection":       "honoured",
		"sessionIdleTTL":                   "honoured; open calls keep their session",
		"protectedResourceMetadata":        "honoured",
		"protectedResourceMetadataPath":    "honoured",
		"protectedResourceMetadataHandler": "honoured",
		"corsConfig":                       "honoured",
		"protocolVersions":                 "honoured",
	},
	"StdioServer": {
		"server":         "found by Listen",
		"errLogger":      "honoured",
		"contextFunc":    "honoured; must keep the context",
		"toolCallQueue":  "inner state",
		"workerWg":       "inner state",
		"requestWg":      "inner state",
		"workerPoolSize": "honoured",
		"queueSize":      "honoured",
		"writeMu":        "inner state",
	},
}

func TestNoOptionOfTheHostIsOverlooked(t *testing.T) {
	for _, typ := range []reflect.Type{reflect.TypeFor[server.StreamableHTTPServer](),
		reflect.TypeFor[server.StdioServer]()} {
		known := hostFields[typ.Name()]
		found := map[string]bool{}
		for i := range typ.NumField() {
			name := typ.Field(i).Name
			if found[name] = true; known[name] == "" {
				t.Errorf("%s.%s: what does the adapter make of it?", typ.Name(), name)
			}
		}
		for name := range known {
			if !found[name] {
				t.Errorf("%s.%s has gone", typ.Name(), name)
			}
		}
	}
}

// contextKey is what a context function adds.
type contextKey struct{}

// Options of mcp-go's HTTP server have the effect behind Handler that they have without it,
// and questions are asked all the same.
func TestOptionsOfTheHost(t *testing.T) {
	options := map[string]struct {
		option server.StreamableHTTPOption
		// cannotAsk means that clients of older revisions cannot be asked.
		cannotAsk bool
		check     func(t *testing.T, endpoint string)
	}{
		"WithStateLess":  {option: server.WithStateLess(true), cannotAsk: true},
		"WithStateful":   {option: server.WithStateful(true)},
		"WithEventStore": {option: server.WithEventStore(server.NewInMemoryEventStore())},
		"WithSessionIdManager": {option: server.WithSessionIdManager(
			&server.InsecureStatefulSessionIdManager{})},
		"WithSessionIdManager, nil": {option: server.WithSessionIdManager(nil), cannotAsk: true},
		"WithSessionIdManagerResolver": {option: server.WithSessionIdManagerResolver(
			server.NewDefaultSessionIdManagerResolver(&server.InsecureStatefulSessionIdManager{}))},
		"WithHeartbeatInterval": {option: server.WithHeartbeatInterval(time.Millisecond),
			check: checkHeartbeat},
		"WithDisableStreaming": {option: server.WithDisableStreaming(true),
			check: func(t *testing.T, endpoint string) {
				checkStatus(t, http.MethodGet, endpoint, http.StatusMethodNotAllowed, "", "")
			}},
		"WithStreamableHTTPCORS": {option: server.WithStreamableHTTPCORS(
			server.WithCORSAllowedOrigins("https://app.example")),
			check: func(t *testing.T, endpoint string) {
				checkStatus(t, http.MethodOptions, endpoint, http.StatusNoContent,
					"Access-Control-Allow-Origin", "https://app.example")
			}},
		"WithHTTPContextFunc": {option: server.WithHTTPContextFunc(
			func(ctx context.Context, r *http.Request) context.Context {
				return context.WithValue(ctx, contextKey{}, r.URL.Path)
			})},
		"WithStreamableHTTPProtocolVersions": {
			option: server.WithStreamableHTTPProtocolVersions(modern, v20251125)},
		"WithDisableLocalhostProtection": {option: server.WithDisableLocalhostProtection(true)},
	}
	for name, tc := range options {
		for _, revision := range []string{modern, v20251125} {
			t.Run(name+"/"+revision, func(t *testing.T) {
				var path any
				s := newHostServer()
				addDelete(s)
				s.Use(func(next server.ToolHandlerFunc) server.ToolHandlerFunc {
					return func(ctx context.Context,
						r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
						path = ctx.Value(contextKey{})
						return next(ctx, r)
					}
				})
				endpoint, _ := serveHTTP(t, install(t, s, nil), s, tc.option)
				who := newPerson(nil)
				got, err := dialRondo(t, endpoint, revision, who).tool(within(t), "delete", nil)
				if tc.cannotAsk && revision != modern {
					if who.once(t); !strings.Contains(fmt.Sprint(got, err), "elicitation") {
						t.Errorf("got %q, %v", got, err)
					}
				} else if who.once(t, "Sure?"); err != nil || got != "deleted" {
					t.Errorf("got %q, %v", got, err)
				}
				if (path == "/mcp") != (name == "WithHTTPContextFunc") {
					t.Errorf("the context has %v", path)
				}
				if tc.check != nil {
					tc.check(t, endpoint)
				}
			})
		}
	}
}

func checkStatus(t *testing.T, method, endpoint string, status int, header, value string) {
	t.Helper()
	p := &picky{t: t, endpoint: endpoint}
	response := p.send(method, onlyEvents, "", "Origin", "https://app.example",
		"Access-Control-Request-Method", http.MethodPost)
	if response.StatusCode != status || header != "" && response.Header.Get(header) != value {
		t.Errorf("got %s %v", response.Status, response.Header)
	}
}

// checkHeartbeat listens, as a session does, until the server is heard.
func checkHeartbeat(t *testing.T, endpoint string) {
	t.Helper()
	p := &picky{t: t, endpoint: endpoint}
	hello, _ := p.exchange(http.MethodPost, handshake(v20251125))
	p.session = hello.Header.Get("Mcp-Session-Id")
	response := p.send(http.MethodGet, onlyEvents, "")
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if strings.Contains(lines.Text(), `"method":"ping"`) {
			return
		}
	}
	t.Error("no heartbeat")
}

// mcp-go's old transport of events cannot ask. Plain calls work as they did.
func TestSSEServer(t *testing.T) {
	s := newHostServer()
	addDelete(s)
	old := server.NewSSEServer(s)
	behind := httptest.NewServer(install(t, s, nil).Handler(old))
	defer behind.Close()
	over, err := transport.NewSSE(behind.URL + "/sse")
	if err != nil {
		t.Fatal(err)
	}
	who := newPerson(nil)
	c := newHost(t, over, v20251125, who)
	if got, err := c.tool(within(t), "plain", nil); err != nil || got != "plain" {
		t.Errorf("plain: got %q, %v", got, err)
	}
	got, err := c.tool(within(t), "delete", nil)
	if who.once(t); !strings.Contains(fmt.Sprint(got, err), "cannot carry questions") {
		t.Errorf("got %q, %v", got, err)
	}
	_ = c.(hostPeer).Close()
}

// Metadata of the protected resource is served at its own path.
func TestProtectedResourceMetadataIsServed(t *testing.T) {
	s := newHostServer()
	behind := httptest.NewServer(install(t, s, nil).Handler(server.NewStreamableHTTPServer(s,
		quiet(), server.WithProtectedResourceMetadata(server.ProtectedResourceMetadataConfig{
			Resource:             "https://mcp.example/mcp",
			AuthorizationServers: []string{"https://auth.example"}}))))
	defer behind.Close()
	checkStatus(t, http.MethodGet, behind.URL+"/.well-known/oauth-protected-resource/mcp",
		http.StatusOK, "Content-Type", "application/json")
}
