package middleware

import (
	"cmp"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// Options configure the middleware of this package; each part reads its own fields. The zero value
// works. In numeric fields 0 means the default, and a negative value disables the limit.
type Options struct {
	// Of [Log].

	// Level is the level of leg entries, info by default; internal errors have at least warn.
	Level event.Level
	// OmitErrors omits the messages of JSON-RPC errors and the texts, but not the types, of
	// handlers' errors and panics. Credentials and strings of arguments, answers and state are
	// always masked, but a handler may transform them, or quote them in protocol errors.
	OmitErrors bool
	// Subject names the authenticated principal of a request or answer, in the field "subject". If
	// nil, only its kind is logged. Return p.Subject, or a digest if logs must not identify users.
	Subject func(p protocol.Principal) string
	// RemoteAddr logs the peer's address, as the transport knows it, in "remote_addr".
	RemoteAddr bool
	// TraceID logs the client's "trace_id" (W3C Trace Context), from _meta or else the header.
	TraceID bool

	// Of [Metrics].

	// Targets are the names of tools and prompts, and URIs of resources, with their own series:
	// rondo_requests_total, rondo_request_duration_seconds and rondo_request_waiting_seconds then
	// have the label "target", which is "other" for unlisted targets and empty for methods without
	// one. Each adds a series for each outcome and a histogram. Nil means no such label.
	Targets []string

	// Of [Payload].

	// ArgumentBytes bounds a call's arguments as JSON text, a resource's URI, the texts of a
	// completion request, and all inputResponses with keys. 0 means 1 MiB.
	ArgumentBytes int
	// ResultBytes bounds results of tools, prompts and resources without their syntax: text, base64
	// content, structured content, questions. 0 means 8 MiB.
	ResultBytes int

	// Of [Limit].

	// Calls limits concurrent requests; 0 means 256.
	Calls int
	// CallsPerPrincipal limits the concurrent requests of one authenticated principal; 0 means 32.
	CallsPerPrincipal int

	// Of [Production].

	// Timeout limits the work of a leg, as in [Timeout]; 0 means a minute.
	Timeout time.Duration
}

func (o *Options) orDefault() Options { return *cmp.Or(o, &Options{}) }
