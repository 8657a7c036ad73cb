package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/protocol"
)

// A requestChannel carries messages of one request to its client, in order, until the response.
type requestChannel struct {
	mu       sync.Mutex
	back     protocol.Back // nil: messages go nowhere
	ended    bool
	progress *progressState // nil: no progress was sent yet
}

type progressState struct {
	last   float64 // latest value that the handler reported since it was entered
	values waiting.ProgressSequence
}

func (o *requestChannel) progressLocked() *progressState {
	if o.progress == nil {
		o.progress = &progressState{last: math.Inf(-1)}
	}
	return o.progress
}

// resetProgress precedes each run of the handler: in a session later runs may repeat progress.
func (o *requestChannel) resetProgress() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.progress != nil {
		o.progress.last = math.Inf(-1)
	}
}

func (o *requestChannel) Notify(ctx context.Context, n *protocol.Notification) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sendLocked(ctx, n)
}

func (o *requestChannel) sendLocked(ctx context.Context, n *protocol.Notification) error {
	switch {
	case o.ended:
		return ErrEnded
	case o.back == nil:
		return nil
	}
	return o.back.Notify(ctx, n)
}

func (o *requestChannel) closeChannel() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
}

// Progress reports the progress of the request, if the client sent a progress token
// (basic/patterns/progress). progress must increase from call to call, otherwise it is not sent and
// an error is returned. total is 0 if unknown, message optional. After the response Progress fails.
//
// A handler that runs again after a question may start over: known progress is not sent again.
// While the request waits for a user, heartbeats increase it slightly (see [roundtrip.Options]).
func (c *Call) Progress(ctx context.Context, progress, total float64, message string) error {
	if c.Meta.ProgressToken.IsZero() || c.channel == nil {
		return nil
	}
	if math.IsNaN(progress) || math.IsInf(progress, 0) || math.IsNaN(total) ||
		math.IsInf(total, 0) {
		return errors.New("server: progress: must be finite")
	}
	c.channel.mu.Lock()
	defer c.channel.mu.Unlock()
	state := c.channel.progressLocked()
	switch {
	case c.channel.ended:
		return ErrEnded
	case progress <= state.last:
		return fmt.Errorf("server: progress: %v is not more than %v before", progress, state.last)
	}
	n, err := progressNotification(c.Meta.ProgressToken, progress, total, message)
	if err != nil {
		return err
	}
	state.last = progress
	value, fresh := state.values.Report(progress, total)
	if !fresh {
		return nil
	}
	if value != progress { // heartbeats have gone further
		if n, err = progressNotification(c.Meta.ProgressToken, value, total, message); err != nil {
			return err
		}
	}
	return c.channel.sendLocked(ctx, n)
}

func progressNotification(token protocol.ID, progress, total float64,
	message string) (*protocol.Notification, error) {
	p := protocol.Progress{Token: token, Progress: progress, Message: message}
	if total != 0 {
		p.Total = &total
	}
	params, err := jsonx.Encode(p)
	if err != nil {
		return nil, fmt.Errorf("server: progress: %w", err)
	}
	return &protocol.Notification{Method: protocol.NotifyProgress, Params: params}, nil
}

// sendHeartbeat sends progress while the request waits for a user. It ignores errors: sending the
// question or the response will report that the client is gone.
func (request *Request) sendHeartbeat(ctx context.Context) {
	o := request.channel
	o.mu.Lock()
	defer o.mu.Unlock()
	value, total, ok := o.progressLocked().values.Beat()
	if !ok || o.ended {
		return
	}
	n, err := progressNotification(request.Meta.ProgressToken, value, total, waiting.HeartbeatMessage)
	if err != nil {
		return // impossible for numbers and a constant
	}
	if back, ok := o.back.(rpc.TransientSender); ok {
		if text, err := protocol.AppendMessage(nil, n); err == nil {
			_ = back.SendTransient(ctx, text)
		}
		return
	}
	_ = o.sendLocked(ctx, n)
}

// Log sends a log message if the client wants its level: the level of the request or, in a session,
// the one set last (server/utilities/logging). logger names the component and may be empty; data is
// encoded as JSON. Do not log secrets: credentials, other users' answers, internals.
func (c *Call) Log(ctx context.Context, level protocol.LoggingLevel, logger string,
	data any) error {
	if !level.Valid() {
		return fmt.Errorf("server: log: unknown level %q", level)
	}
	wanted := c.wantedLogLevel()
	if !wanted.Valid() || level.Severity() < wanted.Severity() || c.channel == nil {
		return nil
	}
	raw, err := jsonx.Marshal(data)
	if err != nil {
		return fmt.Errorf("server: log: %w", err)
	}
	params, err := jsonx.Encode(protocol.LogMessage{Level: level, Logger: logger,
		Data: json.RawMessage(raw)})
	if err != nil {
		return fmt.Errorf("server: log: %w", err)
	}
	return c.channel.Notify(ctx,
		&protocol.Notification{Method: protocol.NotifyMessage, Params: params})
}

// wantedLogLevel returns the least severe level that the client wants, empty for none.
func (c *Call) wantedLogLevel() protocol.LoggingLevel {
	if c.request == nil {
		return c.Meta.LogLevel
	}
	return c.request.era.logLevel(c.Meta)
}
