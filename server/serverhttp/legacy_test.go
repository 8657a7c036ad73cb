package serverhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

var legacyVersions = [...]string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

func TestLegacyLifecycle(t *testing.T) {
	srv, _ := legacyServer(t, nil)
	ts, _ := serve(t, srv, nil)
	seen := map[string]bool{}
	for _, version := range legacyVersions {
		t.Run(version, func(t *testing.T) {
			c := openSession(t, ts, version)
			if !regexp.MustCompile(`^[!-~]{22,}$`).MatchString(c.session) || seen[c.session] {
				t.Errorf("got the session id %q", c.session)
			}
			seen[c.session] = true
			if got := read(t, c.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)); got.status != 200 || string(got.ID) != "1" || got.Error != nil {
				t.Errorf("ping: got status %d: %s", got.status, got.body)
			}
			got := c.call(2, "echo")
			if got.header.Get("Content-Type") != "application/json" || got.status != 200 ||
				strings.Contains(got.body, "resultType") {
				t.Errorf("echo: got status %d: %s", got.status, got.body)
			}
			f := c.callFlow(3, "notify")
			f.expect(`"progress":0`, `"progress":1`, `"id":3,"result"`)
			f.end()
			wantStatus(t, "DELETE", read(t, c.do(t.Context(), "DELETE", "")), 204)
			for _, method := range []string{"POST", "GET", "DELETE"} {
				if got := read(t, c.do(t.Context(), method,
					toolCall(4, "echo"))); got.status != 404 || got.Error == nil {
					t.Errorf("%s after DELETE: got status %d: %s", method, got.status, got.body)
				}
			}
		})
	}
}

