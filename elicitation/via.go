package elicitation

import (
	"context"
	"encoding/json"

	"github.com/rondo-mcp/rondo/protocol"
)

// Via is the way back to one request of a client: where the questions go that
// are asked while the request runs. It is made by [Frames] or [Asks]; the zero
// Via leaves delivery to the host, who then uses [Call.Offer] alone.
type Via struct {
	frames FrameDeliverer
	asker  Asker
}

// Frames is the Via of hosts that write frames themselves. The router makes the
// request and owns its id; the client's response goes to [Router.Complete].
func Frames(d FrameDeliverer) Via { return Via{frames: d} }

// Asks is the Via of hosts whose SDK writes a request and waits for the response
// in one call.
func Asks(a Asker) Via { return Via{asker: a} }

// A FrameDeliverer writes messages on the stream of one request of a client, in
// the order in which it is called.
type FrameDeliverer interface {
	// Deliver returns nil once the transport has accepted m: then, and only
	// then, the question counts as delivered. It gets an elicitation/create
	// request, or a notification that withdraws one or reports a visit
	// complete. It should return when ctx ends; one that does not holds up a
	// goroutine but no question. Calls may overlap.
	Deliver(ctx context.Context, m protocol.Message) error
}

// DeliverFunc is a function that is a [FrameDeliverer].
type DeliverFunc func(ctx context.Context, m protocol.Message) error

// Deliver calls f.
func (f DeliverFunc) Deliver(ctx context.Context, m protocol.Message) error { return f(ctx, m) }

// An Asker puts a question to the client of one request and waits.
type Asker interface {
	// Ask returns the client's result, a JSON object, as it came. It calls
	// delivered, from any goroutine, when the transport has accepted the
	// question; one that cannot know does not call it, and the router then
	// never claims a delivery before the answer proves it.
	//
	// An error that is, or wraps, a [*protocol.Error] is the client's own
	// refusal and goes upstream as it is; any other means that the client
	// could not be reached.
	//
	// The context has the values of the one given to [Router.Begin] and ends
	// when the question does, whatever ends it. Calls may overlap.
	Ask(ctx context.Context, q Asked, delivered func()) (json.RawMessage, error)
}

// A ProgressDeliverer is an [Asker] that also writes progress notifications on the
// stream of the client's request. The router delivers heartbeats and what
// [Call.RelayProgress] relays by it; the client of any other Asker gets neither.
type ProgressDeliverer interface {
	// DeliverProgress returns nil once the transport has accepted p, whose token is
	// the client's. The context has the values of the one given to [Router.Begin].
	// DeliverProgress should return when it ends; one that does not holds up the end
	// of the call for a second. One call of it ends before the next begins.
	DeliverProgress(ctx context.Context, p *protocol.Progress) error
}

// AskFunc is a function that is an [Asker].
type AskFunc func(ctx context.Context, q Asked, delivered func()) (json.RawMessage, error)

// Ask calls f.
func (f AskFunc) Ask(ctx context.Context, q Asked, delivered func()) (json.RawMessage, error) {
	return f(ctx, q, delivered)
}

// Asked is a question as an [Asker] is to put it.
type Asked struct {
	// ID is the router's id of the question, 32 hexadecimal digits, as logs
	// have it. An SDK gives the request on the wire an id of its own.
	ID string
	// Params are the parameters of elicitation/create as the client's revision
	// spells them. They must not be modified.
	Params json.RawMessage
	// Question is the same, decoded: a [*protocol.ElicitForm] or a
	// [*protocol.ElicitURL].
	Question protocol.InputRequest
}
