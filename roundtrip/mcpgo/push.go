package mcpgo

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/limits/humantime"
	"github.com/rondo-mcp/rondo/internal/wire/accepthttp"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// pusher pushes questions to a client of a legacy revision with mcp-go's own calls. These
// report no progress and, when ctx ends, do not send a cancellation.
type pusher struct {
	server   *server.MCPServer
	session  server.ClientSession // the client's own, never a shadow
	version  protocol.Version
	rewriter *rewriter   // nil: the call did not come over HTTP or lines
	out      notifier    // to the stream of the call, nil: there is none
	over     atomic.Bool // the call has ended
}

// newPusher returns nil where the session cannot carry a question, or there is none.
func newPusher(ctx context.Context, version protocol.Version) *pusher {
	s := server.ServerFromContext(ctx)
	if s == nil {
		return nil
	}
	session := server.ClientSessionFromContext(ctx)
	switch session.(type) {
	case server.SessionWithElicitation, server.SessionWithSampling, server.SessionWithRoots:
		p := &pusher{server: s, session: session, version: version}
		if rw := rewriterFrom(ctx); rw != nil {
			p.rewriter, p.out = rw, rw.notifier
		}
		return p
	}
	return nil
}

var _ roundtrip.Pusher = (*pusher)(nil)

// takesJSONAlone reports whether nothing but the response can be sent in response to the call.
func (p *pusher) takesJSONAlone() bool {
	return p.rewriter != nil && !accepthttp.AdmitsEvents(p.rewriter.header)
}

// CannotPush is asked by the funnel before a question: why none can go out now. For a client
// that takes JSON alone mcp-go keeps the question until there is a GET stream.
func (p *pusher) CannotPush() string {
	if !p.takesJSONAlone() {
		return ""
	}
	return p.rewriter.adapter.endpoint.CannotAsk(p.rewriter.header, p.rewriter.session)
}

// Push implements [roundtrip.Pusher]. A question that mcp-go takes into its queue counts
// as written.
func (p *pusher) Push(ctx context.Context, question protocol.InputRequest, _,
	written func()) (json.RawMessage, error) {
	request, err := encodeQuestion(question)
	if err != nil {
		return nil, err
	}
	ctx = p.server.WithContext(ctx, p.session)
	switch {
	case request.Elicitation != nil:
		if visit, ok := question.(*protocol.ElicitURL); ok {
			request.Elicitation.ElicitationID = visit.ElicitationID
		} else if p.version < protocol.V20251125 {
			request.Elicitation.Mode = "" // a member that earlier revisions lack
		}
		return encodeAnswer(requestWhenQueued(ctx, written, p.server.RequestElicitation,
			mcp.ElicitationRequest{Params: *request.Elicitation}))
	case request.Sampling != nil:
		//lint:ignore SA1019 sampling is deprecated, and supported for as long as it exists
		return encodeAnswer(requestWhenQueued(ctx, written, p.server.RequestSampling,
			mcp.CreateMessageRequest{CreateMessageParams: *request.Sampling}))
	case request.Roots != nil:
		return encodeAnswer(requestWhenQueued(ctx, written, p.server.RequestRoots,
			mcp.ListRootsRequest{}))
	}
	return nil, fmt.Errorf("no way to ask a question of type %T", question)
}

// queuePause is how long a question waits for a place in a full queue of mcp-go.
const queuePause = 20 * time.Millisecond

// requestWhenQueued calls request, one of mcp-go's own calls. A session over streamable
// HTTP keeps at most ten requests of a kind until a stream takes them, and refuses more.
// The client has not seen a refused request: it is repeated until ctx ends.
func requestWhenQueued[Q, R any](ctx context.Context, attempted func(),
	request func(context.Context, Q) (*R, error), question Q) (*R, error) {
	for {
		attempted()
		result, err := request(ctx, question)
		if err == nil || !isFullQueue(err) {
			return result, err
		}
		if err := humantime.Sleep(ctx, queuePause); err != nil {
			return nil, err
		}
	}
}

// isFullQueue reports whether err means that a queue of mcp-go is full. mcp-go has no
// value for it. The whole text is compared, since errors that a client sends over
// streamable HTTP have a prefix and must not be taken for it.
func isFullQueue(err error) bool {
	switch err.Error() {
	case "elicitation request queue is full - server overloaded",
		"sampling request queue is full - server overloaded",
		"list roots request queue is full - server overloaded":
		return true
	}
	return false
}

// CompleteVisit implements [roundtrip.VisitCompleter]. It writes the notification to the
// stream of the call itself, where that is open: mcp-go drops a notification which its
// forwarder has taken from the queue of the session when the call ends. Where mcp-go
// stores the events of the stream it drops none, and redelivers what it has sent.
func (p *pusher) CompleteVisit(ctx context.Context, elicitationID string) error {
	if p.out != nil && !p.out.redelivers() {
		message, err := encodeVisitEnd(elicitationID)
		if err != nil {
			return err
		}
		if p.out.writeNotification(message, &p.over) {
			return nil
		}
	}
	return p.server.SendElicitationComplete(ctx, p.session, elicitationID)
}

func encodeVisitEnd(elicitationID string) ([]byte, error) {
	params, err := jsonx.Encode(protocol.ElicitationCompleted{ElicitationID: elicitationID})
	if err != nil {
		return nil, err
	}
	return protocol.AppendMessage(nil,
		&protocol.Notification{Method: protocol.NotifyElicitationCompleted, Params: params})
}

func encodeAnswer[R any](result *R, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, readClientError(err)
	}
	if result == nil {
		return nil, fmt.Errorf("the session returned neither an answer nor an error")
	}
	return json.Marshal(result)
}

// readClientError returns the error of the client that mcp-go has made a text of, and any other
// error as it is. What a client says may hold an answer, and logs must be able to leave it out.
// On lines the text has no code.
func readClientError(err error) error {
	text := err.Error()
	if _, message, ok := strings.Cut(text, " request failed: "); ok {
		return &protocol.Error{Code: protocol.CodeInternalError, Message: message}
	}
	for _, method := range []string{protocol.MethodElicit, protocol.MethodCreateMessage,
		protocol.MethodListRoots} {
		_, said, _ := strings.Cut(text, method+" error ")
		code, message, ok := strings.Cut(said, ": ")
		if number, bad := strconv.ParseInt(code, 10, 64); ok && bad == nil {
			return &protocol.Error{Code: number, Message: message}
		}
	}
	return err
}
