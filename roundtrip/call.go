package roundtrip

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rondo-mcp/rondo/internal/requestid"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// A Call is one arrival of a multi round-trip request: the first leg of a flow
// or a retry. Everything in it may be hostile; nothing is changed.
type Call struct {
	Version protocol.Version
	Method  string
	Target  string // the name of the tool or prompt, or the URI
	// Arguments is the JSON object of arguments, nil when absent.
	Arguments    json.RawMessage
	Capabilities protocol.ClientCapabilities
	// Principal is who calls; the zero value is anonymous.
	Principal protocol.Principal
	// Responses and State are the retry members of the request. Calls of legacy
	// revisions have none: what a host passes there is dropped unread.
	Responses protocol.InputResponses
	State     protocol.RequestState
	// Credential is what the caller authenticates with, as it came: the value
	// of the Authorization header, for example. It decides nothing and is kept
	// out of events.
	Credential string
	// RequestID is the id of the request in events, see [RequestID]. Empty: that
	// of the context, or a new one.
	RequestID string
	// Push puts questions to the client of a legacy revision. Nil where there
	// is no session to carry them; it is not used in modern revisions.
	Push Pusher
	// Session tells the sessions of one funnel apart, for
	// Options.MaxWaitingPerSession: any value that can be compared, such as a
	// pointer or an id. Nil: the call belongs to none.
	Session any
	// Heartbeat sends one progress notification on the call's own token, while
	// the call waits for a person; see Options.Heartbeat. The funnel makes one
	// call at a time and none once the wait is over; ctx has the values of the
	// call's context and ends with the wait. Nil: the client asked for no
	// progress.
	Heartbeat func(ctx context.Context)
	// Lossy says that the host parsed the request before and cannot tell an
	// absent state from an empty one; both then count as absent.
	Lossy bool
	// AcceptCold lets handlers read answers to questions that this flow has
	// not asked, marked Unsolicited, for clients that lose the state.
	AcceptCold bool
	// CheckOutput, if not nil, validates the structured content (nil when
	// absent) of a tool that completes without an error.
	CheckOutput func(structured json.RawMessage) error
}

// A Handler runs one round of a request. It may be called several times in a
// flow, each time from its start.
type Handler func(ctx context.Context) (protocol.Result, error)

// A questioner puts questions to one client: it knows the call, the capabilities of the
// client, and until when a question may wait. The exchange has one. Goroutines of a handler,
// which may outlive their run, get a copy each, because the exchange changes where and until
// when it goes on to the next run.
type questioner struct {
	funnel *Funnel
	call   *Call
	where  event.Where
	until  time.Time // when the flow of a legacy call ends; zero: its context decides
	wait   *callWait
	visits *visitTable // nil outside of an exchange
}

// attachCall makes p the questioner of call. It sets one field at a time: a composite literal
// would be copied on the stack of calls that wait.
func (p *questioner) attachCall(ctx context.Context, f *Funnel, call *Call, wait *callWait) {
	p.funnel, p.call, p.wait = f, call, wait
	p.where.Version, p.where.Method, p.where.Target = call.Version, call.Method, call.Target
	if f.silent {
		return
	}
	if p.where.Request = call.RequestID; p.where.Request == "" {
		p.where.Request = requestid.From(ctx)
	}
	if p.where.Request == "" {
		p.where.Request = requestid.New()
	}
}

func (p *questioner) isLegacy() bool { return p.call.Version.Era() == protocol.Legacy }

func (p *questioner) observe(ctx context.Context, e event.Event) {
	p.funnel.opts.Observer.Observe(ctx, e)
}

func (p *questioner) observeIfAny(ctx context.Context, e event.Event) {
	if e != nil {
		p.observe(ctx, e)
	}
}
