package inspect_test

import (
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/inspect"
	"github.com/rondo-mcp/rondo/server/serverhttp"
	"github.com/rondo-mcp/rondo/server/tasks"
)

const hostile = `"><script>alert(1)</script><img src=x onerror=alert(2)>` // must stay text

const secret = "correct horse battery staple" // must not appear on the page, unless entered there

type site struct {
	*httptest.Server
	page    *inspect.Page
	server  *server.Server
	browser *http.Client
	passed  atomic.Int32 // calls that came through the middleware
	callers chan protocol.Principal
	release chan struct{} // ends the tool "wait"
}

type deployment struct {
	Env   string `json:"env" enum:"staging,prod"`
	Count int    `json:"count,omitempty" minimum:"1" maximum:"9" default:"2"`
}

type confirmation struct {
	Name  string `json:"name" title:"Name <b>again</b>"`
	Level int    `json:"level,omitempty" minimum:"1" maximum:"5"`
}

func newSite(t testing.TB, opts *inspect.Options) *site {
	t.Helper()
	s := &site{callers: make(chan protocol.Principal, 100), release: make(chan struct{})}
	page, err := inspect.New(opts)
	noError(t, err)
	s.page = page
	count := func(next server.Handler) server.Handler {
		return func(ctx context.Context, r *server.Request) (protocol.Result, error) {
			if r.Message.Method == protocol.MethodCallTool {
				s.passed.Add(1)
			}
			return next(ctx, r)
		}
	}
	s.server, err = server.New(&server.Options{Observer: event.Observers(page),
		Info:       protocol.Implementation{Name: "site", Version: "1.0.0"},
		Middleware: []server.Middleware{count}})
	noError(t, err)
	s.addTools()
	work, err := tasks.New(s.server, nil)
	noError(t, err)
	handler, err := serverhttp.New(s.server, nil)
	noError(t, err)
	page.Show(s.server, handler, work)
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	mux.Handle("/debug/rondo/", page)
	s.Server = httptest.NewServer(mux)
	jar, _ := cookiejar.New(nil)
	s.browser = &http.Client{Jar: jar}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = work.Shutdown(ctx)
		_ = handler.Shutdown(ctx)
		_ = s.server.Close()
		s.Close()
		s.browser.CloseIdleConnections()
	})
	return s
}

func (s *site) addTools() {
	server.AddTool(s.server, server.Tool{Name: "deploy", Description: hostile},
		func(ctx context.Context, c *server.ToolCall, in deployment) (protocol.CallToolOutcome,
			error) {
			s.callers <- c.Principal
			if _, err := roundtrip.Memo(ctx, "plan",
				func(context.Context) (string, error) { return secret, nil }); err != nil {
				return nil, err
			}
			got, err := roundtrip.Ask[confirmation](ctx, "confirm", hostile)
			if err != nil {
				return nil, err
			}
			_, err = roundtrip.Ask[confirmation](ctx, "twice", "Sure?")
			text := fmt.Sprintf("%d to %s %d%s", in.Count, in.Env, got.Level, hostile)
			return server.Text(text), err
		})
	server.AddTool(s.server, server.Tool{Name: "large"},
		func(ctx context.Context, _ *server.ToolCall, _ struct{}) (protocol.CallToolOutcome,
			error) {
			_, err := roundtrip.Ask[confirmation](ctx, "large", strings.Repeat("large ", 60<<10/6))
			return server.Text("done"), err
		})
	server.AddTool(s.server, server.Tool{Name: "visit"},
		func(ctx context.Context, _ *server.ToolCall, _ struct{}) (protocol.CallToolOutcome,
			error) {
			err := roundtrip.AskURL(ctx, "login", "Log in",
				"https://example.com/?"+url.QueryEscape(hostile))
			return server.Text("agreed"), err
		})
	server.AddRawTool(s.server, server.Tool{Name: "rich", InputSchema: []byte(
		`{"type":"object","properties":{"a":{"type":"object"}}}`)},
		func(_ context.Context, c *server.ToolCall) (protocol.CallToolOutcome, error) {
			return server.Text(string(c.Arguments)), nil
		})
	server.AddTool(s.server, server.Tool{Name: "work", Task: server.TaskMust},
		func(ctx context.Context, _ *server.ToolCall, _ struct{}) (protocol.CallToolOutcome,
			error) {
			if err := roundtrip.BeginTask(ctx); err != nil {
				return nil, err
			}
			select {
			case <-s.release:
			case <-ctx.Done():
			}
			return server.Text("done"), nil
		})
}

func (s *site) client(t testing.TB, era protocol.Era,
	answer func(*client.FormQuestion) *protocol.ElicitResult) *client.Client {
	t.Helper()
	transport, err := clienthttp.New(s.URL+"/mcp", nil)
	noError(t, err)
	c, err := client.New(transport, &client.Options{Era: era, Tasks: true,
		Info: protocol.Implementation{Name: hostile, Version: "1"},
		ElicitForm: func(_ context.Context, q *client.FormQuestion) (*protocol.ElicitResult,
			error) {
			return answer(q), nil
		}})
	noError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func acceptSecret(*client.FormQuestion) *protocol.ElicitResult {
	result, _ := client.Accept(map[string]any{"name": secret, "level": 4})
	return result
}

func (s *site) get(t testing.TB, tab string) string {
	t.Helper()
	response, err := s.browser.Get(s.URL + "/debug/rondo/" + tab)
	noError(t, err)
	return read(t, response)
}

func read(t testing.TB, response *http.Response) string {
	t.Helper()
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	noError(t, err)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("got %s: %s", response.Status, body)
	}
	return narrowHeads.ReplaceAllString(string(body), "")
}

// narrowHeads are the heads of columns in cells, for narrow screens.
var narrowHeads = regexp.MustCompile(` data-head="[^"]*"`)

var tokenField = regexp.MustCompile(`name="token" value="([0-9a-f]+)"`)

func (s *site) post(t testing.TB, tab string, form url.Values) (page string, where *url.URL) {
	t.Helper()
	form.Set("token", tokenField.FindStringSubmatch(s.get(t, "state"))[1])
	request, _ := http.NewRequest(http.MethodPost, s.URL+"/debug/rondo/"+tab,
		strings.NewReader(form.Encode()))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Origin", s.URL)
	response, err := s.browser.Do(request)
	noError(t, err)
	return read(t, response), response.Request.URL
}

func want(t testing.TB, page string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(html.UnescapeString(page), text) {
			t.Errorf("the page lacks %q:\n%s", text, page)
		}
	}
}

// wantNone also refuses unescaped hostile texts.
func wantNone(t testing.TB, page string, texts ...string) {
	t.Helper()
	for _, text := range append(texts, "<script", "<img") {
		if strings.Contains(page, text) {
			t.Errorf("the page has %q:\n%s", text, page)
		}
	}
}

// The method eventually polls a tab until it has all texts.
func (s *site) eventually(t testing.TB, tab string, texts ...string) string {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		page := s.get(t, tab)
		missing := ""
		for _, text := range texts {
			if !strings.Contains(html.UnescapeString(page), text) {
				missing = text
			}
		}
		if missing == "" {
			return page
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s lacks %q:\n%s", tab, missing, page)
		}
	}
}
