package gatewaytest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/testing/fleettest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/replicas"
)

// gatewayVariable has the settings of a process that is a gateway of [AcceptFleet].
const gatewayVariable = "RONDO_GATEWAY"

// gatewaySettings are the name of a gateway and the URLs of all of them.
type gatewaySettings struct {
	Name string
	URLs map[string]string
}

// A FleetGateway builds a gateway of [AcceptFleet]. It has ToolAsk, whose handler returns what
// [Ask] does.
type FleetGateway func(router *elicitation.Router,
	options *replicas.Options) (http.Handler, error)

// Ask asks the client of a call what the arguments of ToolAsk say, and returns its answer as JSON.
// No upstream is behind it.
func Ask(ctx context.Context, call *elicitation.Call, arguments []byte) (string, error) {
	var args struct{ Question json.RawMessage }
	if err := json.Unmarshal(arguments, &args); err != nil {
		return "", err
	}
	answer, err := call.Elicit(ctx, args.Question, nil)
	if err != nil {
		return "", err
	}
	text, err := answer.MarshalJSON()
	return string(text), err
}

func serveGatewayProcess(build FleetGateway) bool {
	text := os.Getenv(gatewayVariable)
	if text == "" {
		return false
	}
	if err := serveGateway(text, build); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

func serveGateway(text string, build FleetGateway) error {
	var settings gatewaySettings
	if err := json.Unmarshal([]byte(text), &settings); err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	router, err := elicitation.New(&elicitation.Options{
		Limits: unlimited, Timeout: 5 * time.Minute, Registerer: registry})
	if err != nil {
		return err
	}
	locate, err := replicas.LocateByList(settings.URLs)
	if err != nil {
		return err
	}
	handler, err := build(router, &replicas.Options{Name: settings.Name,
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

// acceptReason is the answer with a reason to a question, as it comes back from ToolAsk, too.
func acceptReason(reason string) string {
	content, _ := json.Marshal(map[string]string{"why": reason})
	answer := &protocol.ElicitResult{Action: protocol.ActionAccept, Content: content}
	text, _ := answer.MarshalJSON()
	return string(text)
}
