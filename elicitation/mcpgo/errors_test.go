package mcpgo_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/mcpgo"
	"github.com/rondo-mcp/rondo/internal/testing/gatewaytest"
	"github.com/rondo-mcp/rondo/protocol"
)

// undelivered is what an upstream is told of a client that cannot be asked.
const undelivered = "error -32603: Elicitation could not be delivered"

// TestClientErrors: the client's own error goes upstream, over lines without its code, that of
// reading what it said does not.
func TestClientErrors(t *testing.T) {
	const failed, garbled = `"error":{"code":-32050,"message":"no\neyes"}`, `"result":{"action":5}`
	for _, test := range []struct {
		name  string
		lines bool
		reply string
		want  string
	}{
		{"own error over HTTP", false, failed, `{"code":-32050,"message":"no\neyes"}`},
		{"own error over lines", true, failed, `{"code":-32603,"message":"no\neyes"}`},
		{"no answer over lines", true, garbled,
			`{"code":-32603,"message":"The client's answer is not valid"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			clients, s := newLoggedGateway(t, newRouter(t, nil), gatewaytest.NewUpstream(t),
				gatewaytest.SharedHTTP)
			var c *gatewaytest.Client
			if test.lines {
				c = gatewaytest.ConnectLines(t, listen(clients, s), forms, test.reply)
			} else {
				down := httptest.NewServer(server.NewStreamableHTTPServer(s, quiet))
				t.Cleanup(down.Close)
				c = gatewaytest.Connect(t, down.URL, forms, test.reply, nil)
			}
			if got := c.Call(t, gatewaytest.ToolAsk, question); got != test.want {
				t.Errorf("upstream gets %s, want %s", got, test.want)
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
