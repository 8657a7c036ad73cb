package rondo

import (
	"context"
	"crypto/sha256"
	"net"
	"net/http"
	"net/url"

	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/replicas"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// Replicas are two replicas on loopback.
type Replicas struct {
	URLs    [2]string
	servers []*http.Server
}

// StartReplicas starts two replicas that pass requests on to each other.
func StartReplicas() (*Replicas, error) {
	secret := sha256.Sum256([]byte("of the benchmarks"))
	key, err := keys.NewKey("k1", secret[:])
	if err != nil {
		return nil, err
	}
	ring, err := keys.NewKeyring(key)
	if err != nil {
		return nil, err
	}
	r := &Replicas{}
	byName := map[string]*url.URL{}
	locate := func(_ context.Context, name string) (*url.URL, error) {
		if u := byName[name]; u != nil {
			return u, nil
		}
		return nil, replicas.ErrUnknown
	}
	var listeners []net.Listener
	for i, name := range [...]string{"a", "b"} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		listeners = append(listeners, listener)
		byName[name] = &url.URL{Scheme: "http", Host: listener.Addr().String(), Path: "/mcp"}
		r.URLs[i] = byName[name].String()
	}
	for i, name := range [...]string{"a", "b"} {
		h := newServerWith(deploy,
			&server.Options{Roundtrip: roundtrip.Options{Sealer: ring}},
			&serverhttp.Options{Replicas: &replicas.Options{Name: name, Keys: ring,
				Locate: locate}})
		srv := &http.Server{Handler: h}
		r.servers = append(r.servers, srv)
		go func() { _ = srv.Serve(listeners[i]) }()
	}
	return r, nil
}

// Close closes the replicas and their connections.
func (r *Replicas) Close() {
	for _, srv := range r.servers {
		_ = srv.Close()
	}
}
