package inspect_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/inspection"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/inspect"
)

var arguments = map[string]any{"env": "prod"}

func TestFlowsOfBothErasAreShownWithoutAnswers(t *testing.T) {
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		t.Run(era.String(), func(t *testing.T) {
			s := newSite(t, nil)
			c := s.client(t, era, acceptSecret)
			if _, err := c.CallTool(t.Context(), "deploy", arguments); err != nil {
				t.Fatal(err)
			}
			list := s.get(t, "flows")
			end := "complete"
			if era == protocol.Legacy {
				end = "accepted"
			}
			want(t, list, "deploy", "<td>"+end+"</td>")
			_, id, _ := strings.Cut(list, `href="flows?id=`)
			id, _, _ = strings.Cut(id, `"`)
			flow := s.get(t, "flows?id="+id)
			want(t, flow, "mcp.input_required", "questions=confirm ", "questions=twice ",
				"mcp.answered", "outcome=accepted")
			wantNone(t, list+flow, secret, "Sure?", "prod", "00:00:00.000")
		})
	}
}

func TestWhoIsWaitedForIsShown(t *testing.T) {
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		t.Run(era.String(), func(t *testing.T) {
			s := newSite(t, nil)
			asked, answer := make(chan bool, 2), make(chan bool)
			c := s.client(t, era, func(q *client.FormQuestion) *protocol.ElicitResult {
				asked <- true
				<-answer
				return acceptSecret(q)
			})
			done := make(chan error, 1)
			go func() {
				_, err := c.CallTool(t.Context(), "deploy", arguments)
				done <- err
			}()
			<-asked
			overview := s.get(t, "")
			_, waiting, _ := strings.Cut(overview, "Waiting for users")
			waiting, _, _ = strings.Cut(waiting, "Server</h2>")
			want(t, waiting, "anybody (anonymous)", hostile[:30], "deploy", "<td>confirm</td>",
				" ms ago")
			wantNone(t, overview, secret)
			close(answer)
			noError(t, <-done)
			want(t, s.get(t, ""), "None of the last 1,000 flows waits")
		})
	}
}

// The client of a flow may be gone.
func TestWhatIsPastItsTimeIsMarkedAndDropsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page, err := inspect.New(nil)
		noError(t, err)
		srv, err := server.New(&server.Options{Info: protocol.Implementation{Name: "site",
			Version: "1.2.3"}, Roundtrip: roundtrip.Options{RoundTTL: 2 * time.Hour}})
		noError(t, err)
		page.Show(srv)
		ann := protocol.Principal{Issuer: "https://login.example", Subject: "ann"}
		page.Observe(t.Context(), event.InputRequested{Where: event.Where{
			Version: protocol.Latest, Method: "tools/call", Target: "deploy", Flow: "f", Round: 1},
			Questions: []event.AskedQuestion{{Key: "confirm"}, {Key: "env"}}, Principal: &ann,
			Client: &protocol.Implementation{Name: "desk"}})
		look := func(after time.Duration, texts ...string) string {
			time.Sleep(after)
			body := localGet(page, "/")
			want(t, body, texts...)
			return body
		}
		first := look(2*time.Hour-time.Second, "ann of https://login.example", "<td>desk</td>",
			"<td>confirm, env</td>", "1 h 59 min ago", "<td>site 1.2.3</td>", "Key that seals")
		wantNone(t, first, "expired</strong>")
		look(2*time.Second, "expired</strong>", "confirm, env")
		look(9*time.Minute, "expired</strong>", "confirm, env")
		wantNone(t, look(time.Minute, "None of the last 1,000 flows"), "confirm, env")
	})
}

