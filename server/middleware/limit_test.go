package middleware_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
)

// A crowd keeps requests running within a middleware.
type crowd struct {
	testing.TB
	handler server.Handler
	inside  chan struct{}
	leave   chan struct{}
	wg      sync.WaitGroup
}

func newCrowd(t testing.TB, m server.Middleware) *crowd {
	c := &crowd{TB: t, inside: make(chan struct{}), leave: make(chan struct{})}
	c.handler = m(func(ctx context.Context, request *server.Request) (protocol.Result, error) {
		if request.Refusal() != nil {
			return nil, request.Refusal()
		}
		c.inside <- struct{}{}
		<-c.leave
		return &protocol.EmptyResult{}, nil
	})
	t.Cleanup(c.empty)
	return c
}

// enter returns the immediate error of another request, nil if it runs.
func (c *crowd) enter(method string, who protocol.Principal) error {
	refused := make(chan error, 1)
	c.wg.Go(func() {
		if _, err := c.handler(context.Background(), incoming(method, who)); err != nil {
			refused <- err
		}
	})
	select {
	case <-c.inside:
		return nil
	case err := <-refused:
		return err
	}
}

// The method empty lets all requests return.
func (c *crowd) empty() {
	close(c.leave)
	c.wg.Wait()
	c.leave = make(chan struct{})
}

func (c *crowd) wantFull(err error, limit string) {
	c.Helper()
	e, ok := protocol.AsError(err)
	want := fmt.Sprintf(`{"retryAfterMs":1000,"limit":%q}`, limit)
	if !ok || e.Code != protocol.CodeBusy || string(e.Data) != want {
		c.Errorf("got %#v, want busy with data %s", err, want)
	}
}

func TestLimit(t *testing.T) {
	ann := protocol.Principal{Issuer: "https://id.example", Subject: "ann"}
	bob := protocol.Principal{Issuer: "https://id.example", Subject: "bob"}
	c := newCrowd(t, middleware.Limit(&middleware.Options{Calls: 3, CallsPerPrincipal: 2}))
	for range 3 { // slots come back
		noError(t, c.enter(protocol.MethodCallTool, ann))
		noError(t, c.enter(protocol.MethodCallTool, ann))
		c.wantFull(c.enter(protocol.MethodCallTool, ann), "principal")
		noError(t, c.enter(protocol.MethodListTools, bob))
		c.wantFull(c.enter(protocol.MethodCallTool, bob), "server")
		c.wantFull(c.enter(protocol.MethodCallTool, protocol.LocalPrincipal()), "server")
		noError(t, c.enter(protocol.MethodListen, ann))
		c.wantFull(c.enter(protocol.MethodListen, ann), "principal")
		for range 11 { // four for each call
			noError(t, c.enter(protocol.MethodListen, protocol.LocalPrincipal()))
		}
		c.wantFull(c.enter(protocol.MethodListen, bob), "server")
		c.empty()
	}
}

func TestLimitOfOneCaller(t *testing.T) {
	ann := protocol.Principal{Subject: "ann"}
	few := &middleware.Options{Calls: 3, CallsPerPrincipal: 1}
	for name, test := range map[string]struct {
		opts  *middleware.Options
		who   protocol.Principal
		calls int
		limit string // that refuses the next one; empty: none
	}{
		"strangers": {few, protocol.Principal{}, 3, "server"}, // nobody tells them apart
		"local":     {few, protocol.LocalPrincipal(), 3, "server"},
		"defaults":  {nil, ann, 32, "principal"},
		"off":       {&middleware.Options{Calls: -1, CallsPerPrincipal: -1}, ann, 2 * 256, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t, middleware.Limit(test.opts))
			for range test.calls {
				noError(t, c.enter(protocol.MethodCallTool, test.who))
			}
			if test.limit != "" {
				c.wantFull(c.enter(protocol.MethodCallTool, test.who), test.limit)
			}
		})
	}
}

func TestLimitReturnsSlotsAfterPanics(t *testing.T) {
	ann := protocol.Principal{Subject: "ann"}
	limit := middleware.Limit(&middleware.Options{CallsPerPrincipal: 1})
	h := middleware.Recover(nil)(limit(func(context.Context, *server.Request) (protocol.Result,
		error) {
		panic("broken")
	}))
	for range 3 {
		_, err := h(context.Background(), incoming(protocol.MethodCallTool, ann))
		if e, ok := protocol.AsError(err); !ok || e.Code != protocol.CodeInternalError {
			t.Fatalf("got %v, want the panic's internal error", err)
		}
	}
}

func TestLimitLetsRefusalsPass(t *testing.T) {
	c := newCrowd(t, middleware.Limit(&middleware.Options{Calls: 1}))
	noError(t, c.enter(protocol.MethodCallTool, protocol.LocalPrincipal()))
	request := toolCall()
	request.Refuse(protocol.Errorf(protocol.CodeInvalidParams, "no"))
	if _, err := c.handler(context.Background(), request); err != error(request.Refusal()) {
		t.Errorf("a refused request got %v, want its refusal", err)
	}
}
