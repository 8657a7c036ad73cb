package mcpgo_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/mcpgo"
	"github.com/rondo-mcp/rondo/protocol"
)

// undelivered is what an upstream is told of a client that cannot be asked.
const undelivered = "error -32603: Elicitation could not be delivered"

// notValid is what an upstream is told of an answer that cannot be read.
const notValid = "error -32603: The client's answer is not valid"

// rawAnswer answers all requests of the server with bytes.
type rawAnswer struct {
	transport.BidirectionalInterface
	result string
}

func (a rawAnswer) SetRequestHandler(transport.RequestHandler) {
	a.BidirectionalInterface.SetRequestHandler(func(_ context.Context,
		r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
		return transport.NewJSONRPCResultResponse(r.ID, json.RawMessage(a.result)), nil
	})
}

// TestClientErrors: the client's own error goes upstream, that of reading what it
// said does not.
func TestClientErrors(t *testing.T) {
	refuse := func(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
		return nil, protocol.Errorf(-32050, "no\neyes")
	}
	raw := func(over transport.Interface, result string) transport.Interface {
		return rawAnswer{over.(transport.BidirectionalInterface), result}
	}
	for _, test := range []struct {
		name  string
		lines bool
		open  func(over transport.Interface) transport.Interface
		want  string
	}{
		{"own error over HTTP", false, mcpgo.Transport, "error -32050: no\neyes"},
		{"own error over lines", true, mcpgo.Transport, "error -32603: no\neyes"},
		{"no answer over HTTP", false, func(over transport.Interface) transport.Interface {
			return raw(over, `{"action":5}`)
		}, notValid},
		{"no answer over lines", true, func(over transport.Interface) transport.Interface {
			return raw(over, `{"action":5}`)
		}, notValid},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := newGateway(t, setting{revision: legacy, downLines: test.lines})
			want := "elicitation/create " + test.want
			if got, err := newClient(t, test.open(g.open()), legacy, nil, refuse, nil)(within(t),
				"form", "prod"); err != nil || got != want {
				t.Errorf("upstream gets %q, %v, want %q", got, err, want)
			}
		})
	}
}

// A hostSession is a session of the host's own make.
type hostSession struct {
	*server.InProcessSession
	err error
}

func (s hostSession) RequestElicitation(context.Context,
	mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return nil, s.err
}

// TestLocalErrors: of sessions whose errors may be the host's own no text goes
// upstream, however much it reads like a client's.
func TestLocalErrors(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"as over HTTP", errors.New("elicitation/create error -5: dial tcp 10.0.0.7:443: refused"),
			undelivered},
		{"as over lines", errors.New("elicitation request failed: dial tcp 10.0.0.7:443: refused"),
			undelivered},
		{"plain", errors.New("dial tcp 10.0.0.7:443: refused"), undelivered},
		{"typed", fmt.Errorf("here: %w", protocol.Errorf(-5, "no eyes")), "error -5: no eyes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			router, err := elicitation.New(nil)
			if err != nil {
				t.Fatal(err)
			}
			s := server.NewMCPServer("gateway", "1")
			clients, err := mcpgo.NewDownstream(router, s, nil)
			if err != nil {
				t.Fatal(err)
			}
			here := server.NewInProcessSessionWithHandlers("one", nil,
				answering(func(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult,
					error) {
					return nil, test.err
				}), nil)
			here.SetClientCapabilities(
				mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}})
			for name, session := range map[string]server.ClientSession{"in process": here,
				"host": hostSession{here, test.err}, "pointer": &hostSession{here, test.err}} {
				ctx, cancel := context.WithCancel(s.WithContext(t.Context(), session))
				defer cancel()
				call, err := clients.Begin(ctx, elicitation.UpstreamKey(name))
				if err != nil {
					t.Fatal(err)
				}
				defer call.End()
				_, err = mcpgo.ElicitationHandler(router,
					elicitation.UpstreamKey(name)).Elicit(t.Context(),
					mcp.ElicitationRequest{Params: mcp.ElicitationParams{Mode: "form", Message: "m",
						RequestedSchema: json.RawMessage(schema)}})
				wire, ok := protocol.AsError(err)
				if !ok {
					t.Fatalf("%s: got %v", name, err)
				}
				if got := fmt.Sprintf("error %d: %s", wire.Code, wire.Message); got != test.want ||
					err.Error() != wire.Message {
					t.Errorf("%s: upstream gets %q (%q), want %q", name, got, err, test.want)
				}
			}
		})
	}
}
