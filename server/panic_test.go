package server_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

type panickingObserver struct{}

func (panickingObserver) Observe(_ context.Context, e event.Event) {
	if _, ok := e.(event.HandlerPanicked); ok {
		panic("in the observer")
	}
}

type observing func(event.Event)

func (f observing) Observe(_ context.Context, e event.Event) { f(e) }

// A panic outside handlers ends its request, not the process, which has other clients.
func TestStdioPanicOutsideHandlers(t *testing.T) {
	srv, err := server.New(&server.Options{Observer: panickingObserver{}})
	noError(t, err)
	addTool(srv, "panic", func(context.Context, *server.ToolCall) (toolOutcome, error) {
		panic("in the handler")
	})
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- srv.ServeStream(t.Context(), fromClient, toClient, nil) }()
	lines := bufio.NewScanner(fromServer)
	for _, say := range []struct{ line, want string }{
		{initializeLine("0", "2025-11-25"), `"id":0,"result"`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"panic"}}`, `"id":1,"error":{"code":-32603`},
		{`{"jsonrpc":"2.0","id":2,"method":"ping"}`, `"id":2,"result"`},
	} {
		write(t, toServer, say.line+"\n")
		if !lines.Scan() || !strings.Contains(lines.Text(), say.want) {
			t.Fatalf("got %s, %v, want %s", lines.Text(), lines.Err(), say.want)
		}
	}
	toServer.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A panic of an observer becomes an error of Serve and calls Panicked.
func TestPanicOutsideHandlers(t *testing.T) {
	fall := func(next server.Handler) server.Handler {
		return func(ctx context.Context, request *server.Request) (protocol.Result, error) {
			if request.Message.Method == protocol.MethodListTools {
				// the observer gets this error outside all handlers
				return nil, errors.New("no error of the protocol")
			}
			if request.Message.Method == protocol.MethodInitialize &&
				request.Meta.ClientInfo.Name == "bad" {
				panic("in the middleware")
			}
			return next(ctx, request)
		}
	}
	srv, err := server.New(&server.Options{Middleware: []server.Middleware{fall},
		Observer: observing(func(e event.Event) { panic(e) })})
	noError(t, err)
	var back server.Call
	addTool(srv, "panic", func(_ context.Context, call *server.ToolCall) (toolOutcome, error) {
		back = call.Call
		panic("in the handler")
	})
	for method, params := range map[string]string{protocol.MethodCallTool: `{"name":"panic",` +
		goodMeta + `}`, protocol.MethodListTools: `{` + goodMeta + `}`} {
		t.Run(method, func(t *testing.T) {
			req := messageOf(3, method, params)
			response, err := srv.Handle(t.Context(), req, nil)
			if err != nil || response.Error == nil ||
				response.Error.Code != protocol.CodeInternalError || response.Result != nil ||
				response.ID != req.ID {
				t.Errorf("%s: got %+v, %v, want an internal error", method, response, err)
			}
		})
	}
	if err := back.Notify(t.Context(),
		&protocol.Notification{Method: "notifications/message"}); !errors.Is(err, server.ErrEnded) {
		t.Errorf("notification after the answer: %v, want ErrEnded", err)
	}

	x := srv.NewSession(protocol.LocalPrincipal(), nil)
	var told []string
	send := func(method, params string) *protocol.Response {
		in := x.Admit(messageOf(4, method, params), server.Delivery{
			Panicked: func(_ context.Context, p event.HandlerPanicked) {
				if len(p.Stack) > 0 {
					told = append(told, p.Method)
				}
			}})
		return srv.Serve(t.Context(), in)
	}
	const hello = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"`
	r := send(protocol.MethodInitialize, hello+`bad"}}`)
	if r.Error == nil || r.Error.Code != protocol.CodeInternalError || x.Version() != "" {
		t.Errorf("initialize: got %+v, session opened in %q, want an internal error and none", r,
			x.Version())
	}
	wantCode(t, "the response", send(protocol.MethodInitialize, hello+`good"}}`), 0)
	wantCode(t, "the response",
		send(protocol.MethodCallTool, `{"name":"panic"}`), protocol.CodeInternalError)
	if r := send(protocol.MethodPing, `{}`); r.Error != nil || server.Running(x) != 0 {
		t.Errorf("ping: %v, %d requests run, want none", r.Error, server.Running(x))
	}
	wantList(t, "told of", told, []string{protocol.MethodInitialize, protocol.MethodCallTool})
	noError(t, srv.Shutdown(t.Context()))
}

