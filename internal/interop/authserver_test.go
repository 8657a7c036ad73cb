//go:build node

package interop_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/server/bearer"
)

type authServer struct {
	process *servertest.Process
	url     string
	// metadataURL is where publish serves client metadata documents.
	metadataURL string
	mu          sync.Mutex
	metadata    http.Handler
}

// startAuthServer starts the authorization server, and a trusted https server for client metadata.
func startAuthServer(t *testing.T) *authServer {
	t.Helper()
	as := &authServer{}
	documents := httptest.NewTLSServer(http.HandlerFunc(as.serveMetadata))
	t.Cleanup(documents.Close)
	as.metadataURL = documents.URL + "/client.json"
	trusted := filepath.Join(t.TempDir(), "trusted.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: documents.Certificate().Raw}
	noError(t, os.WriteFile(trusted, pem.EncodeToMemory(block), 0o600))
	as.process = startNodeWith(t, []string{"NODE_EXTRA_CA_CERTS=" + trusted}, "authserver.mjs")
	as.url = as.process.Line()
	return as
}

func (as *authServer) serveMetadata(w http.ResponseWriter, r *http.Request) {
	as.mu.Lock()
	h := as.metadata
	as.mu.Unlock()
	h.ServeHTTP(w, r)
}

func (as *authServer) publish(opts *oauth.Options) {
	as.mu.Lock()
	defer as.mu.Unlock()
	as.metadata = opts.ServeMetadata()
}

func (as *authServer) command(t *testing.T, name string) {
	t.Helper()
	if _, err := io.WriteString(as.process.In, name+"\n"); err != nil {
		t.Fatal(err)
	}
	if got := as.process.Line(); got != name {
		t.Fatalf("%s: got %q", name, got)
	}
}

// newLoopback returns a login with cookies. It fails at once if the browser does not come back.
func newLoopback(t *testing.T) *oauth.Loopback {
	t.Helper()
	jar, err := cookiejar.New(nil)
	noError(t, err)
	browser := oauthtest.NewBrowser(t)
	browser.Client = &http.Client{Jar: jar}
	return &oauth.Loopback{Browse: func(ctx context.Context, address string) error {
		callback, err := browser.Visit(ctx, address)
		if err != nil {
			return err
		}
		_, err = browser.Load(ctx, callback.String())
		return err
	}}
}

// Our client gets tokens from a third-party authorization server, with each kind of client id, and
// our server accepts them.
func TestIndependentAuthorizationServer(t *testing.T) {
	as := startAuthServer(t)
	ways := []struct {
		name          string
		opts          oauth.Options
		path          string
		registrations int
		introspects   bool
	}{
		{name: "dynamic registration", path: "/mcp", registrations: 1},
		{name: "metadata document", path: "/mcp", opts: oauth.Options{
			Client: oauth.ClientInfo{MetadataURL: as.metadataURL}}},
		{name: "pre-registration", path: "/mcp", opts: oauth.Options{
			Registrations: []oauth.Registration{{Issuer: as.url, ClientID: "known",
				ClientSecret: "known-secret"}}}},
		{name: "introspection", path: "/opaque", registrations: 1, introspects: true},
	}
	var table strings.Builder
	for _, way := range ways {
		for _, revision := range []string{modern, v20251125} {
			t.Run(way.name+"/"+revision, func(t *testing.T) {
				issuer := bearer.Issuer{URL: as.url}
				if way.introspects {
					issuer.Introspection = &bearer.Introspection{
						URL:      as.url + "/token/introspection",
						ClientID: "resource-server", ClientSecret: "resource-secret"}
				}
				endpoint := protectedRondoAt(t, way.path, issuer)
				events := &loginEvents{}
				opts := way.opts
				opts.Interaction = newLoopback(t)
				opts.Observe = events.observe
				as.publish(&opts)
				readAndWrite(t, dialWithLogin(t, endpoint, revision, &opts))
				logins, made := events.count(oauth.LoginEnded), events.count(oauth.ClientCreated)
				if logins != 2 || made != way.registrations || len(events.errs) > 0 {
					t.Errorf("%d logins, %d registrations, errors %v; want 2, %d and none",
						logins, made, events.errs, way.registrations)
				}
				fmt.Fprintf(&table, "%-22s %s  %d logins (one is a step-up), %d registrations\n",
					way.name, revision, logins, made)
			})
		}
	}
	t.Logf("oidc-provider %s\n%s", authServerVersion, table.String())
}

// The server rotates single-use refresh tokens and keys, which callers do not notice.
func TestIndependentAuthorizationServerRotates(t *testing.T) {
	as := startAuthServer(t)
	as.command(t, "brief")
	for _, revision := range []string{modern, v20251125} {
		t.Run(revision, func(t *testing.T) {
			endpoint := protectedRondo(t, bearer.Issuer{URL: as.url})
			events := &loginEvents{}
			call := dialWithLogin(t, endpoint, revision, &oauth.Options{Observe: events.observe,
				Interaction: newLoopback(t)})
			ctx := within(t, patience)
			callUntilRefreshed := func(times int) {
				t.Helper()
				for events.count(oauth.TokenRefresh) < times {
					if got, err := call(ctx, "read"); err != nil || got != "read for alice" {
						t.Fatalf("got %q, %v", got, err)
					}
					time.Sleep(10 * time.Millisecond) // tokens expire in the process's real time
				}
			}
			callUntilRefreshed(2) // the second refresh uses the first one's result
			as.command(t, "rotate")
			callUntilRefreshed(4)
			if logins := events.count(oauth.LoginEnded); logins != 1 || len(events.errs) > 0 {
				t.Errorf("%d logins, errors %v; want 1 and none", logins, events.errs)
			}
		})
	}
}