func TestLegacyStatuses(t *testing.T) {
	c, _, _ := startSession(t, "2025-06-18")
	const ping = `{"jsonrpc":"2.0","id":7,"method":"ping"}`
	const note = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	tests := []struct {
		name, method, body string
		change             []string
		status             int
		code               int64
	}{
		{"no session", "POST", ping, []string{"Mcp-Session-Id", ""}, 400, -32600},
		{"no session, no version", "POST", ping,
			[]string{"Mcp-Session-Id", "", "MCP-Protocol-Version", ""}, 400, -32600},
		{"notification without session", "POST", note, []string{"Mcp-Session-Id", ""}, 400, -32600},
		{"response without session", "POST", `{"jsonrpc":"2.0","id":1,"result":{}}`,
			[]string{"Mcp-Session-Id", ""}, 400, -32600},
		{"unknown session", "POST", ping, []string{"Mcp-Session-Id", "x"}, 404, -32001},
		{"unknown session, initialize", "POST", initializeBody("2025-06-18"),
			[]string{"Mcp-Session-Id", "x"}, 200, 0},
		{"second initialize", "POST", initializeBody("2025-06-18"), nil, 200, -32600},
		{"no version", "POST", ping, []string{"MCP-Protocol-Version", ""}, 200, 0},
		{"version of another session", "POST", ping, []string{"MCP-Protocol-Version", "2025-11-25"},
			200, 0},
		{"unknown version", "POST", ping, []string{"MCP-Protocol-Version", "1999-01-01"}, 400,
			-32022},
		{"invalid version", "POST", ping, []string{"MCP-Protocol-Version", "x"}, 400, -32022},
		{"unknown version, notification", "POST", note,
			[]string{"MCP-Protocol-Version", "1999-01-01"}, 400, -32022},
		{"unknown version, GET", "GET", "", []string{"MCP-Protocol-Version", "1999-01-01"}, 400,
			-32022},
		{"unknown version, DELETE", "DELETE", "", []string{"MCP-Protocol-Version", "1999-01-01"},
			400, -32022},
		{"modern version without _meta", "POST", ping,
			[]string{"MCP-Protocol-Version", "2026-07-28"}, 400, -32602},
		{"GET, modern", "GET", "", []string{"MCP-Protocol-Version", "2026-07-28"}, 405, -32600},
		{"GET without session", "GET", "", []string{"Mcp-Session-Id", ""}, 400, -32600},
		{"GET, unknown session", "GET", "", []string{"Mcp-Session-Id", "x"}, 404, -32001},
		{"GET, JSON only", "GET", "", []string{"Accept", "application/json"}, 406, -32600},
		{"DELETE without session", "DELETE", "", []string{"Mcp-Session-Id", ""}, 400, -32600},
		{"DELETE, unknown session", "DELETE", "", []string{"Mcp-Session-Id", "x"}, 404, -32001},
		{"PUT", "PUT", ping, nil, 405, -32600},
		{"HEAD", "HEAD", "", nil, 405, 0},
		{"notification", "POST", note, nil, 202, 0},
		{"unknown notification", "POST", `{"jsonrpc":"2.0","method":"notifications/unknown"}`, nil, 202, 0},
		{"answer nobody waits for", "POST", `{"jsonrpc":"2.0","id":"x","result":{}}`, nil, 202, 0},
		{"not JSON", "POST", `{`, nil, 400, -32700},
		{"duplicate member", "POST", `{"jsonrpc":"2.0","id":7,"id":8,"method":"ping"}`, nil, 400, -32700},
		{"not a message", "POST", `{}`, nil, 400, -32600},
		{"null id", "POST", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, nil, 400, -32600},
		{"batch", "POST", `[` + ping + `]`, nil, 400, -32600},
		{"unknown method", "POST", `{"jsonrpc":"2.0","id":7,"method":"unknown"}`, nil, 200, -32601},
		{"modern method", "POST", `{"jsonrpc":"2.0","id":7,"method":"server/discover"}`, nil, 200, -32601},
		{"subscription of the other era", "POST", `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{}}}`, nil, 200, -32601},
		{"missing params", "POST", `{"jsonrpc":"2.0","id":7,"method":"tools/call"}`, nil, 200, -32602},
		{"wrong media type", "POST", ping, []string{"Content-Type", "text/plain"}, 415, -32600},
		{"accepts JSON only", "POST", ping, []string{"Accept", "application/json"}, 200, 0},
		{"accepts neither form", "POST", ping, []string{"Accept", "text/html"}, 406, -32600},
		{"foreign origin", "POST", ping, []string{"Origin", "http://evil.example.com"}, 403,
			-32600},
		{"foreign origin, GET", "GET", "", []string{"Origin", "http://evil.example.com"}, 403,
			-32600},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := read(t, c.do(t.Context(), tt.method, tt.body, tt.change...))
			wantRefusal(t, "the answer", got, tt.status, tt.code)
		})
	}
	for name, change := range map[string][]string{"two sessions": {c.session, c.session},
		"two different sessions": {c.session, "x"}} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", c.ts.URL, strings.NewReader(ping))
		noError(t, err)
		r.Header = c.header()
		r.Header["Mcp-Session-Id"] = change
		wantStatus(t, name, send(t, c.ts, r), 400)
	}
}

