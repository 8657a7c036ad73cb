package gateway_test

import (
	"context"
	"log"
	"net/http"
	"sync"

	"go.uber.org/zap"

	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
)

func ExampleNew() {
	g, err := gateway.New(&gateway.Options{
		Upstreams: []gateway.Upstream{
			{Name: "docs", Connect: gateway.HTTP("https://docs.example/mcp", nil)},
			{Name: "files", Connect: gateway.Command("files-server", "--root", "/srv")},
		},
		Log: zaplog.New(zap.NewExample()),
	})
	if err != nil {
		log.Fatal(err)
	}
	handler, err := g.Handler(nil)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe("localhost:8080", handler))
}

// The type accounts holds users' accounts at one upstream.
type accounts struct {
	store   oauth.TokenStore // FileStore shares them between replicas
	machine gateway.Credential

	mu      sync.Mutex
	sources map[protocol.Principal]*oauth.Source
}

func (a *accounts) credential(
	_ context.Context, caller protocol.Principal,
) (gateway.Credential, error) {
	if caller.Anonymous() {
		return a.machine, nil // the gateway's own account, which reads the lists
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sources[caller] == nil {
		source, err := oauth.New("https://docs.example/mcp", &oauth.Options{
			RedirectURI: "https://gateway.example/login",
			Account:     caller.Key(), Store: a.store,
		})
		if err != nil {
			return gateway.Credential{}, err
		}
		a.sources[caller] = source
	}
	return gateway.Credential{Key: caller.Key(), Authorizer: a.sources[caller]}, nil
}

// Users log in at an upstream by links shown in the middle of their calls.
func ExampleLogins() {
	people := &accounts{
		store: oauth.NewMemoryStore(), sources: map[protocol.Principal]*oauth.Source{},
	}
	mux := http.NewServeMux()
	g, err := gateway.New(&gateway.Options{
		Upstreams: []gateway.Upstream{{
			Name: "docs", Connect: gateway.HTTP("https://docs.example/mcp", nil),
			Credential: people.credential,
		}},
		Logins: &gateway.Logins{URL: "https://gateway.example/login", Visitor: whoseBrowser},
	})
	if err != nil {
		log.Fatal(err)
	}
	mux.Handle("/login", g.LoginHandler())
	log.Fatal(http.ListenAndServe("localhost:8080", mux))
}

// whoseBrowser stands in for the host's login.
func whoseBrowser(w http.ResponseWriter, r *http.Request) (protocol.Principal, bool) {
	name, password, _ := r.BasicAuth()
	if name != "alice" || password != "a password of hers" {
		w.Header().Set("WWW-Authenticate", `Basic realm="gateway"`)
		http.Error(w, "Log in at the gateway.", http.StatusUnauthorized)
		return protocol.Principal{}, false
	}
	return protocol.Principal{Subject: name}, true
}
