package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/elicitation"
	frontdoor "github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
	"github.com/rondo-mcp/rondo/server/replicas"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A file is what the file of -config says. Secrets stand in environment variables, which it names.
type file struct {
	Listen string `json:"listen"` // address, for example 127.0.0.1:8080
	// Users are names by the environment variable that has the user's token. None: everybody is
	// anonymous.
	Users     map[string]string `json:"users"`
	Upstreams []fileUpstream    `json:"upstreams"`
	Limits    fileLimits        `json:"limits"`
	// Keys is the environment variable with the keys that replicas share.
	Keys string `json:"keys"`
	// Name is that of this replica, Replicas are the URLs of all by name.
	Name     string            `json:"name"`
	Replicas map[string]string `json:"replicas"`

	lookupEnv func(name string) (string, bool) // of users' tokens, nil: os.LookupEnv
}

// fileLimits are those of frontdoor.Options. 0, and what is left out, is the default.
type fileLimits struct {
	Calls             int `json:"calls"`             // that are parked, in all
	CallsPerPrincipal int `json:"callsPerPrincipal"` // of these, of one user
	Connections       int `json:"connections"`       // for calls, to one upstream
}

// set sets those of the gateway, or returns which one cannot be.
func (l fileLimits) set(opts *frontdoor.Options) error {
	for name, n := range map[string]int{"calls": l.Calls,
		"callsPerPrincipal": l.CallsPerPrincipal, "connections": l.Connections} {
		if n < 0 {
			return fmt.Errorf("limits.%s: is negative; leave it out for the default", name)
		}
	}
	opts.MaxCalls, opts.MaxCallsPerPrincipal = l.Calls, l.CallsPerPrincipal
	opts.MaxConnections = l.Connections
	return nil
}

// A fileUpstream has a URL or a command.
type fileUpstream struct {
	Name       string   `json:"name"`
	URL        string   `json:"url"`
	Token      string   `json:"token"` // environment variable with the token for the URL
	Command    []string `json:"command"`
	Unprefixed []string `json:"unprefixed"`
	// Refuse has kinds of questions that it may not ask: elicitation.form, elicitation.url,
	// sampling, roots.
	Refuse []protocol.InputKind `json:"refuse"`
}

// runConfigured runs the gateway that a file describes until ctx ends.
func runConfigured(ctx context.Context, path string, stdout, stderr io.Writer) error {
	var f file
	text, err := os.Open(path)
	if err != nil {
		return err
	}
	defer text.Close()
	decoder := json.NewDecoder(text)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&f); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	handler, drain, err := f.build(stderr)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return listen(ctx, f.Listen, handler, drain, stdout)
}

// build returns a handler for clients at /mcp and Prometheus at /metrics, and what ends the gateway
// after people have had time to answer.
func (f *file) build(logs io.Writer) (_ http.Handler, drain func(), err error) {
	registry := prometheus.NewRegistry()
	encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	logger := zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(logs)),
		zap.InfoLevel))
	opts, ring, err := f.options(logger, registry)
	if err != nil {
		return nil, nil, err
	}
	g, err := frontdoor.New(opts)
	if err != nil {
		return nil, nil, err
	}
	handler, err := f.handler(g, ring)
	if err != nil {
		return nil, nil, errors.Join(err, g.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = g.Shutdown(ctx) // people have had their time
		_ = handler.Shutdown(ctx)
	}, nil
}

// options returns those of the gateway, and the keys of a fleet, which are nil without one.
func (f *file) options(logger *zap.Logger, registry *prometheus.Registry) (
	*frontdoor.Options, *keys.Keyring, error) {
	observer, chain, err := middleware.Production(zaplog.New(logger), prom.New(registry), nil)
	if err != nil {
		return nil, nil, err
	}
	opts := &frontdoor.Options{
		Server: server.Options{
			Info:     protocol.Implementation{Name: "gateway", Version: "1.0.0"},
			Observer: observer, Middleware: chain,
		},
		Log: zaplog.New(logger), Metrics: prom.New(registry),
	}
	if err = f.Limits.set(opts); err != nil {
		return nil, nil, err
	}
	if opts.Elicitation, err = elicitation.OptionsFromEnv(os.LookupEnv); err != nil {
		return nil, nil, err
	}
	for _, u := range f.Upstreams {
		upstream, err := u.upstream()
		if err != nil {
			return nil, nil, err
		}
		opts.Upstreams = append(opts.Upstreams, upstream)
	}
	if f.Keys == "" {
		return opts, nil, nil
	}
	ring, err := keys.KeyringFromEnv(os.LookupEnv, f.Keys)
	if err != nil {
		return nil, nil, err
	}
	opts.Server.Roundtrip = roundtrip.Options{Sealer: ring, RequireSharedKey: true}
	return opts, ring, nil
}

func (u fileUpstream) upstream() (frontdoor.Upstream, error) {
	upstream := frontdoor.Upstream{Name: u.Name, Unprefixed: u.Unprefixed,
		Refuse: u.Refuse}
	switch {
	case (u.URL == "") == (len(u.Command) == 0):
		return upstream, fmt.Errorf("upstream %q: it has a url or a command", u.Name)
	case u.URL == "":
		upstream.Connect = frontdoor.Command(u.Command[0], u.Command[1:]...)
		return upstream, nil
	}
	header := http.Header{}
	if u.Token != "" {
		token, ok := os.LookupEnv(u.Token)
		if !ok {
			return upstream, fmt.Errorf("upstream %q: %s is not set", u.Name, u.Token)
		}
		header.Set("Authorization", "Bearer "+token)
	}
	upstream.Connect = frontdoor.HTTP(u.URL, &clienthttp.Options{Header: header})
	return upstream, nil
}

func (f *file) handler(g *frontdoor.Gateway, ring *keys.Keyring) (*serverhttp.Handler, error) {
	opts := &serverhttp.Options{}
	if len(f.Users) > 0 {
		names, lookupEnv := map[string]string{}, f.lookupEnv
		if lookupEnv == nil {
			lookupEnv = os.LookupEnv
		}
		for variable, name := range f.Users {
			token, ok := lookupEnv(variable)
			if !ok || token == "" {
				return nil, fmt.Errorf("users: %s is not set", variable)
			}
			names["Bearer "+token] = name
		}
		// It stands for the verification of real tokens: see package bearer.
		opts.Authenticate = func(r *http.Request) (protocol.Principal, error) {
			name, ok := names[r.Header.Get("Authorization")]
			if !ok {
				return protocol.Principal{}, errors.New("nobody has this token")
			}
			return protocol.Principal{Subject: name}, nil
		}
	}
	if len(f.Replicas) > 0 {
		locate, err := replicas.LocateByList(f.Replicas)
		if err != nil {
			return nil, err
		}
		opts.Replicas = &replicas.Options{Name: f.Name, Keys: ring, Locate: locate}
	}
	return g.Handler(opts)
}
