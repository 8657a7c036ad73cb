package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
)

// A scripted upstream answers each method with the JSON that the test says. It speaks the older
// revisions, or the latest one where it has an answer to server/discover.
type scripted struct {
	mu         sync.Mutex
	answers    map[string]string
	initialize string // the parameters with which it was initialized first
	sessions   int
	lost       int  // sessions up to this one are not known any more
	down       bool // with the sessions: none can be opened
	resumable  bool // calls begin a stream that breaks
	calls      int
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		status := http.StatusMethodNotAllowed
		if r.Header.Get("Last-Event-Id") != "" {
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
		return
	}
	body, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage
		Method string
		Params json.RawMessage
	}
	_ = json.Unmarshal(body, &m)
	s.mu.Lock()
	if m.Method == "initialize" && s.initialize == "" {
		s.initialize = string(m.Params)
	}
	result, ok := s.answers[m.Method]
	if m.Method == "initialize" {
		s.sessions++
		w.Header().Set("Mcp-Session-Id", strconv.Itoa(s.sessions))
	}
	session, _ := strconv.Atoi(r.Header.Get("Mcp-Session-Id"))
	lost := session > 0 && session <= s.lost
	resumable := s.resumable && m.Method == "tools/call"
	down := s.down && m.Method == "initialize"
	if m.Method == "tools/call" && !lost {
		s.calls++
	}
	s.mu.Unlock()
	switch {
	case down:
		w.WriteHeader(http.StatusServiceUnavailable)
	case lost:
		w.WriteHeader(http.StatusNotFound)
	case resumable:
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "retry: 10\nid: 1\ndata:\n\n")
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case !ok:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}
}

const scriptedInitialize = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},` +
	`"resources":{}},"serverInfo":{"name":"scripted","version":"1"}}`

// startScripted serves a gateway before an upstream u with these answers, and returns its log.
func startScripted(t *testing.T, answers map[string]string) (
	s *scripted, url string, log *observer.ObservedLogs) {
	t.Helper()
	if answers["initialize"] == "" {
		answers["initialize"] = scriptedInitialize
	}
	s = &scripted{answers: answers}
	l := httptest.NewServer(s)
	t.Cleanup(l.Close)
	core, log := observer.New(zap.WarnLevel)
	url = startGateway(t, &gateway.Options{Log: zaplog.New(zap.New(core)),
		Upstreams: []gateway.Upstream{{Name: "u", Connect: gateway.HTTP(l.URL, nil)}}})
	return s, url, log
}

// rawTools returns the raw definitions that a client sees, when there is one of a name.
func rawTools(t *testing.T, url, name string) (tools map[string]map[string]any) {
	t.Helper()
	awaitTool(t, connect(t, url, protocol.Legacy, &person{}), name)
	said := rawLegacy(t, url, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)[0]
	var list struct {
		Result struct{ Tools []map[string]any }
	}
	if i := strings.Index(said, "{"); i > 0 {
		said = said[i:]
	}
	if err := json.NewDecoder(strings.NewReader(said)).Decode(&list); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	tools = map[string]map[string]any{}
	for _, tool := range list.Result.Tools {
		tools[tool["name"].(string)] = tool
	}
	return tools
}

const goodTool = `{"name":"good","inputSchema":{"type":"object"}}`

// A tool is published as it came, whatever its schemas and annotations are.
func TestDefinitionsArePublishedAsTheyCame(t *testing.T) {
	for name, definition := range map[string]string{
		"email of zod": `{"inputSchema":{"type":"object","properties":{"a":{"type":"string",` +
			`"pattern":"^(?!\\.)(?!.*\\.\\.)[a-z]+$"}}}}`,
		"escape": `{"inputSchema":{"type":"object","properties":` +
			`{"a":{"pattern":"^\\u0041$"}}}}`,
		"big repeat": `{"inputSchema":{"type":"object","properties":` +
			`{"a":{"pattern":"^a{1,5000}$"}}}}`,
		"properties null":  `{"inputSchema":{"type":"object","properties":null}}`,
		"description null": `{"inputSchema":{"type":"object","description":null}}`,
		"exclusive": `{"inputSchema":{"type":"object","properties":{"a":{"type":"number",` +
			`"minimum":0,"exclusiveMinimum":true}}}}`,
		"no type": `{"inputSchema":{"properties":{"a":{"type":"string"}}}}`,
		"dialect": `{"inputSchema":{"$schema":"https://spec.openapis.org/oas/3.1/dialect/base",` +
			`"type":"object"}}`,
		"dangling reference": `{"inputSchema":{"type":"object"},"outputSchema":{"type":"object",` +
			`"properties":{"screen":{"$ref":"#/$defs/Screen"}}}}`,
		"annotations": `{"inputSchema":{"type":"object"},"annotations":{"category":"input",` +
			`"readOnlyHint":false}}`,
		"members of later revisions": `{"inputSchema":{"type":"object"},"later":{"a":[1]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			definition := `{"name":"t",` + definition[1:]
			_, url, log := startScripted(t, map[string]string{
				"tools/list": `{"tools":[` + definition + `,` + goodTool + `]}`,
				"tools/call": `{"content":[{"type":"text","text":"ok","later":1}],"later":2}`,
			})
			var want map[string]any
			if err := json.Unmarshal([]byte(definition), &want); err != nil {
				t.Fatal(err)
			}
			want["name"] = "u_t"
			if got := rawTools(t, url, "u_good")["u_t"]; !reflect.DeepEqual(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
			said := rawLegacy(t, url, `{"jsonrpc":"2.0","id":2,"method":"tools/call",`+
				`"params":{"name":"u_t","arguments":{}}}`)[0]
			if !strings.Contains(said, `"text":"ok","later":1`) ||
				!strings.Contains(said, `"later":2`) {
				t.Errorf("got %s", said)
			}
			if n := log.FilterMessage("gateway.unchecked").Len(); n > 1 {
				t.Errorf("%d entries: %v", n, log.All())
			}
		})
	}
}