// A refused initialize leaves no session.
func TestInitializeRefused(t *testing.T) {
	srv, _ := legacyServer(t, nil)
	ts, _ := serve(t, srv, nil)
	c := newClient(t, ts, "")
	for name, body := range map[string]string{
		"no params":    `{"jsonrpc":"2.0","id":0,"method":"initialize"}`,
		"null version": `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":null,"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
		"twice":        `[` + initializeBody("2025-03-26") + `]`,
	} {
		got := read(t, c.post(body))
		if got.Error == nil || got.header.Get("Mcp-Session-Id") != "" {
			t.Errorf("%s: got status %d, session %q: %s", name, got.status,
				got.header.Get("Mcp-Session-Id"), got.body)
		}
	}
	// An unknown revision is answered with a known one.
	got := read(t, c.post(initializeBody("2024-01-01")))
	if got.status != 200 || got.header.Get("Mcp-Session-Id") == "" ||
		!strings.Contains(got.body, `"protocolVersion":"2025-11-25"`) {
		t.Errorf("unknown version: got status %d: %s", got.status, got.body)
	}
}

func TestModernOnly(t *testing.T) {
	srv := newServer(t, &server.Options{ModernOnly: true})
	sessions, _ := serve(t, srv, nil)
	stateless, _ := serve(t, srv, &serverhttp.Options{StatelessLegacy: true})
	modes := map[string]*httptest.Server{"sessions": sessions, "stateless": stateless}
	tests := []struct {
		name, method, version, body string
		status                      int
		code                        int64
		requested                   string
	}{
		{"initialize", "POST", "", initializeBody("2025-11-25"), 400, -32022, "2025-11-25"},
		{"request", "POST", "2025-11-25", `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, 400, -32022, "2025-11-25"},
		{"request without any version", "POST", "", `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, 400, -32020, ""},
		{"batch", "POST", "2025-03-26", `[{"jsonrpc":"2.0","id":7,"method":"tools/list"}]`, 400, -32600, ""},
		{"batch without any version", "POST", "",
			`[` + pingRequest(1) + `,` + toolCall(2, "echo") + `]`, 400, -32600, ""},
		{"GET", "GET", "", "", 405, -32600, ""},
		{"DELETE", "DELETE", "", "", 405, -32600, ""},
	}
	for mode, ts := range modes {
		for _, tt := range tests {
			t.Run(mode+"/"+tt.name, func(t *testing.T) {
				got := do(t, ts, tt.method, headers("", "", "Mcp-Protocol-Version", tt.version,
					"Mcp-Method", ""), tt.body)
				if got.status != tt.status || got.code() != tt.code ||
					got.Error.Data.Requested != tt.requested {
					t.Errorf("got status %d: %s", got.status, got.body)
				}
				if tt.code == -32022 && len(got.Error.Data.Supported) == 0 {
					t.Errorf("does not say what is supported: %s", got.body)
				}
				if tt.status == 405 && got.header.Get("Allow") != "POST" {
					t.Errorf("got Allow %q", got.header.Get("Allow"))
				}
			})
		}
	}
}

// A client's disconnect does not cancel, in any state of the response.
func TestLegacyDisconnect(t *testing.T) {
	c, _, steps := startSession(t, "2025-11-25")
	t.Run("undecided", func(t *testing.T) {
		leave := c.startCall(1, "steps")
		running := <-steps.entered
		_ = leave()
		steps.permit(4)
		if err := context.Cause(running); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the handler's context ended with %v", err)
		}
	})
	t.Run("streaming", func(t *testing.T) {
		go func() { <-steps.entered; steps.allow <- struct{}{} }()
		f := c.callFlow(2, "steps")
		f.expect(`"progress":1`)
		f.drop()
		steps.permit(3)
	})
	select {
	case err := <-steps.ended:
		t.Errorf("a handler was cancelled: %v", err)
	default:
	}
}

// notifications/cancelled cancels, and the request is not answered.
func TestLegacyCancel(t *testing.T) {
	srv, steps := legacyServer(t, nil)
	ts, _ := serve(t, srv, nil)
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	for _, streaming := range []bool{false, true} {
		c := openSession(t, ts, "2025-11-25")
		other := openSession(t, ts, "2025-11-25")
		done := make(chan *reply, 1)
		go func() { done <- c.call(1, "steps") }()
		<-steps.entered
		if streaming {
			steps.allow <- struct{}{}
		}
		// In another session the same id is another request.
		wantStatus(t, "the answer", read(t, other.post(cancel)), 202)
		select {
		case <-steps.ended:
			t.Fatal("cancelled by another session")
		default:
		}
		wantStatus(t, "the answer", read(t, c.post(cancel)), 202)
		<-steps.ended
		wantNoPart(t, "answer of the cancelled request", (<-done).body, "cancelled")
	}
}

// Only the opener can use a session.
func TestSessionsAreBound(t *testing.T) {
	srv, steps := legacyServer(t, nil)
	ts, _ := serve(t, srv,
		&serverhttp.Options{Authenticate: byBearer})
	ann := openAs(t, ts, "ann")
	bob := *ann
	bob.bearer = "bob"
	go func() { <-steps.entered; steps.allow <- struct{}{} }()
	f := ann.callFlow(1, "steps")
	f.expect(`"progress":1`)
	for name, request := range map[string][]string{
		"request":      {"POST", toolCall(1, "echo")},
		"notification": {"POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`},
		"answer":       {"POST", `{"jsonrpc":"2.0","id":1,"result":{}}`},
		"GET":          {"GET", ""},
		"resume":       {"GET", "", "Last-Event-ID", f.LastEventID()},
		"DELETE":       {"DELETE", ""},
	} {
		t.Run(name, func(t *testing.T) {
			wantStatus(t, name,
				read(t, bob.do(t.Context(), request[0], request[1], request[2:]...)), 404)
		})
	}
	steps.permit(3)
	f.expect(`"progress":2`, `"progress":3`, "all steps")
}

