package server

import (
	"cmp"
	"context"
	"io"
	"os"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/wire/lineio"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

const (
	defaultMaxLineBytes = 16 << 20 // same as over HTTP
	// defaultMaxInFlight limits the running requests of a line stream. More are refused, not
	// queued: a queue would hide the overload from the client.
	defaultMaxInFlight = 256
	// defaultStreamGrace lets a script that writes requests and closes its end see the responses.
	defaultStreamGrace = 2 * time.Second
)

// StreamOptions configure one line stream. The zero value works.
type StreamOptions struct {
	// Principal is the peer; zero means [protocol.LocalPrincipal], who started the process.
	Principal protocol.Principal
	// Access is the peer's. Nil gives [protocol.LocalPrincipal] all access, and others no scopes.
	Access *Access
	// MaxLineBytes bounds one message; 0 means 16 MiB, negative means no limit.
	MaxLineBytes int
	// MaxInFlight bounds the running requests and subscriptions; 0 means 256, negative no limit.
	// Calls that wait for a user do not count, see [roundtrip.Options].Limits.WaitingPerPrincipal.
	MaxInFlight int
	Grace       time.Duration // for requests after the end of input; 0: 2 s; negative: none
}

// ServeStdio serves one client over standard input and output (basic/transports/stdio) until the
// input or ctx ends. Nothing else may write to standard output; log to standard error.
func (s *Server) ServeStdio(ctx context.Context) error {
	return s.ServeStream(ctx, os.Stdin, os.Stdout, nil)
}

// ServeStream serves one client over a stream of lines: pipes, a Unix socket, a TCP connection. It
// returns nil at the end of input, and an error when a read or write fails or ctx ends. After that
// nothing is written and no request runs, unless a handler ignores the end of its context for more
// than a second, which is an error too. Blocked reads and writes go on: close reader and writer.
//
// Requests run concurrently. Requests cancelled with notifications/cancelled are not answered.
// Lines that are too long or invalid are refused; the stream goes on.
//
// A client that sends initialize gets a [Session], for requests whose _meta has no revision.
func (s *Server) ServeStream(ctx context.Context, in io.Reader, out io.Writer,
	opts *StreamOptions) error {
	o := cmp.Or(opts, &StreamOptions{}).withDefaults()
	if o.Access == nil {
		o.Access = s.accessOf(o.Principal)
	}
	stream := lineio.NewServer(in, out, lineio.ServerOptions{
		MaxLineBytes: o.MaxLineBytes, MaxInFlight: o.MaxInFlight, Grace: o.Grace,
		SubscriptionEnd: ErrClosed,
		Refused: func(ctx context.Context, why event.RefusalReason, id protocol.ID,
			e *protocol.Error) {
			s.refuseAndReport(ctx, "stream", why, id, e)
		},
	})
	peer := &streamPeer{server: s, principal: o.Principal, access: o.Access}
	if !s.opts.ModernOnly {
		peer.session = s.newSession(o.Principal, stream.Send)
	}
	return stream.Serve(ctx, peer)
}

func (o StreamOptions) withDefaults() StreamOptions {
	if o.Principal.Anonymous() {
		o.Principal = protocol.LocalPrincipal()
	}
	o.MaxLineBytes = quota.LimitOr(o.MaxLineBytes, defaultMaxLineBytes)
	o.MaxInFlight = quota.LimitOr(o.MaxInFlight, defaultMaxInFlight)
	o.Grace = cmp.Or(o.Grace, defaultStreamGrace)
	return o
}

// A streamPeer is the server for the client of one line stream.
type streamPeer struct {
	server    *Server
	principal protocol.Principal
	access    *Access
	session   *Session // nil when the server is modern only
}

var _ lineio.Peer = (*streamPeer)(nil)

func (p *streamPeer) Admit(req *protocol.Request, back protocol.Back) lineio.ServeFunc {
	var admitted *Admission
	if p.belongsToSession(req) {
		// Admit it at once: later requests depend on initialize.
		admitted = p.session.Admit(req, Delivery{Access: p.access, Back: back})
	}
	return func(ctx context.Context) (*protocol.Response, error) {
		if admitted == nil {
			d := Delivery{Principal: p.principal, Access: p.access, Back: back}
			admitted = p.server.Admit(req, d)
		}
		req = nil // so that a long handler does not keep its line
		return p.server.Serve(ctx, admitted), nil
	}
}

// belongsToSession reports whether a request belongs to the session of the stream: it does not name
// its revision, and the session is open or the request may precede its opening.
func (p *streamPeer) belongsToSession(req *protocol.Request) bool {
	if p.session == nil || rules.NamesRevision(req.Params) {
		return false
	}
	return req.Method == protocol.MethodInitialize || req.Method == protocol.MethodPing ||
		p.session.Version() != ""
}

func (p *streamPeer) Notify(ctx context.Context, n *protocol.Notification) {
	if p.session != nil {
		p.session.Notify(ctx, n)
	}
}

func (p *streamPeer) Deliver(r *protocol.Response) {
	if p.session != nil {
		p.session.Deliver(r)
	}
}

func (p *streamPeer) AllowsBatches() bool {
	return p.session != nil && p.session.Version() == protocol.V20250326
}

func (p *streamPeer) FailQuestions() {
	if p.session != nil {
		p.session.pushes.failPushes()
	}
}

// Close ends the session, not the server.
func (p *streamPeer) Close() {
	if p.session != nil {
		p.session.Close()
	}
}
