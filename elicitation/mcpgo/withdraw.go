package mcpgo

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// metaQuestion is the member of _meta that marks a question until it is written: mcp-go does not
// report the id that it gives to a question. It is never sent.
const metaQuestion = "rondo/question"

// questionIDs are the ids, as JSON, that mcp-go has given to the questions that are open, by their
// marks.
type questionIDs struct {
	mu     sync.Mutex
	byMark map[string]json.RawMessage
}

// mark marks a question, which is asked where marks are taken away again.
func (q *questionIDs) mark(params *mcp.ElicitationParams) (mark string) {
	mark = rand.Text()
	meta := mcp.Meta{}
	if params.Meta != nil {
		meta = *params.Meta
	}
	meta.AdditionalFields = maps.Clone(meta.AdditionalFields)
	if meta.AdditionalFields == nil {
		meta.AdditionalFields = map[string]any{}
	}
	meta.AdditionalFields[metaQuestion] = mark
	params.Meta = &meta
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.byMark == nil {
		q.byMark = make(map[string]json.RawMessage)
	}
	q.byMark[mark] = nil
	return mark
}

// unmark returns a message, which is mcp-go's own, without the mark, nil if it has none, and keeps
// the id of the question.
func (q *questionIDs) unmark(message []byte) []byte {
	var m, params, meta map[string]json.RawMessage
	var mark string
	if json.Unmarshal(message, &m) != nil || json.Unmarshal(m["params"], &params) != nil ||
		json.Unmarshal(params["_meta"], &meta) != nil ||
		json.Unmarshal(meta[metaQuestion], &mark) != nil {
		return nil
	}
	q.mu.Lock()
	if _, open := q.byMark[mark]; open {
		q.byMark[mark] = m["id"]
	}
	q.mu.Unlock()
	delete(meta, metaQuestion)
	delete(params, "_meta")
	var err error
	if len(meta) > 0 {
		params["_meta"], err = jsonx.Marshal(meta)
	}
	if err == nil {
		m["params"], err = jsonx.Marshal(params)
	}
	if err != nil {
		return nil
	}
	out, err := jsonx.Marshal(m)
	if err != nil {
		return nil
	}
	return out
}

// forget forgets a question and returns its id, nil if it was not written.
func (q *questionIDs) forget(mark string) json.RawMessage {
	q.mu.Lock()
	defer q.mu.Unlock()
	id := q.byMark[mark]
	delete(q.byMark, mark)
	return id
}

// withdraw tells the client that a question has ended, if ctx has, which is that of the question,
// and the request has not.
func (a *asker) withdraw(ctx context.Context, id json.RawMessage) {
	select {
	case <-a.over:
		return
	default:
	}
	if ctx.Err() == nil || id == nil {
		return
	}
	_ = a.server.SendNotificationToClient(context.WithoutCancel(ctx), protocol.NotifyCancelled,
		map[string]any{"requestId": id, "reason": "the question is withdrawn"})
}
