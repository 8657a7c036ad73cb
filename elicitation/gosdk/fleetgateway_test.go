package gosdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
	"github.com/rondo-mcp/rondo/internal/testing/fleettest"
	"github.com/rondo-mcp/rondo/internal/testing/gatewaytest"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
	"github.com/rondo-mcp/rondo/server/replicas"
)

// gatewayVariable has the settings of a process that is a gateway of [TestFleet].
const gatewayVariable = "RONDO_GATEWAY"

// gatewaySettings are the name of a gateway and the URLs of all of them.
type gatewaySettings struct {
	Name string
	URLs map[string]string
}

// serveGatewayProcess is called by TestMain. Where the process was started as a gateway of
// [TestFleet] it is one until its standard input ends, and then returns true.
func serveGatewayProcess() bool {
	text := os.Getenv(gatewayVariable)
	if text == "" {
		return false
	}
	if err := serveGateway(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

func serveGateway(text string) error {
	var settings gatewaySettings
	if err := json.Unmarshal([]byte(text), &settings); err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	router, err := elicitation.New(&elicitation.Options{
		Limits:  elicitation.Limits{Pending: -1, PerPrincipal: -1, PerSession: -1, PerUpstream: -1},
		Timeout: 5 * time.Minute, Metrics: prom.New(registry)})
	if err != nil {
		return err
	}
	locate, err := replicas.LocateByList(settings.URLs)
	if err != nil {
		return err
	}
	handler, err := newFleetGateway(router, &replicas.Options{Name: settings.Name,
		Keys: fleettest.NewKeyring("shared"), Locate: locate})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	mux.HandleFunc("/lost", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, countLost(registry))
	})
	fmt.Println("http://" + listener.Addr().String())
	go func() { _ = http.Serve(listener, mux) }()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// countLost returns how many replies a router has lost.
func countLost(registry prometheus.Gatherer) (n float64) {
	families, _ := registry.Gather()
	for _, f := range families {
		if f.GetName() != "elicitation_replies_lost_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			n += m.GetCounter().GetValue()
		}
	}
	return n
}

// newFleetGateway is one of several gateways, in a process of its own. No upstream is behind it.
func newFleetGateway(router *elicitation.Router, shared *replicas.Options) (http.Handler, error) {
	server := mcp.NewServer(impl, nil)
	clients, err := gosdk.NewDownstream(router, server, &gosdk.Options{Replicas: shared})
	if err != nil {
		return nil, err
	}
	var calls atomic.Int32
	server.AddTool(tool(gatewaytest.ToolAsk), func(ctx context.Context,
		req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		call, err := clients.Begin(ctx, req, elicitation.UpstreamKey(fmt.Sprint(calls.Add(1))))
		if err != nil {
			return nil, err
		}
		defer call.End()
		var args struct{ Question json.RawMessage }
		if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
			return nil, err
		}
		answer, err := call.Elicit(ctx, args.Question, nil)
		if err != nil {
			return nil, err
		}
		said, err := answer.MarshalJSON()
		return text(string(said)), err
	})
	return clients.AnswerChallenges(clients.Handler(streamable(server))), nil
}
