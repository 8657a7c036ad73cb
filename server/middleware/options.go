package middleware

import (
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// Options configure the middleware of this package; each part reads its own fields. The zero value
// works. Of each number 0 is the default, a negative one is no limit.
type Options struct {
	// Of [Log].

	// Level is that of the entry for each leg, info by default. Legs that end
	// in an internal error are logged as warnings whatever it is.
	Level event.Level
	// OmitErrors leaves out the messages of JSON-RPC errors and the texts of the errors
	// that handlers return and of what they panic with, of which it logs the types. The
	// texts are logged without the strings of the call's arguments, answers and state and
	// without credentials, but a handler may put together what is not recognised, or
	// quote what it was told in the protocol errors that it returns.
	OmitErrors bool
	// Subject names the authenticated principal of a request or an answer, in
	// the field "subject". Nil: only what kind of principal it is is logged. Return
	// p.Subject, or a digest of it where logs must not name people.
	Subject func(p protocol.Principal) string
	// RemoteAddr logs the address that a request came from, "remote_addr", as
	// the transport knows it.
	RemoteAddr bool
	// TraceID logs the trace that the client says a request belongs to,
	// "trace_id" (W3C Trace Context): from _meta, or else from the header.
	TraceID bool

	// Of [Metrics].

	// Targets are the names of tools and prompts, and the URIs of resources, that get series of
	// their own: rondo_requests_total, rondo_request_duration_seconds and
	// rondo_request_waiting_seconds then have the label "target", which is "other" for what is not
	// listed and empty for methods that have no target. Each adds a series for each outcome and a
	// histogram. Nil: no such label.
	Targets []string

	// Of [Payload].

	// ArgumentBytes bounds the arguments of a call as JSON text, the URI of a resource to read, the
	// texts of a completion request, and the inputResponses together, keys included. 0: 1 MiB.
	ArgumentBytes int
	// ResultBytes bounds what tools, prompts and resources return: text, binary content as base64,
	// structured content, questions. The syntax around it does not count. 0: 8 MiB.
	ResultBytes int

	// Of [Limit].

	// Calls is how many requests may run at once, 0: 256.
	Calls int
	// CallsPerPrincipal is how many of them may be one authenticated principal's, 0: 32.
	CallsPerPrincipal int

	// Of [Production].

	// Timeout is how long a leg may work, as in [Timeout]; 0: a minute.
	Timeout time.Duration
}

// orDefault returns a copy of o, which may be nil.
func (o *Options) orDefault() Options {
	if o == nil {
		return Options{}
	}
	return *o
}
