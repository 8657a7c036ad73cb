package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/relay"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A Gateway publishes its upstreams' entries at one server. All methods may be called concurrently.
type Gateway struct {
	server    *server.Server
	upstreams []*upstream
	limits    limits
	sink      event.LogSink // nil: silent
	park      *relay.Park
	router    *elicitation.Router
	sessions  sessions
	metrics   *metrics
	tracer    roundtrip.Tracer // nil: no tracing
	logins    *logins
	page      bool         // questions may go by a page
	requests  atomic.Int64 // running, and may call upstreams
	lastEnded atomic.Int64 // end of the last request in a session, in Unix nanoseconds
	handler   atomic.Pointer[serverhttp.Handler]

	life context.Context // context of all upstream work
	end  context.CancelCauseFunc
	busy sync.WaitGroup // goroutines that follow the lists
}

type limits struct {
	entries     int // limit for each of tools, prompts, resources and templates
	connections int // limit for calls, see Options.MaxConnections
	calls       int
}

// listTTL is how long clients may reuse lists. It is short: an upstream that was down may be back.
const listTTL = 5 * time.Second

// New returns a gateway and connects to its upstreams in the background, retrying those that are
// down. Close ends the gateway.
func New(opts *Options) (*Gateway, error) {
	names, err := claimNames(opts)
	if err != nil {
		return nil, err
	}
	g := &Gateway{sink: opts.Log, tracer: opts.Server.Roundtrip.Tracer,
		page: opts.Server.Roundtrip.Page != nil,
		limits: limits{entries: cmp.Or(opts.entries, maxEntries), connections: opts.MaxConnections,
			calls: cmp.Or(opts.MaxCalls, 1000)},
		sessions: sessions{attached: map[*server.Session]*elicitation.Session{}}}
	if g.limits.connections < 0 {
		return nil, errors.New("gateway: MaxConnections must not be negative: upstreams would " +
			"control the number of connections")
	}
	if opts.Server.Roundtrip.RestartExpired {
		return nil, errors.New("gateway: Server.Roundtrip.RestartExpired must not be set: it would " +
			"repeat upstream calls that have already run")
	}
	asks := opts.questions()
	if g.router, err = elicitation.New(&asks); err != nil {
		return nil, fmt.Errorf("gateway: Elicitation: %w", err)
	}
	g.park = relay.NewPark(relay.Limits{
		Calls: opts.MaxCalls, CallsPerPrincipal: opts.MaxCallsPerPrincipal,
		Time:    cmp.Or(opts.callTime, asks.Timeout+answerTime),
		Resumed: func(outcome string) { g.metrics.resumes(outcome).Add(1) }, Place: "gateway",
	})
	with := opts.Server
	// Calls are passed on without tasks, whatever the host declares.
	with.Capabilities.Extensions = maps.Clone(with.Capabilities.Extensions)
	delete(with.Capabilities.Extensions, protocol.ExtensionTasks)
	with.Middleware = append([]server.Middleware{g.watchRequests}, with.Middleware...)
	with.Capabilities.Tools = &protocol.ListCapability{ListChanged: true}
	with.Capabilities.Prompts = &protocol.ListCapability{ListChanged: true}
	with.Capabilities.Resources = &protocol.ResourcesCapability{ListChanged: true}
	with.Roundtrip.Limits.Rounds = cmp.Or(with.Roundtrip.Limits.Rounds, 32)
	with.Roundtrip.HumanTimeout = asks.Timeout
	with.ListTTL = cmp.Or(with.ListTTL, listTTL)
	if g.logins, err = newLogins(opts); err != nil {
		return nil, err
	}
	with.PrivateLists = with.PrivateLists || slices.ContainsFunc(opts.Upstreams,
		func(u Upstream) bool { return u.Credential != nil })
	if g.server, err = server.New(&with); err != nil {
		return nil, err
	}
	if g.metrics, err = newMetrics(opts.Metrics, opts.Upstreams); err != nil {
		return nil, fmt.Errorf("gateway: Metrics: %w", err)
	}
	g.life, g.end = context.WithCancelCause(context.Background())
	for i, config := range opts.Upstreams {
		g.upstreams = append(g.upstreams, newUpstream(config, names[i], g))
	}
	g.busy.Go(g.closeIdle)
	return g, nil
}

// Server is for streams; for HTTP see [Gateway.Handler]. Shut it down before [Gateway.Close].
func (g *Gateway) Server() *server.Server { return g.server }

