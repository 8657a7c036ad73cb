package visit_test

import (
	"context"
	"fmt"
	"html/template"
	"io"
	"log"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/visit"
	"github.com/rondo-mcp/rondo/server"
)

// The handler passes Database to the page, which returns Secret.
type Database struct {
	Name string `json:"name"`
}

type Secret struct {
	Password string `json:"password"`
}

var passwordForm = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><title>Password</title>
<form method="post">
<p><label>Password of {{.About.Name}} <input type="password" name="password" required></label>
<input type="hidden" name="visit_token" value="{{.Token}}">
<button>Send</button>
</form></html>
`))

// servePassword is the page. It runs only for the user who was asked.
func servePassword(w http.ResponseWriter, r *http.Request, v *visit.Visit[Database, Secret]) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	entered := r.PostFormValue("password")
	if r.Method != http.MethodPost || entered == "" {
		_ = passwordForm.Execute(w, v) // the browser may have gone
		return
	}
	if err := v.Finish(r.Context(), Secret{entered}); err != nil {
		http.Error(w, "Please try again.", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "Thank you. You can close this page.")
}

// loggedIn stands for the site's login, such as a session cookie. It returns the same principal as
// the user's access tokens: the same issuer and subject.
func loggedIn(w http.ResponseWriter, r *http.Request) (protocol.Principal, bool) {
	name, _, ok := r.BasicAuth()
	if !ok {
		w.Header().Set("WWW-Authenticate", "Basic")
		http.Error(w, "Please log in.", http.StatusUnauthorized)
	}
	return protocol.Principal{Issuer: "https://id.example", Subject: name}, ok
}

// migrate asks for a password on a page, because it must not pass through the client.
func migrate(page *visit.Page[Database, Secret]) func(context.Context, *server.ToolCall, Database) (
	protocol.CallToolOutcome, error) {
	return func(ctx context.Context, _ *server.ToolCall, in Database) (
		protocol.CallToolOutcome, error) {
		secret, err := page.Ask(ctx, "password", "Please enter the password of the database.", in)
		if err != nil {
			return nil, err
		}
		return server.Text(fmt.Sprintf("migrated %s with a password of %d letters", in.Name,
			len(secret.Password))), nil
	}
}

// A password travels from the browser to the handler, past the client. A stolen link shows nothing.
func Example() {
	mux := http.NewServeMux()
	site := httptest.NewServer(mux)
	defer site.Close()
	page, err := visit.NewPage(site.URL+"/password", &visit.Options{Visitor: loggedIn},
		servePassword)
	if err != nil {
		log.Fatal(err)
	}
	mux.Handle("/password", page)
	srv, err := server.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	server.AddTool(srv, server.Tool{Name: "migrate"}, migrate(page))

	c, err := client.New(srv, &client.Options{ElicitURL: func(_ context.Context,
		q *client.URLQuestion) (*protocol.ElicitResult, error) {
		for _, person := range []string{"mallory", "ann"} {
			fmt.Println(person, "opens the link:", enterPassword(person, q.URL))
		}
		return &protocol.ElicitResult{Action: protocol.ActionAccept}, nil
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ann := server.WithPrincipal(context.Background(),
		protocol.Principal{Issuer: "https://id.example", Subject: "ann"})
	result, err := c.CallTool(ann, "migrate", Database{"orders"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Content[0].(*protocol.TextContent).Text)
	// Output:
	// mallory opens the link: 404 Not Found
	// ann opens the link: 200 OK
	// migrated orders with a password of 6 letters
}

// enterPassword plays a user with a browser.
func enterPassword(person, link string) (status string) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err.Error()
	}
	browser := &http.Client{Jar: jar}
	u, err := url.Parse(link)
	if err != nil {
		return err.Error()
	}
	u.User = url.UserPassword(person, "")
	shown, err := browser.Get(u.String())
	if err != nil {
		return err.Error()
	}
	defer shown.Body.Close()
	text, err := io.ReadAll(shown.Body)
	if err != nil {
		return err.Error()
	}
	token := regexp.MustCompile(`name="visit_token" value="([^"]+)"`).FindSubmatch(text)
	if token == nil {
		return shown.Status
	}
	form := url.Values{"visit_token": {string(token[1])}, "password": {"secret"}}
	post, err := http.NewRequest(http.MethodPost, u.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return err.Error()
	}
	post.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	post.Header.Set("Origin", u.Scheme+"://"+u.Host)
	sent, err := browser.Do(post)
	if err != nil {
		return err.Error()
	}
	defer sent.Body.Close()
	return sent.Status
}
