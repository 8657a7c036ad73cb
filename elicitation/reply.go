package elicitation

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

type Disposition int

// A Disposition is the outcome of a client's reply. [Router.HandleReply] returns any of them.
// [Router.HandleProgress] never returns Invalid; Accepted means that it extended the timeout.
const (
	Unknown        Disposition = iota // no question has, or recently had, this id
	Accepted                          // it ended the question: an answer, or the client's error
	WrongSession                      // the question was put to another session
	WrongPrincipal                    // the question was put to another principal of this session
	Duplicate                         // the question has been answered
	Expired                           // the question timed out, was cancelled, or failed
	Invalid                           // unusable reply of the right client; ended the question
)

// String names the disposition.
func (d Disposition) String() string {
	names := [...]string{"unknown", "accepted", "wrong_session", "wrong_principal", "duplicate",
		"expired", "invalid"}
	if d < 0 || int(d) >= len(names) {
		return "invalid disposition"
	}
	return names[d]
}

// HandleReply takes a client's response to a question of this router. from is the sender that the
// host authenticated. A reply either ends the question or does nothing. reply is not retained.
func (r *Router) HandleReply(from Sender, reply *protocol.Response) Disposition {
	if reply == nil || reply.ID.IsZero() {
		return Unknown
	}
	p, d := r.lookUpQuestion(from, reply.ID)
	if p == nil {
		return d
	}
	if reply.Error == nil {
		return p.finishByReply(p.readResult(reply.Result))
	}
	wire := *reply.Error
	wire.Data = bytes.Clone(wire.Data) // may alias a host buffer
	return p.finishByReply(p.readError(&wire))
}

// lookUpQuestion returns the sender's pending question with an id, or nil and the disposition.
func (r *Router) lookUpQuestion(from Sender, id protocol.ID) (*pendingQuestion, Disposition) {
	r.mu.Lock()
	p := r.questions[id]
	was, remembered := r.ended.Get(id)
	r.mu.Unlock()
	if p != nil {
		was = endedQuestion{p.call.origin.Session.info.ID, p.call.origin.Principal, false}
	}
	switch {
	case p == nil && !remembered:
		return nil, Unknown
	case was.session != from.Session:
		return nil, WrongSession
	case was.principal != from.Principal:
		return nil, WrongPrincipal
	case was.answered:
		return nil, Duplicate
	}
	return p, Expired
}

// HandleProgress takes a client's notifications/progress. If its token is the request id of a
// question put to this session and principal, the question's timeout restarts, bounded as
// [Options].Timeout describes, and the disposition is Accepted. Progress on another token is
// Unknown: the host handles it.
func (r *Router) HandleProgress(from Sender, n *protocol.Notification) Disposition {
	if n == nil || n.Method != protocol.NotifyProgress {
		return Unknown
	}
	progress := &protocol.Progress{}
	if jsonx.Decode(n.Params, progress) != nil {
		return Unknown
	}
	p, d := r.lookUpQuestion(from, progress.Token)
	if p == nil {
		return d
	}
	if !p.extendTimeout() {
		return p.dispositionOfLate()
	}
	return Accepted
}

func (p *pendingQuestion) finishByReply(out outcome) Disposition {
	switch {
	case !p.finish(out):
		return p.dispositionOfLate()
	case out.err != nil && out.err.Reason != ReasonClientError:
		return Invalid
	}
	return Accepted
}

func (p *pendingQuestion) dispositionOfLate() Disposition {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answered {
		return Duplicate
	}
	return Expired
}

var (
	errNotJSON    = errors.New("the result is not strict JSON")
	errNoResult   = errors.New("the result is not that of an elicitation")
	errLargeError = errors.New("the client's error is too large")
)

func invalidReply(reason Reason, err error) *Error {
	return newFailure(reason, "The client's answer is not valid", err)
}

func (p *pendingQuestion) readError(wire *protocol.Error) outcome {
	err := &Error{Reason: ReasonClientError, Wire: wire}
	if len(wire.Message) > maxOutsideSchema || len(wire.Data) > maxContentBytes {
		err = invalidReply(ReasonInvalidReply, errLargeError)
	}
	return outcome{state: eventError, replied: true, err: err}
}

// readResult returns the outcome of a client's result, validated as Options.Validation says.
func (p *pendingQuestion) readResult(raw []byte) outcome {
	result, err := p.decodeResult(raw)
	if err != nil {
		return outcome{state: eventError, replied: true,
			err: invalidReply(ReasonInvalidReply, err)}
	}
	out := outcome{state: eventCompleted, replied: true, result: result}
	if result.Action != protocol.ActionAccept || p.check.form == nil && p.check.schema == nil {
		return out
	}
	enforce := p.router.opts.Validation == ValidateEnforce
	checked, err := p.router.forms.checkContent(p.check, result.Content, enforce)
	if err == nil {
		result.Content = checked
		return out
	}
	if out.detail = err.Error(); enforce {
		out.state, out.result = eventError, nil
		out.err = invalidReply(ReasonInvalidContent, err)
	}
	return out
}

// decodeResult decodes strictly. Decoder errors may quote the answer, so fixed errors replace them.
func (p *pendingQuestion) decodeResult(raw []byte) (*protocol.ElicitResult, error) {
	if len(raw) > maxContentBytes+maxOutsideSchema {
		return nil, fmt.Errorf("larger than %d bytes", maxContentBytes+maxOutsideSchema)
	}
	if err := jsonx.Check(raw); err != nil {
		return nil, errNotJSON
	}
	result, err := protocol.DecodeElicitResult(raw)
	if err != nil {
		return nil, errNoResult
	}
	if len(result.Content) > maxContentBytes {
		return nil, fmt.Errorf("content: larger than %d bytes", maxContentBytes)
	}
	if result.Meta, err = relayedMeta(result.Meta); err != nil {
		return nil, errNoResult
	}
	if p.kind == protocol.KindElicitURL {
		result.Content = nil // for forms only
	}
	result.Content = bytes.Clone(result.Content) // may alias a host buffer
	return result, nil
}
