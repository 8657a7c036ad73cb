package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// A Call is the common part of calls of tools, prompts and resources. It belongs to one leg and
// must not be used after it. Methods may be called concurrently.
type Call struct {
	Version   protocol.Version      // revision of the request
	Principal protocol.Principal    // sender of the request
	Access    *Access               // the request's permissions; see [Access.Check]
	Meta      *protocol.RequestMeta // _meta of the request, never nil

	request *Request
	channel *requestChannel // nil: messages go nowhere
	ctx     context.Context // the handler's, for questions that are asked with another one
}

func newCall(ctx context.Context, request *Request) Call {
	request.channel.resetProgress()
	return Call{Version: request.Version, Principal: request.Principal, Access: request.Access,
		Meta: request.Meta, request: request, channel: request.channel, ctx: ctx}
}

// Capabilities returns the client's capabilities for this request, as [Request.Capabilities] does.
func (c *Call) Capabilities() protocol.ClientCapabilities {
	if c.request == nil {
		return declaredBy(c.Meta)
	}
	return c.request.Capabilities()
}

// Capabilities returns the client's capabilities for this request: the declared ones, and forms
// where the server's own page can show them (roundtrip.Options.Page). In a session, settings of
// experimental capabilities and extensions beyond 2 KiB in total count as not declared.
func (request *Request) Capabilities() protocol.ClientCapabilities {
	c := declaredBy(request.Meta)
	s := request.server
	if s == nil || s.opts.Roundtrip.Page == nil || request.Principal.Anonymous() {
		return c
	}
	return c.Union(protocol.ClientCapabilities{
		Elicitation: &protocol.ElicitationCapability{Form: true}})
}

func declaredBy(meta *protocol.RequestMeta) protocol.ClientCapabilities {
	return *cmp.Or(meta.Capabilities, &protocol.ClientCapabilities{})
}

// ClientInfo names the client; it is self-reported, and zero if absent. In a session it is limited
// to 2 KiB: name and version are cut at 256 bytes each, other members are dropped if too long.
func (c *Call) ClientInfo() protocol.Implementation {
	return *cmp.Or(c.Meta.ClientInfo, &protocol.Implementation{})
}

// Notify sends a notification to the client while the request runs, or does nothing if the
// transport cannot. It fails if the client is unreachable or the request was answered ([ErrEnded]).
func (c *Call) Notify(ctx context.Context, n *protocol.Notification) error {
	if c.channel == nil {
		return nil
	}
	return c.channel.Notify(ctx, n)
}

// checkNeeds refuses a request if the client lacks capabilities that the handler needs.
func (s *Server) checkNeeds(ctx context.Context, request *Request,
	needs protocol.ClientCapabilities) error {
	if needs.IsZero() {
		return nil
	}
	missing := request.Capabilities().Lacks(needs)
	if missing.IsZero() {
		return nil
	}
	s.opts.Observer.Observe(ctx,
		event.CapabilityRefused{Where: request.eventWhere(), Missing: missing})
	return request.era.refuseCapabilities(missing)
}

func roundtripCall(request *Request, arguments json.RawMessage,
	retry *protocol.Retry) roundtrip.Call {
	call := roundtrip.Call{
		Version: request.Version, Method: request.Message.Method, Target: request.Target,
		Arguments: arguments, Principal: request.Principal,
		Responses: retry.InputResponses, State: retry.RequestState, Credential: request.Credential,
		RequestID: request.RequestID, Authenticates: request.private,
		KeptBytes: request.keptBytes(len(arguments)),
	}
	if request.Meta.Capabilities != nil {
		call.Capabilities = *request.Meta.Capabilities
	}
	call.Client = request.Meta.ClientInfo
	call.Session = request.era.sessionKey()
	if !request.Meta.ProgressToken.IsZero() && request.channel != nil {
		call.Heartbeat = request.sendHeartbeat
	}
	if request.pusher != nil {
		call.Push = request.pusher
	}
	return call
}

// convertOutcome converts a handler's result and error for the funnel.
func (s *Server) convertOutcome(ctx context.Context, request *Request, result protocol.Result,
	err error) (protocol.Result, error) {
	if err == nil {
		return result, nil
	}
	if asks, ok := errors.AsType[*InputRequiredError](err); ok {
		return asks.Result, nil
	}
	if no, ok := errors.AsType[*ToolError](err); ok && no != nil &&
		request.Message.Method == protocol.MethodCallTool {
		return ErrorText(no.Text), nil
	}
	if mistake, ok := errors.AsType[*bugError](err); ok {
		return nil, s.reportBug(ctx, request, mistake)
	}
	return nil, request.spellLack(err)
}

// CloseStream closes the connection on which the client waits for the response and tells it to
// reconnect after retry, rounded to milliseconds (zero: the client decides), so that a long call
// need not hold a connection. The request goes on, and its messages are kept within the transport's
// limits. After [ErrCannotClose] the connection stays open.
func (c *Call) CloseStream(ctx context.Context, retry time.Duration) error {
	if retry < 0 {
		return fmt.Errorf("server: close stream: retry %v is negative", retry)
	}
	if c.channel == nil {
		return ErrCannotClose
	}
	c.channel.mu.Lock()
	defer c.channel.mu.Unlock()
	if c.channel.ended {
		return ErrEnded
	}
	closer, ok := c.channel.back.(rpc.StreamCloser)
	if !ok {
		return ErrCannotClose
	}
	return closer.CloseStream(ctx, retry)
}
