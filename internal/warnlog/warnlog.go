// Package warnlog logs what goes wrong in a funnel whose host has set no observer. It writes to
// log/slog, so that modules which have no other logger need none.
package warnlog

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/rondo-mcp/rondo/internal/redact"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// Observer writes warnings and errors to the default logger of log/slog, with the names that they
// have in package server/middleware. Other events are not logged, nor are the errors that
// handlers return: a client can cause those at will, and is told of them.
type Observer struct{}

var _ event.Observer = Observer{}

const (
	maxText  = 256     // of a text, in bytes
	maxStack = 8 << 10 // of a stack
)

// Observe implements [event.Observer].
func (Observer) Observe(ctx context.Context, e event.Event) {
	switch e := e.(type) {
	case event.EphemeralKey:
		write(ctx, slog.LevelWarn, "mcp.ephemeral_key", event.Where{}, text("key_id", e.KeyID),
			slog.String("meaning", "requestState is sealed with a key that only this process has: "+
				"no other replica can open it, and a restart ends every flow; set Sealer"))
	case event.AnonymousState:
		write(ctx, slog.LevelWarn, "mcp.anonymous_state", e.Where,
			slog.String("meaning", "a question went to a caller of whom nothing is known: whoever "+
				"has the requestState can answer it; authenticate callers, or set Principal"))
	case event.StateRejected:
		logRejected(ctx, e)
	case event.DeclineIgnored:
		write(ctx, slog.LevelWarn, "mcp.decline_ignored", e.Where, text("key", e.Key),
			text("outcome", string(e.Decision)))
	case event.PushFailed:
		write(ctx, slog.LevelWarn, "mcp.push_failed", e.Where, text("kind", string(e.Kind)),
			slog.Bool("tolerated", e.Tolerated))
	case event.QuotaExceeded:
		write(ctx, slog.LevelWarn, "mcp.quota_exceeded", e.Where, text("resource", e.Resource),
			text("limit", e.Limit))
	case event.ServerBug:
		write(ctx, slog.LevelError, "mcp.server_bug", e.Where, failure(e.Err))
	case event.HandlerPanicked:
		write(ctx, slog.LevelError, "mcp.handler_panicked", e.Where,
			slog.String("panic", panicText(e)),
			slog.String("stack", string(e.Stack[:min(len(e.Stack), maxStack)])))
	}
}

func logRejected(ctx context.Context, e event.StateRejected) {
	attrs := []slog.Attr{text("reference", e.Reference), text("reason", string(e.Reason))}
	if e.KeyID != "" {
		attrs = append(attrs, text("key_id", e.KeyID))
	}
	if (e.Reason == event.ReasonPrincipal || e.Reason == event.ReasonFuture) && e.Err != nil {
		attrs = append(attrs, text("meaning", e.Err.Error()))
	}
	write(ctx, slog.LevelWarn, "mcp.state_rejected", e.Where, attrs...)
}

// panicText returns the text in which the secrets of the call are masked, if there is one.
func panicText(e event.HandlerPanicked) string {
	if e.Text == "" {
		return fmt.Sprintf("value of type %T", e.Value)
	}
	return clean(e.Text)
}

// write writes one entry, with what is known of the request in front.
func write(ctx context.Context, level slog.Level, name string, where event.Where,
	attrs ...slog.Attr) {
	logger := slog.Default()
	if !logger.Enabled(ctx, level) {
		return
	}
	var all []slog.Attr
	if where.Method != "" {
		all = append(all, text("method", where.Method), text("target", where.Target),
			text("version", string(where.Version)))
	}
	if where.Round > 0 {
		all = append(all, slog.Int("round", where.Round), text("flow", where.Flow))
	}
	logger.LogAttrs(ctx, level, name, append(all, attrs...)...)
}

func text(name, value string) slog.Attr { return slog.String(name, clean(value)) }

// failure is the text of an error of the host's, without what looks like a credential.
func failure(err error) slog.Attr {
	if err == nil {
		return text("error", "")
	}
	var none redact.Secrets
	return text("error", none.Redact(err.Error()))
}

func clean(value string) string {
	return redact.EscapeText(redact.HideURLSecrets(value), maxText)
}