// TestPush asks on the stream of the related request, with and without a GET stream.
func TestPush(t *testing.T) {
	srv, steps := legacyServer(t, nil)
	ts, _ := serve(t, srv, nil)
	for _, version := range []string{"2025-06-18", "2025-11-25"} {
		for _, listening := range []bool{false, true} {
			c, sibling := openSession(t, ts, version), openSession(t, ts, version)
			if listening {
				c.listen("")
			}
			f, g := c.callFlow(1, "elicit"), sibling.callFlow(1, "elicit")
			mine, other := f.expect("elicitation/create"), g.expect("elicitation/create")
			// An answer from another session is ignored.
			sibling.answer([]byte(`"`+strings.Trim(string(mine.ID), `"`)+`x"`),
				`{"action":"decline"}`)
			c.answer(mine.ID, `{"action":"accept","content":{"name":"Ann"}}`)
			f.expect(`accept {\"name\":\"Ann\"}`)
			f.end()
			sibling.answer(other.ID, `{"action":"accept","content":{"name":"Bob"}}`)
			g.expect(`accept {\"name\":\"Bob\"}`)
			g.end()
		}
	}
	t.Run("session ends", func(t *testing.T) {
		c := openSession(t, ts, "2025-11-25")
		f := c.callFlow(1, "elicit")
		f.expect("elicitation/create")
		wantStatus(t, "the answer", read(t, c.do(t.Context(), "DELETE", "")), 204)
		wantError(t, "the push did not fail", <-steps.ended)
		f.end()
	})
	t.Run("nobody can hear it", func(t *testing.T) {
		addTool(srv, "late", lateElicit(steps))
		h := servertest.NewHandler(t, srv, nil)
		session := openDirect(t.Context(), h)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-steps.entered
			cancel()
		}()
		serveDirect(ctx, h, "POST", session, toolCall(1, "late")) // until the client disconnects
		steps.allow <- struct{}{}
		wantError(t, "the push did not fail", <-steps.ended)
		noError(t, h.Shutdown(t.Context()))
	})
}

// A waiting client learns that the session is gone, even if the handler ignores its context.
func TestDeleteWhileRunning(t *testing.T) {
	srv, steps := legacyServer(t, nil)
	stubborn := make(chan struct{})
	addTool(srv, "stubborn", func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
		steps.entered <- ctx
		<-stubborn
		return server.Text("at last"), nil
	})
	ts, _ := serve(t, srv, nil)
	for _, tool := range []string{"wait", "stubborn"} {
		c := openSession(t, ts, "2025-11-25")
		get := c.listen("")
		done := make(chan *reply, 1)
		go func() { done <- c.call(1, tool) }()
		ctx := <-steps.entered
		wantStatus(t, "the answer", read(t, c.do(t.Context(), "DELETE", "")), 204)
		<-ctx.Done()
		get.end()
		wantRefusal(t, tool, <-done, 404, -32001)
	}
	close(stubborn)
}