// A panic of Panicked reaches the caller of Serve, and the server drops the request.
func TestPanicOfTheTransport(t *testing.T) {
	srv, err := server.New(&server.Options{Observer: panickingObserver{}})
	noError(t, err)
	addTool(srv, "panic", func(context.Context, *server.ToolCall) (toolOutcome, error) {
		panic("in the handler")
	})
	in := srv.Admit(messageOf(1, protocol.MethodCallTool, `{"name":"panic",`+goodMeta+`}`),
		server.Delivery{
			Principal: protocol.LocalPrincipal(),
			Panicked:  func(_ context.Context, p event.HandlerPanicked) { panic(p.Value) },
		})
	wantPanic(t, "in the observer", func() { srv.Serve(t.Context(), in) })
	noError(t, srv.Shutdown(t.Context()))
}

// A panic of Visible is reported, the update dropped, and the next one sent.
func TestSessionNewsOutlivePanics(t *testing.T) {
	broken, told := true, make(chan struct{})
	h := newHarness(t, &server.Options{Observer: observing(func(e event.Event) {
		if _, ok := e.(event.HandlerPanicked); ok {
			close(told)
		}
	}), Visible: func(_ protocol.Principal, _ server.Kind, name string) bool {
		if broken && name == "test://secret" {
			panic("on purpose")
		}
		return true
	}})
	server.AddResource(h.Server, server.Resource{URI: "test://secret", Name: "secret"},
		func(context.Context, *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
			return nil, nil
		})
	c := h.enter(protocol.V20251125, `{}`)
	wantCode(t, "the response", c.request(protocol.MethodSubscribe, `{"uri":"test://secret"}`), 0)
	h.ResourceUpdated("test://secret")
	<-told
	broken = false
	h.ResourceUpdated("test://secret")
	if n := <-c.news; n.Method != protocol.NotifyResourceUpdated ||
		!strings.Contains(string(n.Params), "secret") {
		t.Errorf("got %s %s", n.Method, n.Params)
	}
}

func TestSessionNewsOutliveTheTransport(t *testing.T) {
	told, sent := make(chan string, 1), make(chan string, 1)
	h := newHarness(t, &server.Options{Observer: observing(func(e event.Event) {
		if p, ok := e.(event.HandlerPanicked); ok {
			told <- p.Method
		}
	})})
	tool := says("x")
	h.tool("a", tool)
	broken := true
	x := h.NewSession(protocol.LocalPrincipal(), func(_ context.Context, m protocol.Message) error {
		if broken {
			broken = false
			panic("on purpose")
		}
		sent <- m.(*protocol.Notification).Method
		return nil
	})
	defer x.Close()
	in := x.Admit(messageOf(1, protocol.MethodInitialize, `{"protocolVersion":"2025-11-25","capabilities":{}}`),
		server.Delivery{})
	wantCode(t, "the response", h.Serve(t.Context(), in), 0)
	x.Notify(t.Context(), &protocol.Notification{Method: protocol.NotifyInitialized})
	h.tool("b", tool)
	wantEqual(t, "told of", <-told, protocol.NotifyToolsChanged)
	h.tool("c", tool)
	wantEqual(t, "sent", <-sent, protocol.NotifyToolsChanged)
}

// The type panicky panics where no middleware recovers it: during encoding.
type panicky struct{}

func (panicky) MarshalJSON() ([]byte, error) { panic("marshal") }

// The client still gets a response, and the id is free, as after a panic during encoding.
func TestHandlerThatEndsItsGoroutine(t *testing.T) {
	h := newHarness(t, nil)
	h.tool("leave", func(context.Context, *server.ToolCall) (toolOutcome, error) {
		runtime.Goexit()
		return nil, nil
	})
	server.AddToolOut(h.Server, server.Tool{Name: "panicky"},
		func(context.Context, *server.ToolCall, none) (map[string]panicky, error) {
			return map[string]panicky{"a": {}}, nil
		})
	w := h.serve(t.Context(), &server.StreamOptions{MaxInFlight: 1})
	for _, tool := range []string{"leave", "panicky", "leave"} {
		w.send(callLine("1", tool))
		w.fails("1", protocol.CodeInternalError)
	}
	noError(t, w.end())
}
