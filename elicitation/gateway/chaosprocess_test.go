package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/replicas"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// chaosVariable is the environment variable with the settings of a process of [TestChaos].
const chaosVariable = "GATEWAY_TEST_CHAOS"

// processSettings describe a gateway, or an upstream if File is set.
type processSettings struct {
	Name     string            // of the gateway
	Gateways map[string]string // URLs by name
	Upstream map[string]string // URLs by name
	File     string            // file of an upstream's notes
	Address  string            // listen address of a gateway
}

var upstreamEras = map[string]protocol.Era{"old": protocol.Legacy, "new": protocol.Modern}

// serveChaosProcess returns true after serving, if [TestChaos] started this process.
func serveChaosProcess() bool {
	text := os.Getenv(chaosVariable)
	if text == "" {
		return false
	}
	var settings processSettings
	err := json.Unmarshal([]byte(text), &settings)
	if err == nil {
		err = settings.serve()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

func (s *processSettings) serve() error {
	build := s.newGateway
	if s.File != "" {
		build = s.newUpstream
	}
	handler, err := build()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", s.Address)
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(listener, handler) }() // ends with the process
	fmt.Println(listener.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func (s *processSettings) newGateway() (http.Handler, error) {
	ring := servertest.NewKeyring("shared")
	opts := &gateway.Options{
		Server:   server.Options{Roundtrip: unlimited()},
		MaxCalls: -1, MaxCallsPerPrincipal: -1, MaxConnections: 5000,
	}
	opts.Server.Roundtrip.Sealer, opts.Server.Roundtrip.Audience = ring, "gateway"
	for name, url := range s.Upstream {
		opts.Upstreams = append(opts.Upstreams, gateway.Upstream{
			Name: name, Connect: gateway.HTTP(url, nil), Era: upstreamEras[name]})
	}
	g, err := gateway.New(opts)
	if err != nil {
		return nil, err
	}
	locate, err := replicas.LocateByList(s.Gateways)
	if err != nil {
		return nil, err
	}
	return g.Handler(&serverhttp.Options{
		Authenticate: subjectOf, Limits: manySessions(),
		Replicas: &replicas.Options{Name: s.Name, Keys: ring, Locate: locate},
	})
}

func subjectOf(r *http.Request) (protocol.Principal, error) {
	return protocol.Principal{Subject: r.Header.Get("Authorization")}, nil
}

func manySessions() serverhttp.Limits {
	return serverhttp.Limits{Sessions: 5000, SessionsPerPrincipal: -1, RequestsPerSession: 5000}
}

func unlimited() roundtrip.Options {
	return roundtrip.Options{MinHumanTime: -1, Limits: roundtrip.Limits{
		Waiting: -1, WaitingPerPrincipal: -1,
	}}
}

// A job is the argument of the tool of an upstream.
type job struct {
	Name string        `json:"name"`
	Work time.Duration `json:"work"` // how long it works after the last answer
}

// newUpstream serves a tool that asks twice. It notes each request, answer and end.
func (s *processSettings) newUpstream() (http.Handler, error) {
	note := func(what string, name string) {
		line := fmt.Sprintln(what, name, time.Now().UnixNano())
		file, err := os.OpenFile(s.File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = file.WriteString(line) // one write, which survives a kill
			_ = file.Close()
		}
		if err != nil {
			panic(err)
		}
	}
	opts := watch(func(req *server.Request) {
		var in job
		if p, ok := req.Params.(*protocol.CallToolParams); ok &&
			json.Unmarshal(p.Arguments, &in) == nil {
			note("start", in.Name)
		}
	})
	opts.Roundtrip = unlimited()
	opts.Roundtrip.Sealer, opts.Roundtrip.Audience = servertest.NewKeyring("upstream"), "upstream"
	srv, err := server.New(opts)
	if err != nil {
		return nil, err
	}
	server.AddTool(srv, server.Tool{Name: "work"}, askTwice(note))
	return serverhttp.New(srv, &serverhttp.Options{Limits: manySessions()})
}

// askTwice returns a tool that asks twice. The tool notes each answer and its own end.
func askTwice(note func(what, name string)) func(
	context.Context, *server.ToolCall, job) (outcome, error) {
	return func(ctx context.Context, _ *server.ToolCall, in job) (outcome, error) {
		first, err := roundtrip.Ask[target](ctx, "first", "first of "+in.Name)
		if err != nil {
			return nil, err
		}
		note("first", in.Name)
		second, err := roundtrip.Ask[target](ctx, "second", "second of "+in.Name+" of "+first.Name)
		if err != nil {
			return nil, err
		}
		note("second", in.Name)
		time.Sleep(in.Work)
		note("end", in.Name)
		return server.Text(in.Name + ": " + first.Name + ", " + second.Name), nil
	}
}
