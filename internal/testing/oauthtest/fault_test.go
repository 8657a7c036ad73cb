package oauthtest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

// patience is how long a client waits for a server with a fault.
func patience(fault string) time.Duration {
	if strings.HasSuffix(fault, "answer") {
		return 200 * time.Millisecond // none will come
	}
	return time.Minute
}

// look returns all that a client can see of a server, as text: each endpoint is asked once.
func look(t *testing.T, as *oauthtest.Server, patience time.Duration) string {
	t.Helper()
	p := newParty(t, as)
	p.http.Timeout = patience
	p.http.CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}
	p.id = "app"
	var seen strings.Builder
	get := func(method, path, contentType, body string, header http.Header) {
		request, err := http.NewRequestWithContext(t.Context(), method, as.URL+path,
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, values := range header {
			request.Header[name] = values
		}
		request.Header.Set("Content-Type", contentType)
		response, err := p.http.Do(request)
		if err != nil {
			fmt.Fprintf(&seen, "%s: no answer\n", path)
			return
		}
		defer response.Body.Close()
		response.Header.Del("Date")
		recorder := httptest.NewRecorder()
		_, _ = recorder.Body.ReadFrom(response.Body)
		body = recorder.Body.String()
		if len(body) > 100_000 {
			body = fmt.Sprint(len(body), " bytes")
		}
		fmt.Fprintf(&seen, "%s: %d %s %s\n", path, response.StatusCode, response.Header, body)
	}
	get("GET", "/.well-known/oauth-authorization-server", "", "", nil)
	get("GET", "/jwks", "", "", nil)
	get("POST", "/register", "application/json", `{"redirect_uris":["https://a.example/"],
		"token_endpoint_auth_method":"client_secret_basic"}`, nil)
	const form = "application/x-www-form-urlencoded"
	token := as.Issue(oauthtest.Grant{Resource: p.resource})
	get("POST", "/introspect", form, "token="+token,
		http.Header{"Authorization": {"Basic YXBpOnNlY3JldA=="}}) // api:secret
	callback, verifier, err := p.authorize("read write", nil)
	fmt.Fprintln(&seen, callback, err)
	// The redirect may be spoiled, the code is in the list of secrets.
	codes := as.Secrets()
	i := slices.IndexFunc(codes, func(s string) bool { return strings.HasPrefix(s, "code-") })
	if i < 0 {
		return seen.String()
	}
	get("POST", "/token", form, "grant_type=authorization_code&client_id=app&code="+codes[i]+
		"&code_verifier="+verifier+"&redirect_uri="+p.redirect+"&resource="+p.resource, nil)
	secrets := as.Secrets()
	j := slices.IndexFunc(secrets, func(s string) bool { return strings.HasPrefix(s, "refresh-") })
	if j < 0 {
		return seen.String()
	}
	get("POST", "/token", form, "grant_type=refresh_token&client_id=app&refresh_token="+
		secrets[j]+"&resource="+p.resource, nil)
	return seen.String()
}

// TestEveryFaultIsSeen holds that a fault changes what a client sees, and that Behave ends it. What
// differs by chance from run to run, and by the port, is taken out.
func TestEveryFaultIsSeen(t *testing.T) {
	newServer := func(t *testing.T) *oauthtest.Server {
		return oauthtest.NewServer(t, &oauthtest.Options{
			Clients: []oauthtest.Client{{ID: "api", Secret: "secret"},
				{ID: "app", RedirectURIs: []string{"http://127.0.0.1:7/callback"}}},
		})
	}
	clean := func(as *oauthtest.Server, seen string) string {
		for _, secret := range as.Secrets() {
			if strings.HasPrefix(secret, "secret:") || len(secret) > 10 {
				seen = strings.ReplaceAll(seen, secret, "SECRET")
			}
		}
		var lines []string
		for line := range strings.Lines(strings.ReplaceAll(seen, as.URL, "URL")) {
			fields := slices.DeleteFunc(strings.FieldsFunc(line, func(r rune) bool {
				return r == ',' || r == ' ' || r == '{' || r == '['
			}), func(f string) bool {
				for _, changing := range []string{`"jti"`, `"iat"`, `"exp"`, `"x"`, `"y"`,
					`"client_id":"client-`,
					"Content-Length", `"padding"`} {
					if strings.Contains(f, changing) {
						return true
					}
				}
				return false
			})
			lines = append(lines, strings.Join(fields, " "))
		}
		return strings.Join(lines, "")
	}
	as := newServer(t)
	right := clean(as, look(t, as, time.Minute))
	again := newServer(t)
	if got := clean(again, look(t, again, time.Minute)); got != right {
		t.Fatalf("two good servers differ:\n%s\n%s", right, got)
	}
	for _, fault := range as.Faults() {
		t.Run(string(fault), func(t *testing.T) {
			as := newServer(t)
			as.Misbehave(fault)
			if clean(as, look(t, as, patience(string(fault)))) == right {
				t.Error("nothing differs")
			}
			as = newServer(t)
			as.Misbehave(fault)
			as.Behave()
			if got := clean(as, look(t, as, time.Minute)); got != right {
				t.Errorf("after Behave:\n%s\nwant\n%s", got, right)
			}
		})
	}
}

