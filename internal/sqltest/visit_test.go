package sqltest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/sqlstore"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/roundtrip/visit"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

type about struct{ Name string }

type entered struct{ Password string }

// testVisit: a call waits at one replica while a browser finishes the visit at another.
func testVisit(t *testing.T, a, b store.StateStore, at func(t *testing.T) string) {
	mux := http.NewServeMux()
	site := httptest.NewServer(mux)
	t.Cleanup(site.Close)
	ann := protocol.Principal{Issuer: "issuer-marker", Subject: "subject-marker"}
	newPage := func(states store.StateStore) *visit.Page[about, entered] {
		p, err := visit.NewPage(site.URL+"/page", &visit.Options{Store: states,
			Keys: servertest.NewKeyring("k"),
			Visitor: func(http.ResponseWriter, *http.Request) (protocol.Principal, bool) {
				return ann, true
			}}, func(w http.ResponseWriter, r *http.Request, v *visit.Visit[about, entered]) {
			if r.Method != http.MethodPost {
				fmt.Fprintf(w, "%s [%s]", v.About.Name, v.Token)
			} else if err := v.Finish(r.Context(), entered{r.PostFormValue("p")}); err != nil {
				http.Error(w, err.Error(), http.StatusConflict)
			}
		})
		noError(t, err)
		return p
	}
	page := newPage(a)
	mux.Handle("/page", newPage(b))
	srv, err := server.New(&server.Options{Info: servertest.Info()})
	noError(t, err)
	t.Cleanup(func() { _ = srv.Close() })
	server.AddTool(srv, server.Tool{Name: "unlock"}, func(ctx context.Context, _ *server.ToolCall,
		_ struct{}) (protocol.CallToolOutcome, error) {
		got, err := page.Ask(ctx, "k", "Please.", about{"question-marker"})
		if err != nil {
			return nil, err
		}
		key, err := roundtrip.IdempotencyKey(ctx, "a later step")
		return server.Text(got.Password + " " + fmt.Sprint(key != "")), err
	})
	mux.Handle("/mcp", servertest.NewHandler(t, srv, &serverhttp.Options{
		Authenticate: func(*http.Request) (protocol.Principal, error) { return ann, nil }}))
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		callByVisit(t, site.URL+"/mcp", era)
	}
	rest := at(t)
	for _, marker := range []string{"question", "password", "issuer", "subject"} {
		if len(rest) < 500 || strings.Contains(rest, marker+"-marker") {
			t.Errorf("%s-marker is in the clear, in %d bytes", marker, len(rest))
		}
	}
}

func callByVisit(t *testing.T, endpoint string, era protocol.Era) {
	t.Helper()
	peer, err := clienthttp.New(endpoint, nil)
	noError(t, err)
	ended := make(chan string, 2)
	c, err := client.New(peer, &client.Options{Era: era, ElicitURL: func(_ context.Context,
		q *client.URLQuestion) (*protocol.ElicitResult, error) {
		time.AfterFunc(time.Second/2, func() { ended <- enter(q.URL); ended <- enter(q.URL) })
		return &protocol.ElicitResult{Action: protocol.ActionAccept}, nil
	}})
	noError(t, err)
	defer c.Close()
	result, err := c.CallTool(t.Context(), "unlock", nil)
	noError(t, err)
	if got := result.Content[0].(*protocol.TextContent).Text; got != "password-marker true" {
		t.Errorf("%v: the call ended with %q", era, got)
	}
	if first, second := <-ended, <-ended; first != "200 OK" || second != "410 Gone" {
		t.Errorf("%v: the visit: %s, once more: %s", era, first, second)
	}
}

func enter(link string) (status string) {
	shown, err := http.Get(link)
	if err != nil {
		return err.Error()
	}
	defer shown.Body.Close()
	text, err := io.ReadAll(shown.Body)
	if err != nil {
		return err.Error()
	}
	token := regexp.MustCompile(`\[(.*)\]`).FindSubmatch(text)
	if token == nil {
		return shown.Status
	}
	form := url.Values{visit.TokenField: {string(token[1])}, "p": {"password-marker"}}
	post, err := http.NewRequest(http.MethodPost, link, strings.NewReader(form.Encode()))
	if err != nil {
		return err.Error()
	}
	post.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	post.Header.Set("Origin", post.URL.Scheme+"://"+post.URL.Host)
	for _, cookie := range shown.Cookies() {
		post.AddCookie(cookie)
	}
	sent, err := http.DefaultClient.Do(post)
	if err != nil {
		return err.Error()
	}
	defer sent.Body.Close()
	return sent.Status
}

func TestVisitInSQLite(t *testing.T) {
	db, reopen := newSQLite(t)
	opts := sqlstore.Options{Dialect: sqlstore.SQLite}
	testVisit(t, newStore(t, db, opts), newStore(t, reopen(t, ""), opts),
		func(t *testing.T) string { return readFiles(t, db) })
}
