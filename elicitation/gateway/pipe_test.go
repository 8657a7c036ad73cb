package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// A scripted legacy upstream answers each method with a result, or the member "error".
type scripted struct {
	mu        sync.Mutex
	answers   map[string]string // by method; NEXT in an answer is a new number
	requests  int
	sessions  int
	lost      int  // sessions up to this one are lost
	down      bool // no session can be opened
	resumable bool // calls begin a stream that breaks
	calls     int
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
	m := readMessage(r)
	s.mu.Lock()
	s.requests++
	result, ok := s.answers[m.Method]
	result = strings.ReplaceAll(result, "NEXT", strconv.Itoa(s.requests))
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
	default:
		if !ok {
			result = `"error":{"code":-32601,"message":"no"}`
		} else if !strings.HasPrefix(result, `"error":`) {
			result = `"result":` + result
		}
		writeResponse(w, m, result)
	}
}

const scriptedInitialize = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},` +
	`"resources":{}},"serverInfo":{"name":"scripted","version":"1"}}`

// startScripted serves a gateway for an upstream u with these answers, and returns its log.
func startScripted(t *testing.T, answers map[string]string) (
	s *scripted, url string, log *observer.ObservedLogs) {
	t.Helper()
	if answers["initialize"] == "" {
		answers["initialize"] = scriptedInitialize
	}
	s = &scripted{answers: answers}
	opts := before(gateway.Upstream{Name: "u", Connect: gateway.HTTP(serve(t, s).URL, nil)})
	log = logged(opts, zap.WarnLevel)
	return s, startGateway(t, opts), log
}

// rawTools returns the raw definitions that a client sees, once a tool of that name is there.
func rawTools(t *testing.T, url, name string) (tools map[string]map[string]any) {
	t.Helper()
	connect(t, url, protocol.Legacy, &person{}, name)
	said := rawLegacy(t, url, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
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

// A tool is published unchanged, whatever its schemas and annotations are.
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
			noError(t, json.Unmarshal([]byte(definition), &want))
			want["name"] = "u_t"
			if got := rawTools(t, url, "u_good")["u_t"]; !reflect.DeepEqual(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
			said := rawLegacy(t, url, `{"jsonrpc":"2.0","id":2,"method":"tools/call",`+
				`"params":{"name":"u_t","arguments":{}}}`)
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

// Unknown members of other definitions are published unchanged, too.
func TestFurtherMembersOfDefinitionsArePublished(t *testing.T) {
	const more = `"annotations":{"priority":1,"category":"input"},"later":{"a":[1]}`
	_, url, _ := startScripted(t, map[string]string{
		"initialize": strings.Replace(scriptedInitialize, `"tools":{}`,
			`"tools":{},"prompts":{}`, 1),
		"tools/list":   `{"tools":[` + goodTool + `]}`,
		"prompts/list": `{"prompts":[{"name":"p","later":{"a":[1]}}]}`,
		"resources/list": `{"resources":[{"uri":"file:///a","name":"a",` + more +
			`}]}`,
		"resources/templates/list": `{"resourceTemplates":[{"uriTemplate":"file:///{b}",` +
			`"name":"b",` + more + `}]}`,
		"tools/call": `{"content":[{"type":"text","text":"ok",` + more + `}]}`,
	})
	awaitTemplates(t, url)
	for method, want := range map[string]string{
		"prompts/list":             `{"name":"u_p","later":{"a":[1]}}`,
		"resources/list":           `{"uri":"u+file:///a","name":"a",` + more + `}`,
		"resources/templates/list": `{"uriTemplate":"u+file:///{b}","name":"b",` + more + `}`,
		"tools/call":               `{"type":"text","text":"ok",` + more + `}`,
	} {
		said := rawLegacy(t, url, fmt.Sprintf(
			`{"jsonrpc":"2.0","id":2,"method":%q,"params":{"name":"u_good"}}`, method))
		wantPart(t, method, said, want)
	}
}

// awaitTemplates waits for the resource templates, which are read last.
func awaitTemplates(t *testing.T, url string) {
	t.Helper()
	c := connect(t, url, 0, &person{})
	eventually(func() bool {
		r, err := c.ListResourceTemplates(t.Context(), "")
		return err != nil || len(r.ResourceTemplates) > 0
	})
}

// Results that violate their tool's schema are passed on, and logged once.
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
			for _, era := range bothEras {
				c := connect(t, url, era, &person{}, "u_t")
				for range 2 {
					_, pending, err := c.Begin(t.Context(), &protocol.CallToolParams{Name: "u_t"})
					if err != nil || pending != nil {
						t.Errorf("got %v", err)
					}
				}
			}
			wantEqual(t, "entries", log.FilterMessage("gateway.unchecked").Len(), 1)
		})
	}
}

// One bad entry of a list, or a truncated list, affects no other entry, and is logged once.
func TestOneBadEntryCostsItself(t *testing.T) {
	named := func(name string) string {
		return `{"tools":[{"name":"` + name + `","inputSchema":{}},` + goodTool + `]}`
	}
	const tools, resources, templates = "tools/list", "resources/list", "resources/templates/list"
	for name, test := range map[string]struct{ method, answer string }{
		"cursor that repeats": {tools, `{"tools":[` + goodTool + `],"nextCursor":"x"}`},
		"list without end":    {tools, `{"tools":[` + goodTool + `],"nextCursor":"NEXT"}`},
		"empty pages":         {resources, `{"resources":[],"nextCursor":"NEXT"}`},
		"duplicates": {tools,
			`{"tools":[` + goodTool + strings.Repeat(`,`+goodTool, 9) + `]}`},
		"unreadable":          {tools, `{"tools":[{"name":5},` + goodTool + `]}`},
		"line break":          {tools, named(`a\nb`)},
		"direction":           {tools, named(`a\u202eb`)},
		"long":                {tools, named(strings.Repeat("a", 5000))},
		"line break in a URI": {resources, `{"resources":[{"uri":"file:///a\nb","name":"a"}]}`},
		"direction in the name of a resource": {resources,
			`{"resources":[{"uri":"file:///a","name":"a\u202eb"}]}`},
		"line break in the name of a template": {templates,
			`{"resourceTemplates":[{"uriTemplate":"file:///{a}","name":"a\nb"}]}`},
		"error of another list":   {resources, `"error":{"code":-32603,"message":"no"}`},
		"garbage as another list": {resources, `{"resources":5}`},
		"cursor that is no text":  {resources, `{"resources":[],"nextCursor":5}`},
	} {
		t.Run(name, func(t *testing.T) {
			answers := map[string]string{tools: `{"tools":[` + goodTool + `]}`,
				resources: `{"resources":[]}`, templates: `{"resourceTemplates":[]}`}
			answers[test.method] = test.answer
			_, url, log := startScripted(t, answers)
			wantEqual(t, "tools", len(rawTools(t, url, "u_good")), 1)
			eventually(func() bool { return log.Len() > 0 }) // resources are read after the tools
			if log.Len() != 1 || log.FilterMessage("gateway.upstream_down").Len() > 0 {
				t.Errorf("logged %v", log.All())
			}
		})
	}
}

// The views of MCP Apps keep the scheme of their URIs everywhere.
func TestAppsWorkThroughTheGateway(t *testing.T) {
	const meta = `"_meta":{"ui":{"resourceUri":"ui://weather/view"}}`
	_, url, _ := startScripted(t, map[string]string{
		"tools/list": `{"tools":[{"name":"show","inputSchema":{"type":"object"},"_meta":{` +
			`"ui":{"resourceUri":"ui://weather/view"},"ui/resourceUri":"ui://weather/view",` +
			`"openai/outputTemplate":"ui://weather/view"}}]}`,
		"resources/list": `{"resources":[{"uri":"ui://weather/view","name":"view",` +
			`"mimeType":"text/html;profile=mcp-app",` + meta + `}]}`,
		"resources/templates/list": `{"resourceTemplates":[{"uriTemplate":"ui://weather/{city}",` +
			`"name":"city",` + meta + `}]}`,
		"resources/read": `{"contents":[{"uri":"ui://weather/view","text":"<html>",` + meta + `}]}`,
		"tools/call": `{"content":[{"type":"resource_link","uri":"ui://weather/view","name":"v",` +
			meta + `},{"type":"resource","resource":{"uri":"ui://weather/view","text":"",` + meta +
			`}}],` + meta + `}`,
	})
	got := fmt.Sprint(rawTools(t, url, "u_show")["u_show"]["_meta"])
	want := "map[openai/outputTemplate:ui://u/weather/view " +
		"ui:map[resourceUri:ui://u/weather/view] ui/resourceUri:ui://u/weather/view]"
	wantEqual(t, "the result", got, want)
	awaitTemplates(t, url)
	for _, test := range []struct {
		method, params string
		uris           int
	}{
		{"resources/list", `{}`, 2},
		{"resources/templates/list", `{}`, 2},
		{"resources/read", `{"uri":"ui://u/weather/view"}`, 2},
		{"resources/read", `{"uri":"ui://u/weather/rome"}`, 2},
		{"tools/call", `{"name":"u_show"}`, 5},
	} {
		said := rawLegacy(t, url, fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":%q,"params":%s}`,
			test.method, test.params))
		if strings.Count(said, `"ui://u/weather/`) != test.uris ||
			strings.Count(said, `"ui://`) != test.uris {
			t.Errorf("%s: got %s", test.method, said)
		}
	}
}

