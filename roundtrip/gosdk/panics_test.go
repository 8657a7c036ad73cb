package gosdk_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// overSDK runs a test with the SDK's client over HTTP and in memory, in both eras.
func overSDK(t *testing.T, a *gosdk.Adapter, newServer func() *mcp.Server,
	test func(*testing.T, *mcp.ClientSession)) {
	for _, revision := range []string{modern, legacy} {
		for _, over := range []string{"http", "memory"} {
			t.Run(over+"/"+revision, func(t *testing.T) {
				server := newServer()
				var transport mcp.Transport
				if over == "http" {
					endpoint, recorder := serve(t, newHandler(t, a,
						func(*http.Request) *mcp.Server { return server }, nil))
					transport = &mcp.StreamableClientTransport{Endpoint: endpoint,
						HTTPClient: &http.Client{Transport: recorder}}
				} else {
					ours, theirs := mcp.NewInMemoryTransports()
					connectRaw(t, server, a.Transport(server, theirs))
					transport = ours
				}
				test(t, dialSDK(t, newPerson(t, nil), true, revision,
					transport).(sdkPeer).ClientSession)
			})
		}
	}
}

// What the SDK calls for other requests may panic, or return a nil pointer, on which the
// SDK itself panics: the request ends, and not the process.
func TestHandlersOfOtherRequestsThatFail(t *testing.T) {
	for name, complete := range map[string]func() (*mcp.CompleteResult, error){
		"panic":      func() (*mcp.CompleteResult, error) { panic("no database") },
		"nil result": func() (*mcp.CompleteResult, error) { return nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			o := &observer{}
			a := newAdapter(t, &gosdk.Options{Options: roundtrip.Options{Observer: o}})
			overSDK(t, a, func() *mcp.Server {
				return mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"},
					&mcp.ServerOptions{CompletionHandler: func(context.Context,
						*mcp.CompleteRequest) (*mcp.CompleteResult, error) {
						return complete()
					}})
			}, func(t *testing.T, session *mcp.ClientSession) {
				before := o.count(isPanic) + o.count(isBug)
				_, err := session.Complete(within(t), &mcp.CompleteParams{
					Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: "p"},
					Argument: mcp.CompleteParamsArgument{Name: "a", Value: "v"}})
				// The SDK alone sends null for a nil completion in sessions.
				null := name == "nil result" &&
					session.InitializeResult().ProtocolVersion == legacy
				if e, ok := errors.AsType[*jsonrpc.Error](err); null && err != nil ||
					!null && (!ok ||
						e.Code != protocol.CodeInternalError ||
						strings.Contains(e.Message, "database")) {
					t.Errorf("got %v, want an internal error", err)
				}
				if n := o.count(isPanic) + o.count(isBug) - before; n != 1 {
					t.Errorf("%d events, want 1", n)
				}
			})
		})
	}
}

// A handler that returns a nil pointer for its result gets an internal error.
func TestNilResults(t *testing.T) {
	o := &observer{}
	a := newAdapter(t, &gosdk.Options{Options: roundtrip.Options{Observer: o}})
	overSDK(t, a, func() *mcp.Server {
		server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
		server.AddTool(&mcp.Tool{Name: "t", InputSchema: raw(`{"type":"object"}`)},
			func(context.Context, *toolRequest) (*mcp.CallToolResult, error) { return nil, nil })
		server.AddPrompt(&mcp.Prompt{Name: "p"},
			func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				return nil, nil
			})
		return server
	}, func(t *testing.T, session *mcp.ClientSession) {
		before := o.count(isBug)
		_, toolErr := session.CallTool(within(t), &mcp.CallToolParams{Name: "t"})
		_, promptErr := session.GetPrompt(within(t), &mcp.GetPromptParams{Name: "p"})
		for _, err := range []error{toolErr, promptErr} {
			if e, ok := errors.AsType[*jsonrpc.Error](err); !ok ||
				e.Code != protocol.CodeInternalError {
				t.Errorf("got %v, want an internal error", err)
			}
		}
		if n := o.count(isBug) - before; n != 2 {
			t.Errorf("%d events, want 2", n)
		}
	})
}

// A handler of notifications that panics does not end the session.
func TestPanicsOfNotifications(t *testing.T) {
	o := &observer{}
	a := newAdapter(t, &gosdk.Options{Options: roundtrip.Options{Observer: o}})
	server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, &mcp.ServerOptions{
		InitializedHandler: func(context.Context, *mcp.InitializedRequest) {
			panic("no database")
		}})
	ours, theirs := mcp.NewInMemoryTransports()
	connectRaw(t, server, a.Transport(server, theirs))
	session := dialSDK(t, newPerson(t, nil), true, legacy, ours).(sdkPeer).ClientSession
	if err := session.Ping(within(t), nil); err != nil {
		t.Error(err)
	}
	if n := o.count(isPanic); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
}

// A function of the options that panics ends the request.
func TestPanicOfPrincipal(t *testing.T) {
	o := &observer{}
	server := single(t, asks(nil), func(opts *gosdk.Options) {
		opts.Observer = o
		opts.Principal = func(mcp.Request) protocol.Principal { panic("no database") }
	})
	dialWire(t, server).call("t", "").wantError(protocol.CodeInternalError, 200)
	if n := o.count(isPanic); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
}