// Handler returns the handler of the gateway's endpoint. opts may be nil. With Replicas in opts, a
// client may send requests of sessions and answers to any replica, which forwards them to the
// call's owner. Replicas share the Sealer and Audience of [Options.Server]; only their names
// differ. Call Handler once.
func (g *Gateway) Handler(opts *serverhttp.Options) (*serverhttp.Handler, error) {
	handler, err := g.park.Handler(g.server, opts)
	if err == nil {
		g.handler.Store(handler)
	}
	return handler, err
}

var errClosed = errors.New("gateway: the gateway is shutting down")

// Ready waits until the lists of all upstreams have been published once. If ctx ends first, the
// error names an upstream that is not ready. An upstream that is down later stays ready.
func (g *Gateway) Ready(ctx context.Context) error {
	for _, u := range g.upstreams {
		for !u.own.ready.Load() {
			if !pause(ctx, drainPause) {
				return fmt.Errorf("gateway: upstream %s is not ready: %w", u.config.Name,
					context.Cause(ctx))
			}
		}
	}
	return nil
}

// Shutdown drains the gateway until ctx ends, then closes it and its handler. It also waits for
// people who are asked. Over HTTP new calls and sessions get 503, so that a balancer tries another
// replica; answers and calls in open sessions are served. Once no request runs and sessions have
// been idle for a second, their calls are refused too. If ctx ended the wait, running calls are
// cancelled and its cause is returned.
func (g *Gateway) Shutdown(ctx context.Context) error {
	var cut error
	if h := g.handler.Load(); h != nil {
		h.RefuseNew()
		cut = g.awaitRequests(ctx)
		// A session that has just made a call may be about to make the next one.
		for cut == nil && time.Since(time.Unix(0, g.lastEnded.Load())) <= time.Second {
			if pause(ctx, drainPause) {
				cut = g.awaitRequests(ctx)
			} else {
				cut = context.Cause(ctx)
			}
		}
	}
	select {
	case <-g.park.Drain():
	case <-ctx.Done():
		cut = context.Cause(ctx)
	}
	if cut == nil {
		cut = g.awaitRequests(ctx)
	}
	if h := g.handler.Load(); h != nil { // later legs go to another replica
		if err := h.Shutdown(ctx); cut == nil {
			cut = err
		}
	}
	return errors.Join(cut, g.Close())
}

func (g *Gateway) awaitRequests(ctx context.Context) error {
	for g.requests.Load() > 0 {
		if !pause(ctx, drainPause) {
			return context.Cause(ctx)
		}
	}
	return nil
}

const drainPause = 20 * time.Millisecond

// Close ends parked calls and the connections to the upstreams.
func (g *Gateway) Close() error {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = g.router.Shutdown(over) // first, so that upstreams and clients get the reason
	g.end(errClosed)
	<-g.park.Drain()
	for _, u := range g.upstreams {
		u.mu.Lock()
		for _, v := range u.views {
			u.dropViewLocked(v)
		}
		u.mu.Unlock()
	}
	g.busy.Wait()
	var failed []error
	for _, u := range g.upstreams {
		failed = append(failed, u.closeConnections())
	}
	return errors.Join(append(failed, g.server.Close())...)
}

// detach returns a context that ends with ctx and the gateway, with the request's span only.
func (g *Gateway) detach(ctx context.Context) (context.Context, func()) {
	detached, cancel := context.WithCancelCause(g.carrySpan(ctx))
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	return detached, func() {
		stop()
		cancel(nil)
	}
}

// carrySpan returns the context of upstream calls, with the client request's span.
func (g *Gateway) carrySpan(request context.Context) context.Context {
	if g.tracer == nil {
		return g.life
	}
	return g.tracer.CarrySpan(g.life, request)
}

// log writes an entry with the fields that fill adds; fill may be called later.
func (g *Gateway) log(level event.Level, name string, fill event.EntryFunc) {
	if g.sink != nil && g.sink.Enabled(g.life, level) {
		g.sink.Write(g.life, level, name, fill)
	}
}

func (g *Gateway) logFailure(level event.Level, name, upstream string, err error) {
	g.log(level, name, func(out event.Encoder) {
		out.AddString("upstream", upstream)
		out.AddString("error", err.Error())
	})
}

func isBroken(err error) bool {
	_, said := protocol.AsError(err)
	return err != nil && !said && !isA[*client.QuestionError](err)
}

// retryPause is the wait before the next attempt to connect: 1 s, doubled up to a minute.
func retryPause(failures int) time.Duration {
	return min(time.Second<<min(failures, 6), time.Minute)
}