func TestAppsAreOfferedWhereTheClientHasThem(t *testing.T) {
	const settings = `{"mimeTypes":["text/html;profile=mcp-app"]}`
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		upstream := serveTool(t, "offered", func(
			_ context.Context, call *server.ToolCall) (outcome, error) {
			return server.Text(string(
				call.Capabilities().Extensions["io.modelcontextprotocol/ui"])), nil
		})
		url := front(t, ops(upstream, upstreamEra))
		for _, want := range []string{"", settings, ""} {
			extensions := map[string]json.RawMessage{}
			if want != "" {
				extensions["io.modelcontextprotocol/ui"] = json.RawMessage(want)
			}
			wantText(t, connectWith(t, url, client.Options{Era: clientEra, Extensions: extensions},
				"ops_offered"), "ops_offered", want)
		}
	})
}

// A lost session is reopened if nothing ran; else the client learns that the tool may have run.
func TestALostSessionIsOpenedAnew(t *testing.T) {
	const unrun, mayHaveRun = "Nothing ran", "What the tool did is not known"
	for name, test := range map[string]struct {
		lose func(s *scripted)
		want string
		runs int
	}{
		"once":                    {func(s *scripted) { s.lost = s.sessions }, "done", 2},
		"again and again":         {func(s *scripted) { s.lost = 1000 }, unrun, 1},
		"with no other one":       {func(s *scripted) { s.lost, s.down = 1000, true }, unrun, 1},
		"while the call was made": {func(s *scripted) { s.resumable = true }, mayHaveRun, 2},
	} {
		t.Run(name, func(t *testing.T) {
			forEachEra(t, func(t *testing.T, era protocol.Era) {
				s, url, _ := startScripted(t, map[string]string{
					"tools/list":     `{"tools":[` + goodTool + `]}`,
					"resources/list": `{"resources":[]}`,
					"tools/call":     `{"content":[{"type":"text","text":"done"}]}`})
				c := connect(t, url, era, &person{}, "u_good")
				wantText(t, c, "u_good", "done")
				s.mu.Lock()
				test.lose(s)
				s.mu.Unlock()
				wantPart(t, "the result", callText(t, c, "u_good"), test.want)
				s.mu.Lock()
				defer s.mu.Unlock()
				wantEqual(t, "calls that ran", s.calls, test.runs)
			})
		})
	}
}