func TestResourceFaultsAreSeen(t *testing.T) {
	newResource := func(t *testing.T) (*oauthtest.Server, *oauthtest.Resource) {
		as := oauthtest.NewServer(t, nil)
		return as, oauthtest.NewResource(t, &oauthtest.ResourceOptions{
			Servers: []*oauthtest.Server{as}, Scopes: []string{"read"},
			Need: func(rpc, target string) []string {
				if rpc == "tools/call" && target == "save" {
					return []string{"write"}
				}
				return nil
			},
		})
	}
	look := func(t *testing.T, as *oauthtest.Server, r *oauthtest.Resource,
		patience time.Duration) string {
		t.Helper()
		transport := new(http.Transport)
		t.Cleanup(transport.CloseIdleConnections)
		client := http.Client{Transport: transport, Timeout: patience,
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			}}
		var seen strings.Builder
		ask := func(method, url, token, body string) {
			request, err := http.NewRequestWithContext(t.Context(), method, url,
				strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if token != "" {
				request.Header.Set("Authorization", "Bearer "+token)
			}
			response, err := client.Do(request)
			if err != nil {
				fmt.Fprintf(&seen, "%s: no answer\n", url)
				return
			}
			defer response.Body.Close()
			recorder := httptest.NewRecorder()
			_, _ = recorder.Body.ReadFrom(response.Body)
			response.Header.Del("Date")
			text := recorder.Body.String()
			if len(text) > 100_000 {
				text = "much"
			}
			fmt.Fprintf(&seen, "%d %s %s\n", response.StatusCode, response.Header, text)
		}
		ask("GET", r.Origin+"/.well-known/oauth-protected-resource/mcp", "", "")
		token := as.Issue(oauthtest.Grant{Resource: r.URL, Scopes: []string{"read"}})
		ask("POST", r.URL, "", `{}`)
		ask("POST", r.URL, "another", `{}`)
		ask("POST", r.URL, token, `{"id":1,"method":"tools/list"}`)
		ask("POST", r.URL, token, `{"id":1,"method":"tools/call","params":{"name":"save"}}`)
		text := strings.ReplaceAll(seen.String(), as.URL, "AS")
		return strings.ReplaceAll(text, r.Origin, "ORIGIN")
	}
	as, r := newResource(t)
	right := look(t, as, r, time.Minute)
	for _, want := range []string{
		`401 map[`, `error=\"invalid_token\", scope=\"read\"`,
		`403 map[`, `error=\"insufficient_scope\", scope=\"read write\"`, `"result":{}`,
		`resource_metadata=\"ORIGIN/.well-known/oauth-protected-resource/mcp\"`,
	} {
		if !strings.Contains(right, strings.ReplaceAll(want, `\"`, `"`)) {
			t.Errorf("no %s in\n%s", want, right)
		}
	}
	for _, fault := range r.Faults() {
		t.Run(string(fault), func(t *testing.T) {
			as, r := newResource(t)
			r.Misbehave(fault)
			if look(t, as, r, patience(string(fault))) == right {
				t.Error("nothing differs")
			}
			r.Behave()
			if got := look(t, as, r, time.Minute); got != right {
				t.Errorf("after Behave:\n%s\nwant\n%s", got, right)
			}
		})
	}
}

func TestResourceTakesTokensForItselfOnly(t *testing.T) {
	as := oauthtest.NewServer(t, nil)
	r := oauthtest.NewResource(t, &oauthtest.ResourceOptions{Servers: []*oauthtest.Server{as}})
	status := func(headers ...string) int {
		t.Helper()
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, r.URL,
			strings.NewReader(`{"id":1}`))
		request.Header["Authorization"] = headers
		w := httptest.NewRecorder()
		r.ServeHTTP(w, request)
		return w.Code
	}
	expired := "Bearer " + as.Issue(oauthtest.Grant{Resource: r.URL})
	as.Expire()
	right := "Bearer " + as.Issue(oauthtest.Grant{Resource: r.URL})
	wrong := "Bearer " + as.Issue(oauthtest.Grant{Resource: r.Origin})
	other := oauthtest.NewServer(t, nil)
	for _, test := range []struct {
		name    string
		headers []string
		want    int
	}{
		{"right", []string{right}, 200},
		{"none", nil, 401},
		{"two", []string{right, right}, 401},
		{"other resource", []string{wrong}, 401},
		{"other issuer", []string{"Bearer " + other.Issue(oauthtest.Grant{Resource: r.URL})}, 401},
		{"expired", []string{expired}, 401},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := status(test.headers...); got != test.want {
				t.Errorf("%s: %d, want %d", test.name, got, test.want)
			}
		})
	}
}

func TestHoldKeepsRequestsWaiting(t *testing.T) {
	as := oauthtest.NewServer(t, nil)
	p := newParty(t, as)
	gate := as.Hold(oauthtest.JWKS)
	done := make(chan json.RawMessage, 2)
	for range 2 {
		go func() { done <- p.send(http.MethodGet, "/jwks", "", nil).Keys }()
	}
	<-gate.Arrived
	<-gate.Arrived
	if len(done) != 0 || as.Count(oauthtest.JWKS) != 2 {
		t.Error("the requests did not wait")
	}
	gate.Release()
	if keys := <-done; keys == nil {
		t.Error("no keys")
	}
	<-done
}
