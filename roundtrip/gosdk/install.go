package gosdk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
	"github.com/rondo-mcp/rondo/internal/limits/humantime"
	"github.com/rondo-mcp/rondo/internal/sdk"
	"github.com/rondo-mcp/rondo/internal/wire/accepthttp"
	"github.com/rondo-mcp/rondo/internal/wire/callctx"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server/replicas"
)

// Options configure an [Adapter]. The zero value is safe: states are sealed with a key of
// this process, and unmodified handlers run as without the adapter.
type Options struct {
	// Options are those of the funnel: keys, limits, the guard, the observer. A Sealer
	// with a shared key requires an Audience, such as the name of the service: the
	// adapter cannot read the server's name from the SDK. Without an Observer warnings
	// go to the default logger of log/slog, such as why a state was refused;
	// [event.Discard] turns that off.
	roundtrip.Options
	// Principal returns the principal of a request, to which states are bound: a state
	// of another principal is refused. Calls may overlap. Nil: [PrincipalOf].
	Principal func(mcp.Request) protocol.Principal
	// ExactWire sends results exactly as the specification has them: questions in the
	// author's order and without the empty content that the SDK's own types always
	// have, and without cache hints in older revisions. Receiving middleware that is
	// added after Install and asserts the SDK's result types does not find them then.
	ExactWire bool
	// UnmodifiedHandlers lets handlers that push their questions with the SDK's own
	// session methods ask clients of revision 2026-07-28 as well; see "Unmodified
	// handlers" in the package comment for the price. Off by default. [Elicit] and the
	// other functions of this package do not need it.
	UnmodifiedHandlers bool
	// MustAsk refuses a call whose unmodified handler pushes a question that the client
	// has not declared it can answer, whatever the handler does with the error. Without
	// MustAsk the handler gets the SDK's error, as it would without this package, and one
	// that ignores the error goes on without the answer. With it handlers see a shadow
	// session in older revisions, too, and one that declares elicitation whether the
	// client does or not, because the SDK would refuse to send the question otherwise.
	// Handlers that check the capabilities before they ask can use [roundtrip.CanAsk].
	MustAsk bool
	// Replicas lets any replica take the requests of sessions of older revisions, over
	// HTTP: their ids name the owner of the session, with the id that the SDK made inside.
	// Authentication goes around [Adapter.Handler], so that both replicas ask for it, and
	// [Adapter.AnswerChallenges] around that. Nil: sessions of other replicas are unknown.
	Replicas *replicas.Options
}

// An Adapter puts the handlers of servers of the SDK behind a [roundtrip.Funnel]. One Adapter
// is enough for a process: it serves any number of servers, which then share its key and
// its limits. Its methods may be called concurrently.
type Adapter struct {
	opts   Options
	funnel *roundtrip.Funnel
	// forwarder passes on requests for sessions of other replicas; nil: nobody does.
	forwarder *hophttp.Forwarder
	// installed has the servers that have the middleware. It does not keep them alive.
	installed sync.Map // weak.Pointer[mcp.Server] → *sync.Once
	// shadows has the runs of handlers that see a shadow session.
	shadows sync.Map // *mcp.ServerSession → *handlerRun
	// extendByToken has a function for each pushed question that extends its time.
	extendByToken sync.Map // progress token → func()
	// reports has the progress notifications of calls.
	reports sync.Map // reportsKey → *reports
	// sessionIDKey is the key of the ids that unmodified handlers see in revision 2026-07-28.
	sessionIDKey []byte
	// endpoint knows the open GET streams of sessions over HTTP.
	endpoint accepthttp.Endpoint
	// toldSessionless is set when errSessionless has been reported.
	toldSessionless atomic.Bool
}

// New returns an adapter, to be used for all servers of a process. Nil opts are the
// defaults.
//
// New fails when the options contradict each other, and when this version of the SDK does
// not behave as the adapter relies on. The first New of a process tests that on a server
// of its own, and the error names what has changed.
func New(opts *Options) (*Adapter, error) {
	a := &Adapter{sessionIDKey: []byte(rand.Text())}
	if opts != nil {
		a.opts = *opts
	}
	if a.opts.Observer == nil {
		a.opts.Observer = sdk.Observer{}
	}
	var err error
	a.forwarder, err = hophttp.New(a.opts.Replicas)
	if err != nil {
		return nil, fmt.Errorf("gosdk: Replicas: %w", err)
	}
	if err := testSDK(); err != nil {
		return nil, fmt.Errorf("gosdk: this version of the official Go SDK is not supported: %w",
			err)
	}
	if a.funnel, err = roundtrip.NewFunnel(&a.opts.Options); err != nil {
		return nil, fmt.Errorf("gosdk: %w", err)
	}
	return a, nil
}

