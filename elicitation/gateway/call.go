package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// A flowState is what the gateway keeps with a client that was asked something, sealed by the
// server and bound to the caller and the request.
type flowState struct {
	// Asked are the questions of the last round.
	Asked []askedQuestion `json:"asked,omitempty"`
	// Upstream is the requestState of a modern upstream, byte by byte; nil: it sent none.
	Upstream *[]byte `json:"upstream,omitempty"`
	// Owner is the token of the replica that runs the call of a legacy upstream, Parked the
	// call, and Round the leg that the answers are for.
	Owner  string `json:"owner,omitempty"`
	Parked string `json:"parked,omitempty"`
	Round  int    `json:"round,omitempty"`
	// Login is what the call waits for before it goes on; nil: it waits for no login.
	Login *loginState `json:"login,omitempty"`
}

// An askedQuestion pairs the key that the client sees with that of the upstream. A modern upstream
// may use a key again in another round; the gateway's are new in each.
type askedQuestion struct {
	Key      string             `json:"key"`
	Upstream string             `json:"upstream"`
	Kind     protocol.InputKind `json:"kind"`
}

// callUpstream passes on one leg of a client's request. params are those of the upstream, without
// answers.
func (g *Gateway) callUpstream(
	ctx context.Context, u *upstream, call *server.Call, params protocol.Params,
) (protocol.Result, error) {
	state, resumed := roundtrip.State[flowState](ctx)
	if resumed && state.Parked != "" {
		return g.resumeParked(ctx, call, &state)
	}
	if state.Login != nil {
		if again, err := g.awaitLogin(ctx, u, call, state); again != nil || err != nil {
			return again, err
		}
		state.Login = nil
	}
	result, err := g.callOnce(ctx, u, call, params, &state)
	if needed, ok := errors.AsType[*loginNeeded](err); ok {
		return g.askLogin(ctx, u, call, state, needed)
	}
	return result, err
}

// callOnce passes on one leg of a call that is not parked.
func (g *Gateway) callOnce(ctx context.Context, u *upstream, call *server.Call,
	params protocol.Params, state *flowState,
) (protocol.Result, error) {
	resumed := state.Asked != nil || state.Upstream != nil
	if !resumed && g.park.isClosed() {
		return nil, quota.Refuse(quota.None, time.Second, "the gateway is shutting down")
	}
	// A call that has no room costs no connection, where the upstream is known to push.
	reserved := !resumed && u.isLegacy()
	if reserved {
		if err := g.park.reserve(call.Principal); err != nil {
			return nil, err
		}
	}
	defer func() {
		if reserved {
			g.park.end(call.Principal)
		}
	}()
	conn, release, err := g.connect(ctx, u, call)
	if err != nil {
		return nil, err
	}
	if conn.modern() {
		defer release(true)
		return g.relayLeg(ctx, u, conn, call, params, state)
	}
	if resumed { // the upstream spoke the modern era when the call began
		release(true)
		return nil, errForeignLeg()
	}
	if !reserved {
		if err := g.park.reserve(call.Principal); err != nil {
			release(true)
			return nil, err
		}
	}
	reserved = false // the parked call has the room
	return g.parkCall(ctx, u, conn, release, call, params)
}

// relayLeg sends one leg to a modern upstream, which gets its own state and the answers to its own
// questions, and keeps nothing.
func (g *Gateway) relayLeg(ctx context.Context, u *upstream, conn *connection, call *server.Call,
	params protocol.Params, state *flowState,
) (protocol.Result, error) {
	retry := protocol.Retry{}
	if state.Upstream != nil {
		retry.RequestState = protocol.StateText(string(*state.Upstream))
	}
	for key, a := range readAnswers(ctx, state.Asked) {
		raw, err := a.encode()
		if err != nil {
			return nil, err
		}
		retry.InputResponses = append(retry.InputResponses,
			protocol.KeyedResponse{Key: upstreamKey(state.Asked, key), Result: raw})
	}
	*protocol.RetryOf(params) = retry
	upstream, done := g.detach(ctx)
	defer done()
	upstream = context.WithValue(upstream, callKey{}, call) // for logs
	result, pending, err := conn.client.Begin(withProgress(upstream, call, func() *server.Call {
		return call
	}), params)
	if err != nil {
		return nil, u.explainLack(u.explainCall(err))
	}
	if pending == nil {
		return u.publishResult(result), nil
	}
	return u.askClient(pending, roundtrip.RoundOf(ctx).Number)
}