// The kept parameters of initialize are limited.
func TestInitializeSize(t *testing.T) {
	srv, _ := legacyServer(t, nil)
	ts, h := serve(t, srv, nil)
	c := newClient(t, ts, "")
	large := strings.Replace(initializeBody("2025-11-25"), `"sampling":{}`, `"sampling":{},"experimental":{"x":{"y":"`+strings.Repeat("x", 16<<10)+`"}}`, 1)
	if got := read(t, c.post(large)); got.status != 413 || serverhttp.Sessions(h) != 0 {
		t.Errorf("got status %d: %.200s", got.status, got.body)
	}
	const padding = 1 << 20
	before := inUse()
	var kept []*legacyClient
	for range 20 {
		padded := newClient(t, ts, "")
		wantStatus(t, "the answer",
			read(t, padded.post(initializeBody("2025-11-25")+strings.Repeat(" ", padding))), 200)
		kept = append(kept, padded)
	}
	if memory := (int64(inUse()) - int64(before)) / int64(len(kept)); memory > padding/4 {
		t.Errorf("a session keeps %d bytes", memory)
	}
}

// A client that does not read blocks no request and takes bounded memory.
func TestLegacySlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, steps := legacyServer(t, nil)
		addTool(srv, "flood",
			func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
				params := []byte(`{"data":"` + strings.Repeat("x", 1<<20) + `"}`)
				for range 40 {
					if err := call.Notify(ctx,
						&protocol.Notification{Method: protocol.NotifyMessage,
							Params: params}); err != nil {
						steps.ended <- err
						return nil, err
					}
				}
				steps.ended <- nil
				return server.Text("flooded"), nil
			})
		const most = 2 << 20
		ts, h := servePipes(t, srv, serverhttp.Tune(&serverhttp.Options{},
			serverhttp.Tuning{WriteTimeout: time.Second, BytesPerSession: most}))
		c := openSession(t, ts, "2025-11-25")
		conn, err := ts.Client().Transport.(*http.Transport).DialContext(t.Context(), "", "")
		noError(t, err)
		defer conn.Close()
		request := rawRequest(toolCall(1, "flood"), "Mcp-Session-Id: "+c.session)
		write(t, conn, request)
		noError(t, <-steps.ended)
		if used := serverhttp.EventBytes(h); used > most {
			t.Errorf("%d bytes are kept, want at most %d", used, most)
		}
		wantRefusal(t, "another call", c.call(2, "echo"), 200, 0)
	})
}

// TestLegacyHTTP2 uses a stream, its resumption and a GET stream over HTTP/2.
func TestLegacyHTTP2(t *testing.T) {
	srv, steps := legacyServer(t, nil)
	ts := httptest.NewUnstartedServer(servertest.NewHandler(t, srv, nil))
	ts.EnableHTTP2 = true
	ts.StartTLS()
	t.Cleanup(ts.Close)
	c := openSession(t, ts, "2025-11-25")
	get := c.listen("")
	go func() { <-steps.entered; steps.allow <- struct{}{} }()
	f := c.callFlow(1, "steps")
	f.expect(`"progress":1`)
	f.drop()
	g := c.listen(f.LastEventID())
	steps.permit(3)
	g.expect(`"progress":2`, `"progress":3`, `"id":1,"result"`)
	g.end()
	addTool(srv, "new", says("x"))
	get.expect("list_changed")
	wantEqual(t, "HTTP", f.response.ProtoMajor, 2)
}

// A panic only ends its request.
func TestPanicOutsideHandlers(t *testing.T) {
	srv, _ := legacyServer(t,
		&server.Options{Observer: panicsOn[event.HandlerPanicked]("on purpose")})
	ts, _ := serve(t, srv, nil)
	c := openSession(t, ts, "2025-11-25")
	for range 2 {
		if got := c.call(1, "panic"); got.code() != -32603 || string(got.ID) != "1" {
			t.Errorf("got status %d: %s", got.status, got.body)
		}
	}
}