func TestFlowsAreFilteredByPersonToolAndState(t *testing.T) {
	page, err := inspect.New(nil)
	noError(t, err)
	srv, err := server.New(nil)
	noError(t, err)
	page.Show(srv)
	for i, f := range []struct{ who, client, tool string }{
		{"ann", "desk", "deploy"}, {"ann", "phone", "delete"}, {"bob", "desk", "deploy"}} {
		where := event.Where{Version: protocol.Latest, Method: "tools/call", Target: f.tool,
			Flow: fmt.Sprintf("flow-%d", i), Round: 1}
		page.Observe(t.Context(), event.InputRequested{Where: where,
			Client:    &protocol.Implementation{Name: f.client},
			Principal: &protocol.Principal{Issuer: "https://login.example", Subject: f.who}})
		if i == 1 {
			page.Observe(t.Context(), event.FlowEnded{Where: where, How: words.EndComplete})
		}
	}
	for query, flows := range map[string]string{
		"": "012", "who=ANN": "01", "who=desk": "02", "tool=del": "1", "state=asks": "02",
		"who=ann&state=asks": "0", "who=ann&tool=delete&state=complete": "1", "who=nobody": "",
	} {
		body := localGet(page, "/flows?"+query)
		for i := range 3 {
			listed := strings.Contains(body, fmt.Sprintf("flow-%d", i))
			if listed != strings.Contains(flows, fmt.Sprint(i)) {
				t.Errorf("%s: flow %d is listed: %t", query, i, listed)
			}
		}
		_, states, _ := strings.Cut(body, ">all</option>")
		want(t, body, ">asks</option>", ">complete</option>")
		if n := strings.Count(states, "</option>"); n != 2 {
			t.Errorf("%s: %d states to choose from", query, n)
		}
	}
	one := localGet(page, "/flows?id=flow-0")
	want(t, one, "<code>flow-0</code>")
	wantNone(t, one, "flow-1", "flow-2")
}

type part func(*inspection.Report)

func (p part) Inspect(ctx context.Context) { p(inspection.From(ctx)) }

func TestLimitsAreShownForPeople(t *testing.T) {
	page, err := inspect.New(nil)
	noError(t, err)
	srv, err := server.New(nil)
	noError(t, err)
	page.Show(srv, part(func(r *inspection.Report) {
		r.AddLimit("ten of", "o", 10, 100)
		r.AddLimit("nine of", "o", 9, 100)
		r.AddBytes("bytes of", "o", 1023, 1024)
		r.AddBytes("more of", "o", 3<<29, 256<<20)
		r.AddBytes("most of", "o", 1536, 5<<40)
		r.AddLimit("any of", "o", 7, -1)
	}))
	full, rest, _ := strings.Cut(localGet(page, "/"), "<details>")
	for part, rows := range map[string][]string{full: {"ten of 10 100 10 % o",
		"bytes of 1023 B 1 KiB 99 % o", "more of 1.5 GiB 256 MiB 600 % o"}, rest: {
		"nine of 9 100 9 % o", "most of 1.5 KiB 5120 GiB 0 % o", "any of 7 no limit – o"}} {
		part = regexp.MustCompile("<[^>]*>").ReplaceAllString(part, " ")
		want(t, strings.Join(strings.Fields(part), " "), rows...)
	}
}

func localGet(page *inspect.Page, path string) string {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.RemoteAddr, r.Host = "127.0.0.1:9", "localhost"
	w := httptest.NewRecorder()
	page.ServeHTTP(w, r)
	return narrowHeads.ReplaceAllString(w.Body.String(), "")
}

func TestSessionsAndLimitsAreShownWithoutIDs(t *testing.T) {
	s := newSite(t, nil)
	c := s.client(t, protocol.Legacy, acceptSecret)
	if _, err := c.CallTool(t.Context(), "deploy", arguments); err != nil {
		t.Fatal(err)
	}
	overview := s.get(t, "")
	want(t, overview, "1 open;", hostile, "2025-11-25", "serverhttp.Limits.Sessions",
		"roundtrip.Limits.Waiting", "tasks.Options.Runs", "server.Options.MaxSubscriptions")
	wantNone(t, overview)
	response, err := http.Post(s.URL+"/mcp", "application/json", strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
			`"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`))
	noError(t, err)
	response.Body.Close()
	id := response.Header.Get("Mcp-Session-Id")
	if id == "" {
		t.Fatal("no session was opened")
	}
	overview = s.get(t, "")
	want(t, overview, "2 open;")
	wantNone(t, overview, id)
}

func TestTasksAreShown(t *testing.T) {
	s := newSite(t, nil)
	c := s.client(t, protocol.Modern, acceptSecret)
	done := make(chan error, 1)
	go func() {
		_, err := c.CallTool(t.Context(), "work", nil)
		done <- err
	}()
	s.eventually(t, "", "<td>runs</td>")
	close(s.release)
	noError(t, <-done)
	s.eventually(t, "", "<td>completed</td>")
}