// askClient returns the questions of a modern upstream as those of the gateway.
func (u *upstream) askClient(pending *client.Pending, round int) (protocol.Result, error) {
	next := flowState{}
	if text, present := pending.State().Text(); present {
		data := []byte(text)
		next.Upstream = &data
	}
	var questions protocol.InputRequests
	for i, q := range pending.Questions() {
		if err := u.checkQuestion(q.Request); err != nil {
			return nil, err
		}
		key := "round-" + strconv.Itoa(round) + "-question-" + strconv.Itoa(i+1)
		next.Asked = append(next.Asked, askedQuestion{key, q.Key, q.Request.Kind()})
		questions = append(questions, protocol.KeyedRequest{Key: key, Request: q.Request})
	}
	return inputRequired(questions, next), nil
}

// inputRequired returns the outcome that asks the client what an upstream asks. The forms are those
// of a peer: they need not keep to the grammar that is asked of an author here.
func inputRequired(questions protocol.InputRequests, next flowState) protocol.Result {
	result := roundtrip.InputRequired(roundtrip.WithState(next))
	result.InputRequests = questions
	return result
}

func upstreamKey(asked []askedQuestion, key string) string {
	for _, q := range asked {
		if q.Key == key {
			return q.Upstream
		}
	}
	return ""
}

// readAnswers returns what the client has answered. What is missing or does not fit its form is
// left out.
func readAnswers(ctx context.Context, asked []askedQuestion) map[string]answer {
	answers := map[string]answer{}
	for _, q := range asked {
		if a, ok := readAnswer(ctx, q.Key, q.Kind); ok {
			answers[q.Key] = a
		}
	}
	return answers
}

func readAnswer(ctx context.Context, key string, kind protocol.InputKind) (answer, bool) {
	if action, refused := roundtrip.RefusedAction(ctx, key); refused {
		return answer{action: action}, true
	}
	switch kind {
	case protocol.KindElicitForm:
		reply := roundtrip.RawAnswer(ctx, key)
		return answer{protocol.ActionAccept, reply.Content}, reply.Outcome == roundtrip.Accepted
	case protocol.KindElicitURL:
		accepted := roundtrip.Visited(ctx, key) == roundtrip.Accepted
		return answer{action: protocol.ActionAccept}, accepted
	case protocol.KindCreateMessage:
		result, sampled := roundtrip.Sampled(ctx, key)
		return answer{protocol.ActionAccept, &result}, sampled
	case protocol.KindListRoots:
		roots, listed := roundtrip.Roots(ctx, key)
		return answer{protocol.ActionAccept, &protocol.ListRootsResult{Roots: roots}}, listed
	}
	return answer{}, false
}

// decodeAnswer reads what the client of a session has answered.
func decodeAnswer(kind protocol.InputKind, raw json.RawMessage) (answer, error) {
	switch kind {
	case protocol.KindCreateMessage:
		result, err := protocol.DecodeCreateMessageResult(raw)
		return answer{protocol.ActionAccept, result}, err
	case protocol.KindListRoots:
		result, err := protocol.DecodeListRootsResult(raw)
		return answer{protocol.ActionAccept, result}, err
	}
	result, err := protocol.DecodeElicitResult(raw)
	if err != nil || result.Content == nil {
		return answer{action: result.Action}, err
	}
	return answer{result.Action, result.Content}, nil
}

// encode returns the answer as an upstream reads it.
func (a answer) encode() (json.RawMessage, error) {
	switch result := a.result.(type) {
	case *protocol.CreateMessageResult, *protocol.ListRootsResult:
		return json.Marshal(result)
	case json.RawMessage:
		return json.Marshal(protocol.ElicitResult{Action: a.action, Content: result})
	}
	return json.Marshal(protocol.ElicitResult{Action: a.action})
}

