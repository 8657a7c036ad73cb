package servertest

import (
	"context"
	"crypto/sha256"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/server/replicas"
)

// NewKeyring returns a keyring whose secrets are made of the ids. The first key seals.
func NewKeyring(ids ...string) *keys.Keyring {
	list := make([]keys.Key, len(ids))
	for i, id := range ids {
		secret := sha256.Sum256([]byte(id))
		key, err := keys.NewKey(id, secret[:])
		if err != nil {
			panic(err)
		}
		list[i] = key
	}
	ring, err := keys.NewKeyring(list[0], list[1:]...)
	if err != nil {
		panic(err)
	}
	return ring
}

// A Fleet is a set of replicas that forward requests to each other. They are named a, b and so on.
type Fleet struct{ Servers []*httptest.Server }

// StartFleet starts replicas, which run until the test ends. build returns a replica's handler.
func StartFleet(t testing.TB, count int, build func(o *replicas.Options) http.Handler) *Fleet {
	f, urls, ring := &Fleet{}, &sync.Map{}, NewKeyring("shared")
	locate := func(_ context.Context, name string) (*url.URL, error) {
		if at, ok := urls.Load(name); ok {
			return url.Parse(at.(string))
		}
		return nil, replicas.ErrUnknown
	}
	for i := range count {
		name := string(rune('a' + i))
		server := httptest.NewServer(build(&replicas.Options{Name: name, Keys: ring,
			Locate: locate}))
		t.Cleanup(func() {
			server.CloseClientConnections()
			server.Close()
		})
		urls.Store(name, server.URL+"/mcp")
		f.Servers = append(f.Servers, server)
	}
	return f
}

// Balancer returns a handler that passes requests to the replicas in turn.
func (f *Fleet) Balancer() http.Handler {
	var turn atomic.Uint32
	return FullDuplex(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			at, _ := url.Parse(f.Servers[int(turn.Add(1))%len(f.Servers)].URL)
			r.SetURL(at)
		},
		Transport:     &http.Transport{DisableKeepAlives: true},
		FlushInterval: -1, // pass on events at once
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler) // one end has hung up
		},
	})
}

// FullDuplex lets next, a [httputil.ReverseProxy], respond before it has read the whole request.
// Without it, net/http closes the body at the first write, and the proxy may close the connection.
func FullDuplex(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			panic("servertest: " + err.Error())
		}
		next.ServeHTTP(w, r)
	})
}
