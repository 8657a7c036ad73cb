package mcpgo

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/rondo-mcp/rondo/internal/forms/urlrule"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// writeMessage calls write with a message of mcp-go's, rewritten where needed. All
// messages of lines and event streams pass it. It returns the error of write, or a
// [*protocol.Error] for a question that must not be asked.
func (a *Adapter) writeMessage(ctx context.Context, rw *rewriter, message []byte,
	write func([]byte) error) error {
	if a.flushes.isMark(message) {
		return nil
	}
	if refusal := a.refuseURL(ctx, message); refusal != nil {
		if rw.answerQuestion != nil {
			rw.answerQuestion(refusal.id, refusal.err)
		}
		return refusal.err
	}
	if r, progress, total := a.reports.findCall(rw.session, message); r != nil {
		return r.writeReport(message, progress, total, write)
	}
	message, _ = rw.rewriteResponse(message)
	return write(message)
}

// A refusedURL is the id of a question that must not be asked, and the error that its
// asker gets.
type refusedURL struct {
	id  json.RawMessage
	err *protocol.Error
}

// refuseURL checks the URL of a question that a handler asks with mcp-go's own calls, nil
// if it may be opened and for all other messages. The refusal has the elicitation's id,
// because such questions have no key.
func (a *Adapter) refuseURL(ctx context.Context, message []byte) *refusedURL {
	if !bytes.Contains(message, []byte(`"`+protocol.MethodElicit+`"`)) {
		return nil
	}
	var question struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Mode string `json:"mode"`
			URL  string `json:"url"`
			ID   string `json:"elicitationId"`
		} `json:"params"`
	}
	// The bytes are mcp-go's own and not a peer's, so that lenient decoding is safe.
	if json.Unmarshal(message, &question) != nil || question.Method != protocol.MethodElicit {
		return nil
	}
	p := &question.Params
	if p.Mode == "form" || p.Mode == "" && p.URL == "" && p.ID == "" {
		return nil
	}
	refusal := urlrule.Hook(a.opts.AllowURL).RefuseAny([]*protocol.ElicitURL{{URL: p.URL,
		ElicitationID: p.ID}})
	if refusal == nil {
		return nil
	}
	a.reportEvent(ctx, event.ServerBug{Where: event.Where{Method: question.Method},
		Err: refusal})
	return &refusedURL{question.ID, refusal.Wire()}
}