// digestAnswers tells the answers of one leg from those of another.
func digestAnswers(answers map[string]answer, asked []askedQuestion) ([32]byte, error) {
	h := sha256.New()
	for _, q := range asked {
		a, ok := answers[q.Key]
		if !ok {
			continue
		}
		raw, err := a.encode()
		if err != nil {
			return [32]byte{}, err
		}
		part := sha256.Sum256(append([]byte(q.Key+"\x00"), raw...))
		h.Write(part[:])
	}
	return [32]byte(h.Sum(nil)), nil
}

// withProgress returns a context whose calls report progress to the request that waits for them,
// where the client has asked for it.
func withProgress(
	ctx context.Context, first *server.Call, waiting func() *server.Call,
) context.Context {
	if first.Meta.ProgressToken.IsZero() {
		return client.WithProgress(ctx, nil)
	}
	return client.WithProgress(ctx, func(ctx context.Context, p *protocol.Progress) {
		if call := waiting(); call != nil {
			var total float64
			if p.Total != nil {
				total = *p.Total
			}
			_ = call.Progress(ctx, p.Progress, total, p.Message) // an error: nobody reads it now
		}
	})
}

// explain returns the error of an upstream as the client gets it: what the upstream said as it
// is, and everything else as a sentence that names the upstream and nothing behind it.
func (u *upstream) explain(err error) error {
	if said, ok := protocol.AsError(err); ok {
		return said
	}
	if question, ok := errors.AsType[*client.QuestionError](err); ok {
		return &upstreamError{u.config.Name, "asks something that may not be passed on", question}
	}
	if _, ok := errors.AsType[*client.ResponseError](err); ok {
		return &upstreamError{u.config.Name, "sent a response that cannot be read", err}
	}
	if _, ok := errors.AsType[*loginNeeded](err); ok {
		return &upstreamError{u.config.Name, "wants you to log in there: call one of its tools", err}
	}
	if _, ok := errors.AsType[*unhandled](err); ok {
		return &upstreamError{u.config.Name, "refuses the credentials of this caller", err}
	}
	return &upstreamError{u.config.Name, "cannot be reached", err}
}

// explainCall is explain for a call that was sent: it may have done something.
func (u *upstream) explainCall(err error) error {
	explained, ok := u.explain(err).(*upstreamError)
	if !ok || explained.what != "cannot be reached" {
		return u.explain(err)
	}
	explained.what = "did not answer. " + unknownEffect
	for _, cause := range []error{errClientLeft, errExpired, errClosed} {
		if errors.Is(err, cause) {
			explained.what = "was not waited for any longer. " + unknownEffect
		}
	}
	return explained
}

// explainLack returns the error of a modern upstream that misses capabilities of the client. One
// that the gateway does not pass on is none that the client could declare.
func (u *upstream) explainLack(err error) error {
	said, _ := protocol.AsError(err)
	needed, ok := said.RequiredCapabilities()
	if !ok {
		return err
	}
	if kept := u.capabilities(needed).declare().Lacks(needed); !kept.IsZero() {
		return &upstreamError{u.config.Name,
			fmt.Sprintf("needs %s, which this gateway does not let it use", kept), nil}
	}
	return err
}

// unknownEffect is what a model has to know before it calls a tool again.
const unknownEffect = "What the tool did is not known: check before calling it again"

// An upstreamError tells the client which upstream failed; the cause is for the log.
type upstreamError struct {
	upstream, what string
	cause          error
}

func (e *upstreamError) Error() string { return "The upstream server " + e.upstream + " " + e.what }
func (e *upstreamError) Unwrap() error { return e.cause }

// elicitResult returns the answer to a form or a URL.
func (a answer) elicitResult() *protocol.ElicitResult {
	content, _ := a.result.(json.RawMessage)
	return &protocol.ElicitResult{Action: a.action, Content: content}
}
