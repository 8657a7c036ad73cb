package hosted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/relay"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// askReturned asks a handler's returned questions, under the handler's keys.
func askReturned(asks *protocol.InputRequiredResult) protocol.Result {
	questions, next := relay.NoteReturned(asks.InputRequests, asks.RequestState,
		func(_ int, key string) string { return key })
	return relay.Ask(questions, next)
}

// retryOf returns the answers to returned questions, and the handler's state or the client's.
func (l *leg) retryOf(given protocol.Retry) (retry protocol.Retry, err error) {
	state, resumed := roundtrip.State[relay.State](l.ctx)
	switch {
	case resumed:
		return state.Retry(l.ctx)
	case l.lenient:
		retry.InputResponses = given.InputResponses
	}
	return retry, nil
}

// parkCall answers one leg of a call whose handler runs once: it starts the call, or brings
// answers. The first leg keeps the session until the handler has returned.
func (h *Server) parkCall(ctx context.Context, call *server.Call, l *leg, keep func() func(),
	method string, params protocol.Params) (protocol.Result, error) {
	state, resumed := roundtrip.State[relay.State](ctx)
	if resumed && state.Parked != "" {
		return h.park.Resume(ctx, call, &state)
	}
	if err := h.park.Reserve(call.Principal); err != nil {
		return nil, err
	}
	giveBack := keep()
	l.askable = call.Capabilities()
	run := func(ctx context.Context, parked *relay.Parked) (protocol.Result, error) {
		l.ctx, l.call, l.parked = ctx, nil, parked
		return l.runRecovering(method, params)
	}
	// The call's own round ends with the first question.
	life, cancel := context.WithCancelCause(roundtrip.WithoutRound(context.WithoutCancel(ctx)))
	stop := context.AfterFunc(h.life, func() { cancel(errClosed) })
	return h.park.Run(ctx, life, call, run,
		func(result protocol.Result, err error) (protocol.Result, error) {
			stop()
			cancel(nil)
			giveBack()
			if relay.IsAbandoned(err) || errors.Is(err, errClosed) { // this text is for the model
				err = fmt.Errorf("the call was given up: %w. %s", err, waiting.UnknownEffect)
			}
			return result, err
		})
}

func (l *leg) askParked(ctx context.Context, q protocol.InputRequest) (json.RawMessage, error) {
	if missing := l.askable.Missing(q); l.optional && !missing.IsZero() {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest,
			"the client does not support: %s", missing)
	}
	answer, err := l.parked.Ask(ctx, q, nil)
	if err != nil {
		return nil, err
	}
	return answer.Encode()
}

func (l *leg) waitingCall() *server.Call {
	if l.parked != nil {
		return l.parked.WaitingCaller()
	}
	return l.call
}

// Handler returns the front's HTTP handler, by [serverhttp.New]. opts may be nil. With Options.Park
// and replicas, answers reach the replica whose handler waits; opts.OwnerOf must be nil then.
func (h *Server) Handler(opts *serverhttp.Options) (*serverhttp.Handler, error) {
	if len(h.opts.Park) > 0 {
		return h.park.Handler(h.front, opts)
	}
	return serverhttp.New(h.front, opts)
}