func TestRefusalsAreShownWithTheirReasons(t *testing.T) {
	s := newSite(t, nil)
	request, _ := http.NewRequest(http.MethodPost, s.URL+"/mcp", strings.NewReader("{"))
	request.Header.Set("Origin", "https://evil.example/"+hostile)
	response, err := s.browser.Do(request)
	noError(t, err)
	response.Body.Close()
	c := s.client(t, protocol.Modern, acceptSecret)
	_, _ = c.CallToolParams(t.Context(), &protocol.CallToolParams{Name: "deploy",
		Arguments: json.RawMessage(`{"env":"prod"}`),
		Retry:     protocol.Retry{RequestState: protocol.StateText("forged")}})
	page := s.get(t, "refusals")
	want(t, page, "mcp.request_refused", "reason=origin", "status=403", "mcp.state_rejected",
		"reason=malformed")
	if strings.Index(page, "mcp.state_rejected") > strings.Index(page, "mcp.request_refused") {
		t.Error("the oldest is the first")
	}
	want(t, s.get(t, "flows"), "No flows yet") // a refused request is not a flow
	wantNone(t, page, secret)
}

// stateOf returns the requestState of the second question of a flow.
func (s *site) stateOf(t *testing.T) string {
	t.Helper()
	c := s.client(t, protocol.Modern, acceptSecret)
	result, pending, err := c.Begin(t.Context(), &protocol.CallToolParams{Name: "deploy",
		Arguments: json.RawMessage(`{"env":"prod"}`)})
	if err != nil || pending == nil {
		t.Fatalf("got %v, %v", result, err)
	}
	noError(t, pending.Answer("confirm", acceptSecret(nil)))
	_, pending, err = c.Resume(t.Context(), pending)
	if err != nil || pending == nil {
		t.Fatal(err)
	}
	state, _ := pending.State().Text()
	return state
}

func TestAStateShowsKeysAndSizesAndNoContents(t *testing.T) {
	s := newSite(t, nil)
	page, _ := s.post(t, "state", url.Values{"state": {" " + s.stateOf(t) + "\n"}})
	want(t, page, "tools/call deploy", "<td>site</td>", "anybody (anonymous)",
		"<td>memo</td><td>plan</td>", "<td>answer</td><td>confirm</td>",
		"elicitation.form, accepted", "<td>question</td><td>twice</td>")
	wantNone(t, page, secret, "prod", "battery")

	key, err := keys.NewKey("other", []byte(strings.Repeat("0123456789abcdef", 2)))
	noError(t, err)
	other, err := keys.NewKeyring(key)
	noError(t, err)
	foreign, err := other.Seal(t.Context(), []byte(secret))
	noError(t, err)
	for name, c := range map[string]struct{ state, want string }{
		"of another key": {foreign, "unknown_key"},
		"forged":         {hostile, "malformed"},
		"too long":       {strings.Repeat("A", 100_000), "too_long"},
	} {
		t.Run(name, func(t *testing.T) {
			page, _ := s.post(t, "state", url.Values{"state": {c.state}})
			want(t, page, "cannot be opened here: <code>"+c.want)
			wantNone(t, page, secret)
		})
	}
	page = s.get(t, "state?state="+url.QueryEscape(s.stateOf(t)))
	if strings.Contains(page, "memo</td>") {
		t.Error("a GET opened a state")
	}
}

// With other contexts the Inspect methods do nothing.
func TestNobodyElseCanInspect(t *testing.T) {
	s := newSite(t, nil)
	s.server.Inspect(context.Background()) // nothing to find out, and no panic
}