const pinged = `{"jsonrpc":"2.0","method":"notifications/unknown"}`

func pingRequest(id int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, id) }

func ids(t testing.TB, body string) []string {
	t.Helper()
	var all []struct {
		ID    json.RawMessage
		Error struct{ Code int }
	}
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	var list []string
	for _, r := range all {
		list = append(list, fmt.Sprintf("%s:%d", string(r.ID), r.Error.Code))
	}
	slices.Sort(list)
	return list
}

func TestBatch(t *testing.T) {
	srv, _ := legacyServer(t, nil)
	stateful, _ := serve(t, srv, nil)
	stateless, _ := serve(t, srv, &serverhttp.Options{StatelessLegacy: true})
	clients := map[string]*legacyClient{
		"session":   openSession(t, stateful, "2025-03-26"),
		"stateless": openSession(t, stateless, "2025-03-26"),
	}
	tests := []struct {
		name, body string
		status     int
		ids        []string // of the responses, with error codes
	}{
		{"one", `[` + pingRequest(1) + `]`, 200, []string{"1:0"}},
		{"several", `[` + pingRequest(1) + `,` + pingRequest(2) + `,` + toolCall(3, "echo") + `]`,
			200, []string{"1:0", "2:0", "3:0"}},
		{"mixed", `[` + pinged + `,` + pingRequest(1) + `,{"jsonrpc":"2.0","id":"x","result":{}}]`, 200, []string{"1:0"}},
		{"notifications", `[` + pinged + `,` + pinged + `]`, 202, nil},
		{"responses", `[{"jsonrpc":"2.0","id":"x","result":{}}]`, 202, nil},
		{"what is no message", `[` + pingRequest(1) + `,1,{},{"jsonrpc":"2.0","id":5},[]]`, 200,
			[]string{"1:0", "5:-32600", ":-32600", ":-32600", ":-32600"}},
		{"nothing that is one", `[1]`, 200, []string{":-32600"}},
		{"initialize", `[` + initializeBody("2025-03-26") + `,` + pingRequest(1) + `]`, 200,
			[]string{"0:-32600", "1:0"}},
		{"unknown method", `[{"jsonrpc":"2.0","id":1,"method":"x"}]`, 200, []string{"1:-32601"}},
	}
	for mode, c := range clients {
		for _, tt := range tests {
			t.Run(mode+", "+tt.name, func(t *testing.T) {
				response := c.post(tt.body)
				body := readAll(t, response)
				if response.StatusCode != tt.status || (tt.status == 202) != (body == "") {
					t.Fatalf("got status %d: %s", response.StatusCode, body)
				}
				if tt.status == 200 && !slices.Equal(ids(t, body), tt.ids) {
					t.Errorf("got %q, want %q: %s", ids(t, body), tt.ids, body)
				}
			})
		}
		t.Run(mode+", stream", func(t *testing.T) {
			response := c.post(`[` + toolCall(1, "notify") + `,` + pingRequest(2) + `,` +
				toolCall(3, "notify") + `]`)
			list := events(t, response.Body)
			response.Body.Close()
			all := strings.Join(list, "\n")
			if len(list) != 7 || strings.Count(all, `"progress":`) != 4 ||
				strings.Count(all, `"result"`) != 3 {
				t.Errorf("got %q", list)
			}
		})
		for name, body := range map[string]string{
			"empty": `[]`, "cut off": `[` + pingRequest(1),
			"too many": `[` + strings.Repeat(pinged+",", 100) + pinged + `]`,
		} {
			if got := read(t, c.post(body)); got.status != 400 || got.Error == nil {
				t.Errorf("%s, %s: got status %d: %s", mode, name, got.status, got.body)
			}
		}
	}
	for _, version := range []string{"2024-11-05", "2025-06-18", "2025-11-25"} {
		for mode, ts := range map[string]*legacyClient{"session": openSession(t, stateful, version),
			"stateless": openSession(t, stateless, version)} {
			got := read(t, ts.post(`[`+pingRequest(1)+`]`, "MCP-Protocol-Version", version))
			wantRefusal(t, fmt.Sprintf("%s, %s", mode, version), got, 400, -32600)
		}
	}
}