// testSDK runs the self-test once. Its outcome depends on the SDK alone.
var testSDK = sync.OnceValue(runSelfTest)

// Install adds the adapter's middleware to server: every tools/call, prompts/get and
// resources/read then passes the funnel. [Adapter.Handler] and [Adapter.Transport] install
// by themselves. Install is for middleware that is to run outside of the adapter, once per
// request: what is added to server later does. It is cheap enough for a server that lives
// for one request, and does nothing where server has the middleware.
//
// Requests of revision 2026-07-28 must come through Handler or Transport. Those that come in
// another way are refused, with an error that says so: the SDK alone would read their
// answers less strictly than the adapter relies on.
func (a *Adapter) Install(server *mcp.Server) error {
	if server == nil {
		return errors.New("gosdk: Install: the server is nil")
	}
	a.ensureInstalled(server)
	return nil
}

// ensureInstalled adds the middleware, unless server has it. When it returns, server has it,
// also where another goroutine installs at the same time.
func (a *Adapter) ensureInstalled(server *mcp.Server) {
	key := weak.Make(server)
	known, ok := a.installed.Load(key)
	if !ok {
		known, ok = a.installed.LoadOrStore(key, new(sync.Once))
	}
	if !ok {
		runtime.AddCleanup(server, a.forgetServer, key)
	}
	known.(*sync.Once).Do(func() {
		server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return a.receiveRequest(server, next)
		})
		server.AddSendingMiddleware(a.sendToClient)
	})
}

// forgetServer removes a server that nobody uses any more.
func (a *Adapter) forgetServer(key weak.Pointer[mcp.Server]) { a.installed.Delete(key) }

// receiveRequest is the receiving middleware of a server. Calls may overlap.
func (a *Adapter) receiveRequest(server *mcp.Server, next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string,
		req mcp.Request) (result mcp.Result, err error) {
		defer func() { // of a handler of the SDK's own requests, or of Options.Principal
			if v := recover(); v != nil {
				a.reportPanic(ctx, method, v)
				result, err = nil, encodeError(nil)
			}
		}()
		if method == protocol.NotifyProgress {
			a.extendQuestion(req)
		}
		if !protocol.MultiRoundTrip(method) {
			return a.serveSingleLeg(ctx, method, req, next)
		}
		return a.serveCall(ctx, method, server, req, next)
	}
}

// serveCall serves a request that can have rounds.
func (a *Adapter) serveCall(ctx context.Context, method string, server *mcp.Server,
	req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	if runFrom(ctx) != nil {
		return nil, a.refuseInstallation(ctx, method, errInstalledTwice)
	}
	c, err := a.newCall(method, req, next)
	if err != nil {
		return nil, encodeError(err)
	}
	c.server = server
	if !c.readByAdapter && c.Version.Era() == protocol.Modern {
		return nil, a.refuseInstallation(ctx, method, errNotRead)
	}
	defer c.followProgress(progressToken(req))()
	if extra := req.GetExtra(); extra != nil && extra.Header[memoryHeader] != nil {
		ctx = humantime.WithoutWire(ctx)
	}
	result, err := a.funnel.Do(ctx, c.Call, c.runHandler)
	if err != nil {
		return nil, c.encodeHostError(err)
	}
	if failure := c.hostToolError(result); failure != nil {
		return nil, failure
	}
	return c.encodeResult(result)
}

// Mistakes in the use of the adapter. They go to the observer, and to the client as well: an
// author who tries the server reads there what is missing.
var (
	errInstalledTwice = errors.New("gosdk: two adapters are installed on one server; use one " +
		"Adapter for all servers")
	errNotRead = errors.New("gosdk: the server has Adapter.Install, but the request did not " +
		"come through the adapter; serve HTTP with Adapter.Handler in place of the SDK's " +
		"handler, and other connections with Adapter.Transport around the SDK's transport")
)

// refuseInstallation reports a mistake in the use of the adapter, and returns the error for
// the client.
func (a *Adapter) refuseInstallation(ctx context.Context, method string, mistake error) error {
	a.reportEvent(ctx, event.ServerBug{Where: event.Where{Method: method}, Err: mistake})
	return encodeError(protocol.Errorf(protocol.CodeInternalError, "%v", mistake))
}

// reportEvent reports what the funnel does not see, to the observer and to a test of this process.
func (a *Adapter) reportEvent(ctx context.Context, e event.Event) {
	switch e := e.(type) {
	case event.ServerBug:
		callctx.Report(ctx, e.Err)
	case event.HandlerPanicked:
		callctx.Report(ctx, fmt.Errorf("the handler panicked: %v", e.Value))
	}
	a.opts.Observer.Observe(ctx, e)
}