func TestOnlyThisMachineIsAdmitted(t *testing.T) {
	s := newSite(t, nil)
	admitting, err := inspect.New(&inspect.Options{Admit: func(r *http.Request) bool {
		return r.Header.Get("X-Key") == "k"
	}})
	noError(t, err)
	admitting.Show(s.server)
	for _, c := range []struct {
		name, peer, host string
		header           [2]string
		want, admitted   int
	}{
		{"a browser of this machine", "127.0.0.1:9", "localhost:9090", [2]string{}, 200, 200},
		{"over IPv6", "[::1]:9", "[::1]:9090", [2]string{}, 200, 200},
		{"a name without a port", "127.0.0.1:9", "LOCALHOST", [2]string{}, 200, 200},
		{"its own page", "127.0.0.1:9", "localhost", [2]string{"Origin", "http://localhost"},
			200, 200},
		{"another machine", "192.0.2.1:9", "localhost", [2]string{}, 403, 200},
		{"a peer without an address", "@", "localhost", [2]string{}, 403, 200},
		{"a rebound name", "127.0.0.1:9", "evil.example", [2]string{}, 403, 200},
		{"a name that looks local", "127.0.0.1:9", "localhost.evil.example", [2]string{}, 403, 200},
		{"no host", "127.0.0.1:9", "", [2]string{}, 403, 200},
		{"a proxy", "127.0.0.1:9", "localhost", [2]string{"X-Forwarded-For", "1.2.3.4"},
			403, 200},
		{"another proxy", "127.0.0.1:9", "localhost", [2]string{"Forwarded", "for=1.2.3.4"},
			403, 200},
		{"a proxy that names itself", "127.0.0.1:9", "localhost", [2]string{"Via", "1.1 x"},
			403, 200},
		{"a page elsewhere", "127.0.0.1:9", "localhost",
			[2]string{"Origin", "https://evil.example"}, 403, 403},
		{"a page of no origin", "127.0.0.1:9", "localhost", [2]string{"Origin", "null"}, 403, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			request := func(page http.Handler, key string) int {
				r := httptest.NewRequest(http.MethodGet, "/debug/rondo/flows", nil)
				r.RemoteAddr, r.Host = c.peer, c.host
				r.Header.Set("X-Key", key)
				if c.header[0] != "" {
					r.Header.Set(c.header[0], c.header[1])
				}
				w := httptest.NewRecorder()
				page.ServeHTTP(w, r)
				return w.Code
			}
			if got := request(s.page, "k"); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
			if got := request(admitting, "k"); got != c.admitted {
				t.Errorf("with Admit: got %d, want %d", got, c.admitted)
			}
			if got := request(admitting, "wrong"); got != c.want {
				t.Errorf("with an Admit that says no: got %d, want %d", got, c.want)
			}
		})
	}
}

func TestAFormNeedsItsTokenItsCookieAndItsOrigin(t *testing.T) {
	s := newSite(t, nil)
	token := tokenField.FindStringSubmatch(s.get(t, "state"))[1]
	cookie := s.browser.Jar.Cookies(&url.URL{Scheme: "http", Host: "127.0.0.1",
		Path: "/debug/rondo/"})[0].Value
	r := httptest.NewRequest(http.MethodGet, "http://localhost/state", nil)
	r.RemoteAddr = "127.0.0.1:9"
	r.AddCookie(&http.Cookie{Name: "rondo_inspect", Value: cookie[:25]})
	w := httptest.NewRecorder()
	s.page.ServeHTTP(w, r)
	if fresh := w.Header().Get("Set-Cookie"); !strings.HasSuffix(fresh, "; SameSite=Strict") ||
		!strings.Contains(fresh, "; HttpOnly") {
		t.Errorf("in place of a short cookie: %q", fresh)
	}
	for _, c := range []struct {
		name, token, cookie, origin string
		want                        int
	}{
		{"all three", token, cookie, s.URL, 200},
		{"no cookie", token, "", s.URL, 403},
		{"neither cookie nor token", "", "", s.URL, 403},
		{"no token", "", cookie, s.URL, 403},
		{"the token of another browser", token, strings.Repeat("A", 26), s.URL, 403},
		{"a short cookie", token, cookie[:25], s.URL, 403},
		{"no origin", token, cookie, "", 403},
		{"another origin", token, cookie, "https://evil.example", 403},
		{"another port", token, cookie, "http://127.0.0.1:1", 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _ := http.NewRequest(http.MethodPost, s.URL+"/debug/rondo/state", strings.NewReader(
				url.Values{"token": {c.token}, "state": {"x"}}.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			if c.cookie != "" {
				r.AddCookie(&http.Cookie{Name: "rondo_inspect", Value: c.cookie})
			}
			response, err := (&http.Client{}).Do(r)
			noError(t, err)
			response.Body.Close()
			if response.StatusCode != c.want {
				t.Errorf("got %d, want %d", response.StatusCode, c.want)
			}
		})
	}
}

func TestEveryResponseForbidsScripts(t *testing.T) {
	s := newSite(t, nil)
	for _, tab := range []string{"", "flows", "refusals", "state", "style.css", "none"} {
		response, err := s.browser.Get(s.URL + "/debug/rondo/" + tab)
		noError(t, err)
		response.Body.Close()
		policy := response.Header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") ||
			strings.Contains(policy, "script-src") ||
			!strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("%s: policy %q", tab, policy)
		}
		for header, want := range map[string]string{"Referrer-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin", "X-Content-Type-Options": "nosniff",
			"Cache-Control": "no-store"} {
			if got := response.Header.Get(header); got != want {
				t.Errorf("%s: %s is %q", tab, header, got)
			}
		}
		if media := response.Header.Get("Content-Type"); strings.HasPrefix(media, "text/css") !=
			(tab == "style.css") {
			t.Errorf("%s is %s", tab, media)
		}
		if want := tab == "none"; (response.StatusCode == http.StatusNotFound) != want {
			t.Errorf("%s: got %s", tab, response.Status)
		}
	}
}