// A cancelled call is cancelled upstream before its session ends, or the upstream would run on.
func TestACallThatIsGivenUpIsCancelledUpstream(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		era    protocol.Era
		limit  time.Duration // of the call
		leaves bool          // the client leaves while the call runs
	}{
		"modern client leaves": {protocol.Modern, 0, true},
		"legacy client leaves": {protocol.Legacy, 0, true},
		"time is over":         {protocol.Modern, 200 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			heard := make(chan string, 10)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			u := newRaw(func(c *rawCall) {
				heard <- "call " + string(c.id)
				c.event(`{"jsonrpc":"2.0","method":"notifications/message"}`)
				if test.leaves {
					leave()
				}
				<-t.Context().Done() // the tool keeps running
			})
			l := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if m := readMessage(r); m.Method == protocol.NotifyCancelled {
					time.Sleep(100 * time.Millisecond) // otherwise the next message overtakes it
					heard <- "cancelled " + string(m.Params.RequestID)
				}
				if r.Method == http.MethodDelete {
					heard <- "the end"
				}
				u.ServeHTTP(w, r)
			}))
			url := startGateway(t, before(ops(l.URL, protocol.Legacy)).WithCallTime(test.limit))
			c := connect(t, url, test.era, &person{}, "ops_x")
			_, _ = c.CallTool(ctx, "ops_x", nil)
			var got []string
			for range 3 {
				select {
				case what := <-heard:
					got = append(got, what)
				case <-time.After(5 * time.Second):
				}
			}
			id := strings.TrimPrefix(strings.Join(got[:1], ""), "call ")
			want := []string{"call " + id, "cancelled " + id, "the end"}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("the upstream heard %q, want %q", got, want)
			}
		})
	}
}
