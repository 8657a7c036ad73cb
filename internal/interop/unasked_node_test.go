//go:build node

package interop_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	questions "github.com/rondo-mcp/rondo/roundtrip/visit"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// Clients without elicitation reach their person by the link in the first call's result.
func TestClientsWithoutElicitationReachTheirPerson(t *testing.T) {
	ann, mux := protocol.Principal{Subject: "ann"}, http.NewServeMux()
	site := httptest.NewServer(mux)
	t.Cleanup(site.Close)
	page, err := questions.NewQuestions(site.URL+"/page", &questions.QuestionOptions{
		Options: questions.Options{
			Visitor: func(http.ResponseWriter, *http.Request) (protocol.Principal, bool) {
				return ann, true
			}}})
	noError(t, err)
	mux.Handle("/page", page)
	srv, err := server.New(&server.Options{Info: servertest.Info(),
		Roundtrip: roundtrip.Options{Page: page}})
	noError(t, err)
	t.Cleanup(func() { _ = srv.Close() })
	server.AddTool(srv, server.Tool{Name: "deploy"}, func(ctx context.Context,
		_ *server.ToolCall, _ struct{}) (protocol.CallToolOutcome, error) {
		got, err := roundtrip.Ask[struct {
			Target string `json:"target"`
		}](ctx, "where", "Deploy where?")
		return server.Text("deployed to " + got.Target), err
	})
	endpoint, _ := listen(t, servertest.NewHandler(t, srv, &serverhttp.Options{
		Authenticate: func(*http.Request) (protocol.Principal, error) {
			return ann, nil
		}}))
	for _, c := range []struct{ name, revision string }{
		{"official", modern}, {"official", v20251125}, {"mcp-go", modern}, {"mcp-go", v20251125},
		{"client", modern}, {"client", v20251125}, {"sdk", v20251125},
	} {
		t.Run(c.name+"/"+c.revision, func(t *testing.T) {
			client := dialMake(t, c.name, c.revision, endpoint)
			call := func() string {
				text, err := client.do(within(t, patience), request{
					Method: protocol.MethodCallTool, Target: "deploy"})
				if err != nil {
					text = err.Error()
				}
				return text
			}
			enterTarget(t, call())
			if text := call(); text != "deployed to prod" {
				t.Errorf("got %q", text)
			}
		})
	}
	// The Inspector connects anew for each call: it is the principal, and not the connection, that
	// has the answer.
	for _, era := range []string{"modern", "legacy"} {
		t.Run("inspector/"+era, func(t *testing.T) {
			call := inspection{args: []string{"--method", "tools/call", "--tool-name", "deploy"},
				want: []string{"call again"}, fail: true}
			enterTarget(t, call.run(t, installed(t), era, endpoint))
			call.want, call.fail = []string{"deployed to prod"}, false
			call.run(t, installed(t), era, endpoint)
		})
	}
}

// enterTarget answers the question behind the link in a text.
func enterTarget(t *testing.T, text string) {
	t.Helper()
	link := regexp.MustCompile(`http://[^\s"\\]+`).FindString(text)
	browser := newFormBrowser(t)
	load := func(method string, form url.Values) (status int, page string) {
		r, err := http.NewRequestWithContext(t.Context(), method, link,
			strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatalf("got %q, want a link: %v", text, err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", r.URL.Scheme+"://"+r.URL.Host)
		resp, page, err := browser.load(r)
		if err != nil {
			t.Fatalf("got %q, want a link: %v", text, err)
		}
		return resp.StatusCode, page
	}
	_, page := load(http.MethodGet, nil)
	form, _ := testkit.ReadHTMLForm(page)
	form.Set("action", "accept")
	form.Set("field.target", "prod")
	if status, page := load(http.MethodPost, form); status != http.StatusOK {
		t.Fatalf("%d %s", status, page)
	}
}