func TestOtherMethodsAreRefused(t *testing.T) {
	s := newSite(t, nil)
	r := httptest.NewRequest(http.MethodPut, "http://localhost/state", nil)
	r.RemoteAddr = "127.0.0.1:9"
	w := httptest.NewRecorder()
	s.page.ServeHTTP(w, r)
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("got %d, %v", w.Code, w.Header())
	}
}

func TestAPageWithoutAServerSaysSo(t *testing.T) {
	page, err := inspect.New(nil)
	noError(t, err)
	want(t, localGet(page, "/"), "call Page.Show")
}

// Flows are never looked at and have the longest texts.
func TestMemoryIsBounded(t *testing.T) {
	page, err := inspect.New(nil)
	noError(t, err)
	long := strings.Repeat("long ", 1<<12)
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for i := range 3000 {
		where := event.Where{Version: protocol.Latest, Method: "tools/call", Target: long,
			Flow: rotate(i), Round: i}
		for range 10 {
			page.Observe(t.Context(), event.Answered{Where: where, Key: long})
			page.Observe(t.Context(), event.HandlerPanicked{Where: where, Stack: []byte(long)})
		}
		page.Observe(t.Context(), event.HandlerFailed{Where: where, Text: long})
	}
	const most = 12 << 20
	if grown := heap() - before; grown > most {
		t.Errorf("it keeps %d bytes, want at most %d", grown, most)
	}
	runtime.KeepAlive(page)
}

func rotate(i int) string {
	const digits = "0123456789abcdef"
	id := make([]byte, 32)
	for at := range id {
		id[at] = digits[i>>(4*(at%8))&0xf]
	}
	return string(id)
}

// Errors of middleware may quote the call.
func TestBugsQuoteNoCalls(t *testing.T) {
	page, err := inspect.New(nil)
	noError(t, err)
	srv, err := server.New(&server.Options{Observer: page, Middleware: []server.Middleware{
		func(server.Handler) server.Handler {
			return func(_ context.Context, r *server.Request) (protocol.Result, error) {
				p := r.Params.(*protocol.CallToolParams)
				return nil, fmt.Errorf("cannot audit %s", p.Arguments)
			}
		}}})
	noError(t, err)
	server.AddTool(srv, server.Tool{Name: "deploy"}, func(context.Context, *server.ToolCall,
		struct{}) (protocol.CallToolOutcome, error) {
		return server.Text("done"), nil
	})
	page.Show(srv)
	id, _ := protocol.ParseID([]byte(`1`))
	if _, err = srv.Handle(t.Context(), &protocol.Request{ID: id, Method: protocol.MethodCallTool,
		Params: []byte(`{"name":"deploy","arguments":{"note":"` + secret + `"},"_meta":{` +
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientCapabilities":{}}}`)}, nil); err != nil {
		t.Fatal(err)
	}
	body := localGet(page, "/refusals")
	want(t, body, "mcp.server_bug")
	wantNone(t, body, secret)
}

func TestConcurrentEventsAndLooks(t *testing.T) {
	s := newSite(t, nil)
	done := make(chan bool)
	for i := range 4 {
		go func() {
			defer func() { done <- true }()
			for n := range 3000 {
				where := event.Where{Version: protocol.Latest, Method: "tools/call", Target: "t",
					Flow: rotate(i<<20 | n), Round: 1}
				s.page.Observe(context.Background(), event.InputRequested{Where: where})
				s.page.Observe(context.Background(), event.FlowEnded{Where: where,
					How: words.EndFailed})
			}
		}()
	}
	for range 4 {
		s.get(t, "flows")
		s.get(t, "refusals")
		<-done
	}
	if n := strings.Count(s.get(t, "flows"), "?id="); n != 1000 {
		t.Errorf("%d flows are shown, want 1000", n)
	}
	if n := strings.Count(s.get(t, "refusals"), "?id="); n != 100 {
		t.Errorf("%d refusals are shown, want 100", n)
	}
}

var _ inspect.Part = (*server.Server)(nil)