// Results that break the schema of their tool are passed on, and the log says so once.
func TestResultsThatBreakTheirSchemaArePassedOn(t *testing.T) {
	for name, structured := range map[string]string{
		"absent": "", "wrong": `,"structuredContent":{"a":1}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, url, log := startScripted(t, map[string]string{
				"tools/list": `{"tools":[{"name":"t","inputSchema":{"type":"object"},` +
					`"outputSchema":{"type":"object","properties":{"a":{"type":"string"}},` +
					`"required":["a"]}}]}`,
				"tools/call": `{"content":[{"type":"text","text":"ok"}]` + structured + `}`,
			})
			for _, era := range []protocol.Era{protocol.Legacy, protocol.Modern} {
				c := connect(t, url, era, &person{})
				awaitTool(t, c, "u_t")
				for range 2 {
					_, pending, err := c.Begin(t.Context(), &protocol.CallToolParams{Name: "u_t"})
					if err != nil || pending != nil {
						t.Errorf("got %v", err)
					}
				}
			}
			if n := log.FilterMessage("gateway.unchecked").Len(); n != 1 {
				t.Errorf("%d entries: %v", n, log.All())
			}
		})
	}
}

// What is wrong with one entry of a list, or with its end, costs no other entry.
func TestOneBadEntryCostsItself(t *testing.T) {
	for name, list := range map[string]string{
		"cursor that repeats": `{"tools":[` + goodTool + `],"nextCursor":"x"}`,
		"unreadable":          `{"tools":[{"name":5},` + goodTool + `]}`,
		"line break":          `{"tools":[{"name":"a\nb","inputSchema":{}},` + goodTool + `]}`,
		"direction":           `{"tools":[{"name":"a\u202eb","inputSchema":{}},` + goodTool + `]}`,
		"long": `{"tools":[{"name":"` + strings.Repeat("a", 5000) +
			`","inputSchema":{"type":"object"}},` + goodTool + `]}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, url, log := startScripted(t, map[string]string{
				"tools/list": list, "resources/list": `{"resources":[]}`})
			if got := rawTools(t, url, "u_good"); len(got) != 1 {
				t.Errorf("got %v", got)
			}
			most := 1
			if strings.HasPrefix(name, "cursor") {
				most = 2 // its second page has the same entry
			}
			if n := log.Len(); n == 0 || n > most {
				t.Errorf("%d entries: %v", n, log.All())
			}
		})
	}
}

// The views of MCP Apps keep the scheme of their URIs in every place, and the upstream learns that
// the client has them.
func TestAppsWorkThroughTheGateway(t *testing.T) {
	s, url, _ := startScripted(t, map[string]string{
		"tools/list": `{"tools":[{"name":"show","inputSchema":{"type":"object"},"_meta":{` +
			`"ui":{"resourceUri":"ui://weather/view"},"ui/resourceUri":"ui://weather/view",` +
			`"openai/outputTemplate":"ui://weather/view"}}]}`,
		"resources/list": `{"resources":[{"uri":"ui://weather/view","name":"view",` +
			`"mimeType":"text/html;profile=mcp-app"}]}`,
		"resources/read": `{"contents":[{"uri":"ui://weather/view","text":"<html>"}]}`,
		"tools/call":     `{"content":[],"_meta":{"ui":{"resourceUri":"ui://weather/view"}}}`,
	})
	got := fmt.Sprint(rawTools(t, url, "u_show")["u_show"]["_meta"])
	want := "map[openai/outputTemplate:ui://u/weather/view " +
		"ui:map[resourceUri:ui://u/weather/view] ui/resourceUri:ui://u/weather/view]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	said := strings.Join(rawLegacy(t, url,
		`{"jsonrpc":"2.0","id":2,"method":"resources/list"}`,
		`{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"ui://u/weather/view"}}`,
		`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"u_show"}}`), "\n")
	if n := strings.Count(said, `"ui://u/weather/view"`); n != 3 {
		t.Errorf("%d URIs in %s", n, said)
	}
	const settings = `{"mimeTypes":["text/html;profile=mcp-app"]}`
	for _, era := range []protocol.Era{protocol.Legacy, protocol.Modern} {
		s.mu.Lock()
		s.initialize = ""
		s.mu.Unlock()
		c := connectWith(t, url, client.Options{Era: era, Extensions: map[string]json.RawMessage{
			"io.modelcontextprotocol/ui": json.RawMessage(settings)},
			ListRoots: func(context.Context, *client.RootsQuestion) ([]protocol.Root, error) {
				return nil, nil
			}})
		if era == protocol.Modern { // another connection
			c = connectWith(t, url, client.Options{Era: era, Extensions: map[string]json.RawMessage{
				"io.modelcontextprotocol/ui": json.RawMessage(settings)}})
		}
		if _, err := c.CallTool(t.Context(), "u_show", nil); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		if !strings.Contains(s.initialize, `"io.modelcontextprotocol/ui":`+settings) {
			t.Errorf("%v: initialized with %s", era, s.initialize)
		}
		s.mu.Unlock()
	}
}

// An upstream that has lost a session costs no call, where it says that nothing ran. Where it does
// not, or loses the next session, too, the client learns whether the tool may have run.
func TestALostSessionIsOpenedAnew(t *testing.T) {
	const unrun, mayHaveRun = "Nothing ran", "What the tool did is not known"
	for name, test := range map[string]struct {
		lose func(s *scripted)
		want string
		runs int
	}{
		"once":                    {func(s *scripted) { s.lost = s.sessions }, "done", 2},
		"again and again":         {func(s *scripted) { s.lost = 1000 }, unrun, 1},
		"with no other one":       {func(s *scripted) { s.lost, s.down = s.sessions, true }, unrun, 1},
		"while the call was made": {func(s *scripted) { s.resumable = true }, mayHaveRun, 2},
	} {
		for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
			t.Run(fmt.Sprintf("%s, %v client", name, era), func(t *testing.T) {
				t.Parallel() // streams that break are opened again after a pause
				s, url, _ := startScripted(t, map[string]string{
					"tools/list":     `{"tools":[` + goodTool + `]}`,
					"resources/list": `{"resources":[]}`,
					"tools/call":     `{"content":[{"type":"text","text":"done"}]}`})
				c := connect(t, url, era, &person{})
				awaitTool(t, c, "u_good")
				if _, err := c.CallTool(t.Context(), "u_good", nil); err != nil {
					t.Fatal(err)
				}
				s.mu.Lock()
				test.lose(s)
				s.mu.Unlock()
				result, err := c.CallTool(t.Context(), "u_good", nil)
				if got := fmt.Sprint(textOf(result), err); !strings.Contains(got, test.want) {
					t.Errorf("got %s", got)
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.calls != test.runs {
					t.Errorf("%d calls ran, want %d", s.calls, test.runs)
				}
			})
		}
	}
}
