package mcpgo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/upstream"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

type tokenKey struct{}

// addRequestMiddleware adds middleware to s that puts the progress token of each request into
// the context of its handler, and ends the calls that the handler left.
func addRequestMiddleware(s *server.MCPServer) {
	s.Use(func(next server.ToolHandlerFunc) server.ToolHandlerFunc {
		return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			ctx, end := withRequest(ctx, r.Params.Meta)
			defer end()
			return next(ctx, r)
		}
	})
	server.WithPromptHandlerMiddleware(
		func(next server.PromptHandlerFunc) server.PromptHandlerFunc {
			return func(ctx context.Context, r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				ctx, end := withRequest(ctx, r.Params.Meta)
				defer end()
				return next(ctx, r)
			}
		})(s)
	resource := func(next server.ResourceHandlerFunc) server.ResourceHandlerFunc {
		return func(ctx context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents,
			error) {
			ctx, end := withRequest(ctx, r.Params.Meta)
			defer end()
			return next(ctx, r)
		}
	}
	server.WithResourceHandlerMiddleware(resource)(s)
}

// withRequest replaces what ctx has of an outer request from which it is derived, as happens
// within a process.
func withRequest(ctx context.Context, meta *mcp.Meta) (context.Context, func()) {
	var token protocol.ProgressToken
	if meta != nil {
		token = upstream.DecodeToken(meta.ProgressToken)
	}
	return upstream.WithRequest(context.WithValue(ctx, tokenKey{}, token))
}

// RelayProgress sends progress of the upstream on call to the call's client, as
// [elicitation.Call.RelayProgress] does. It is for the OnNotification handler of the
// upstream connection. Relay nothing for a call whose Origin has no ProgressToken: its
// client asked for none.
func RelayProgress(ctx context.Context, call *elicitation.Call, n mcp.JSONRPCNotification) error {
	if n.Method != protocol.NotifyProgress {
		return fmt.Errorf("elicitation call: progress: %q is something else", n.Method)
	}
	params, err := json.Marshal(n.Params)
	if err != nil {
		return fmt.Errorf("elicitation call: progress: %w", err)
	}
	var p protocol.Progress
	if err := jsonx.Decode(params, &p); err != nil {
		return fmt.Errorf("elicitation call: progress: %w", err)
	}
	return call.RelayProgress(ctx, &p)
}

var errNotWritten = errors.New("elicitation: progress was not written to the client in time")

// DeliverProgress implements [elicitation.ProgressDeliverer]. mcp-go queues notifications,
// while responses do not pass the queue. To keep the order DeliverProgress blocks until
// mcp-go encodes the notification. One that is not encoded when ctx ends, or within
// progressTimeout, is withdrawn.
func (a *asker) DeliverProgress(ctx context.Context, p *protocol.Progress) error {
	n := encodeProgress(p)
	fields := n.Params.AdditionalFields
	session := server.ClientSessionFromContext(ctx)
	if !encodesQueue(session) {
		var token any
		if err := json.Unmarshal([]byte(p.Token.String()), &token); err != nil {
			return err
		}
		fields["progressToken"] = token
		return a.server.SendNotificationToClient(ctx, n.Method, fields)
	}
	stays := a.queued != nil && !a.queued.hasLeft()
	if stays && len(session.NotificationChannel()) > 0 {
		return errNotWritten // the queue does not move
	}
	a.queued = &queuedProgress{value: p.Progress, left: make(chan struct{})}
	fields["progress"] = a.queued
	if err := a.server.SendNotificationToClient(ctx, n.Method, fields); err != nil {
		a.queued = nil
		return err
	}
	if stays {
		return nil // mcp-go dequeued the last one without encoding it: do not wait again
	}
	timer := time.NewTimer(progressTimeout)
	defer timer.Stop()
	select {
	case <-a.queued.left:
		return nil
	case <-ctx.Done():
	case <-timer.C:
	}
	if a.queued.withdraw() {
		return errNotWritten
	}
	return nil
}

// encodesQueue reports whether a session encodes the notifications in its queue. Others,
// such as one within the process, read the values.
func encodesQueue(session server.ClientSession) bool {
	switch sessionType(session) {
	case "streamableHttpSession", "stdioSession", "sseSession":
		return true
	}
	return false
}

// queuedProgress is the value of a progress notification in a queue of mcp-go's. mcp-go
// encodes a notification just before it writes it: queuedProgress signals that, and fails
// to encode once it is withdrawn, so that the notification is not written.
type queuedProgress struct {
	value float64
	left  chan struct{} // closed when it is encoded for the first time

	mu        sync.Mutex
	encoded   bool
	withdrawn bool // before it was encoded
}

// MarshalJSON implements [json.Marshaler]. It may be called more than once.
func (q *queuedProgress) MarshalJSON() ([]byte, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.encoded {
		q.encoded = true
		close(q.left)
	}
	if q.withdrawn {
		return nil, errNotWritten
	}
	return json.Marshal(q.value)
}

// withdraw prevents the notification from being written. It reports false if it is encoded
// already.
func (q *queuedProgress) withdraw() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.withdrawn = !q.encoded
	return q.withdrawn
}

func (q *queuedProgress) hasLeft() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.encoded
}
