package mcpgo

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/rondo-mcp/rondo/internal/limits/heartbeat"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// A notifier writes notifications of the adapter's own to the stream on which a request is
// answered.
type notifier interface {
	// writeNotification writes a message between those of mcp-go, and reports whether it
	// did. It does nothing once over is set, or where nothing can be sent before the
	// response.
	writeNotification(message []byte, over *atomic.Bool) bool
	// redelivers reports whether mcp-go keeps the messages of the stream for clients that
	// lose it. It keeps none of those that the adapter writes.
	redelivers() bool
}

// reports writes the progress notifications of one call: those of its handler, which come
// from mcp-go, and heartbeats while the call waits for a person, which the adapter writes
// itself, so that none follows the response. Its values increase, whoever reports.
type reports struct {
	token json.RawMessage
	out   notifier
	over  atomic.Bool // the call has ended

	mu     sync.Mutex // held while a notification is written, since values must not fall
	values heartbeat.Sequence
}

// maxTokenBytes is the longest progress token that gets heartbeats. Clients use numbers
// and short texts.
const maxTokenBytes = 256

// followProgress writes heartbeats while the call waits, if its client asked for
// progress, until end is called. Calls of modern revisions get none: those wait in
// [roundtrip.Await] alone, for [roundtrip.MaxVisitHold] at most. Neither do calls without
// a rewriter, where the adapter does not see what the handler reports.
func (a *Adapter) followProgress(ctx context.Context, call *roundtrip.Call,
	token any) (end func()) {
	rw := rewriterFrom(ctx)
	if rw == nil || rw.session == "" || token == nil || call.Push == nil {
		return func() {}
	}
	text, err := json.Marshal(token)
	if err != nil || len(text) > maxTokenBytes {
		return func() {}
	}
	r := &reports{token: text, out: rw.notifier}
	// A client that does not read must not block the call.
	call.Heartbeat = heartbeat.Detach(0, r.sendHeartbeat)
	key := reportsKey{rw.session, string(text)}
	a.reports.addCall(key, r)
	return func() { a.reports.endCall(key, r) }
}

// sendHeartbeat writes a heartbeat. It is called by the funnel.
func (r *reports) sendHeartbeat(context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	value, total, ok := r.values.Beat()
	if !ok {
		return
	}
	p := protocol.Progress{Progress: value, Message: heartbeat.Message}
	if total != 0 {
		p.Total = &total
	}
	if message, err := encodeProgress(r.token, p); err == nil {
		r.out.writeNotification(message, &r.over)
	}
}

func encodeProgress(token json.RawMessage, p protocol.Progress) ([]byte, error) {
	var err error
	if p.Token, err = protocol.ParseID(token); err != nil {
		return nil, err
	}
	params, err := jsonx.Encode(p)
	if err != nil {
		return nil, err
	}
	return protocol.AppendMessage(nil,
		&protocol.Notification{Method: protocol.NotifyProgress, Params: params})
}

// writeReport writes the progress that a handler reports. The value is raised where
// heartbeats have gone further.
func (r *reports) writeReport(message []byte, progress, total float64,
	write func([]byte) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	value, ok := r.values.Relay(progress, total)
	switch {
	case !ok:
		return nil // it does not exceed the last value, which clients may rely on
	case value == progress:
		return write(message)
	}
	raised, err := replaceProgress(message, value)
	if err != nil {
		return err // cannot happen: findCall has decoded it
	}
	return write(raised)
}

// replaceProgress returns a progress notification with another value.
func replaceProgress(message []byte, value float64) ([]byte, error) {
	head, err := decodeObject(message)
	if err != nil {
		return nil, err
	}
	params, err := decodeObject(head.findMember("params"))
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	params.setMember("progress", text)
	head.setMember("params", params.encodeJSON())
	return head.encodeJSON(), nil
}

// reportsKey identifies a call whose client asked for progress.
type reportsKey struct{ session, token string }

// reportsTable finds the call that a progress notification belongs to. mcp-go may write
// notifications after the handler has returned, so that the table keeps the last calls
// that ended. Its zero value is ready.
type reportsTable struct {
	mu    sync.Mutex
	calls map[reportsKey]*reports
	ended []reportsKey
}

// maxEndedReports is how many calls are kept after their end. Their last notifications
// are written within milliseconds.
const maxEndedReports = 64

func (t *reportsTable) addCall(key reportsKey, r *reports) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls == nil {
		t.calls = map[reportsKey]*reports{}
	}
	t.calls[key] = r
}

func (t *reportsTable) endCall(key reportsKey, r *reports) {
	r.over.Store(true)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = append(t.ended, key)
	if len(t.ended) <= maxEndedReports {
		return
	}
	if oldest := t.calls[t.ended[0]]; oldest != nil && oldest.over.Load() {
		delete(t.calls, t.ended[0])
	}
	t.ended = append(t.ended[:0], t.ended[1:]...)
}

// findCall returns the reports of the call that a message of mcp-go's is progress of, nil
// for every other message.
func (t *reportsTable) findCall(session string,
	message []byte) (r *reports, progress, total float64) {
	if session == "" || !bytes.Contains(message, []byte(`"`+protocol.NotifyProgress+`"`)) {
		return nil, 0, 0
	}
	var n struct {
		Method string `json:"method"`
		Params struct {
			Token    json.RawMessage `json:"progressToken"`
			Progress float64         `json:"progress"`
			Total    float64         `json:"total"`
		} `json:"params"`
	}
	if json.Unmarshal(message, &n) != nil || n.Method != protocol.NotifyProgress {
		return nil, 0, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.calls[reportsKey{session, string(n.Params.Token)}], n.Params.Progress, n.Params.Total
}