func TestStatelessLegacy(t *testing.T) {
	srv, steps := legacyServer(t, nil)
	addTool(srv, "ask", func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
		if name, ok := who.AcceptedContent(ctx); ok {
			return server.Text("hello, " + name.Name), nil
		}
		return roundtrip.InputRequired(who.Elicit("Who?")), nil
	})
	ts, h := serve(t, srv, &serverhttp.Options{StatelessLegacy: true})
	c := newClient(t, ts, "")
	got := read(t, c.post(initializeBody("2025-11-25")))
	if got.status != 200 || got.header.Get("Mcp-Session-Id") != "" ||
		!strings.Contains(got.body, `"protocolVersion":"2025-11-25"`) {
		t.Errorf("initialize: got status %d: %s", got.status, got.body)
	}
	if strings.Contains(got.body, "listChanged") || strings.Contains(got.body, "subscribe") ||
		strings.Contains(got.body, "logging") {
		t.Errorf("initialize promises what needs a session: %s", got.body)
	}
	wantStatus(t, "initialized",
		read(t, c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)), 202)
	for _, version := range append([]string{""}, legacyVersions[:]...) {
		got := c.call(1, "echo", "MCP-Protocol-Version", version)
		if got.status != 200 || got.Error != nil || strings.Contains(got.body, "resultType") {
			t.Errorf("%s: got status %d: %s", version, got.status, got.body)
		}
		f := c.flow("POST", toolCall(2, "notify"), "MCP-Protocol-Version", version)
		f.expect(`"progress":0`, `"progress":1`, `"id":2,"result"`)
		f.end()
		// nothing can be resumed
		wantEqual(t, version+": id of the last event", f.LastEventID(), "")
	}
	for _, tool := range []string{"elicit", "ask"} {
		got := c.call(1, tool, "MCP-Protocol-Version", "2025-11-25")
		if got.status != 200 || got.Error == nil && !got.Result.IsError {
			t.Errorf("%s: got status %d, want a refusal: %s", tool, got.status, got.body)
		}
	}
	wantError(t, "the push did not fail", <-steps.ended)
	for _, method := range []string{"resources/subscribe", "resources/unsubscribe",
		"logging/setLevel"} {
		if got := read(t, c.post(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"uri":"test://a","level":"debug"}}`)); got.code() != -32601 {
			t.Errorf("%s: got %s", method, got.body)
		}
	}
	for _, method := range []string{"GET", "DELETE"} {
		if got := read(t, c.do(t.Context(), method, "")); got.status != 405 ||
			got.header.Get("Allow") != "POST" {
			t.Errorf("%s: got status %d and Allow %q", method, got.status, got.header.Get("Allow"))
		}
	}
	wantEqual(t, "sessions are open", serverhttp.Sessions(h), 0)
	// Modern requests are unaffected.
	wantStatus(t, "modern",
		do(t, ts, "POST", headers("server/discover", ""), body("server/discover", "")), 200)
}

// A request outlives its client.
func TestStatelessDisconnect(t *testing.T) {
	srv, steps := legacyServer(t, nil)
	h := servertest.NewHandler(t, srv, &serverhttp.Options{StatelessLegacy: true})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-steps.entered
		cancel()
	}()
	serveDirect(ctx, h, "POST", "", toolCall(1, "steps"))
	steps.permit(4)
	noError(t, h.Shutdown(t.Context()))
	select {
	case err := <-steps.ended:
		t.Errorf("the handler was cancelled: %v", err)
	default:
	}
}
