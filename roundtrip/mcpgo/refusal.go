package mcpgo

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// refusal is the answer to a message that the adapter does not pass to mcp-go, so that no
// middleware sees it.
type refusal struct {
	status int // of HTTP; 0 on a stream of lines
	reason event.RefusalReason
	id     json.RawMessage // "null" where the message's could not be decoded
	err    *protocol.Error
}

// writeRefusal answers an HTTP request with a refusal, and reports it to the observer.
func (a *Adapter) writeRefusal(w http.ResponseWriter, r *http.Request, f refusal) {
	a.reportRefusal(r.Context(), "http", r.RemoteAddr, f)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.status)
	_, _ = w.Write(append(encodeErrorResponse(f.id, f.err), '\n'))
}

// reportRefusal reports a refusal to the observer, and recovers from its panics: it is
// called by the goroutine that reads the client's stream.
func (a *Adapter) reportRefusal(ctx context.Context, transport, remote string, f refusal) {
	defer func() { _ = recover() }()
	id := f.id
	if bytes.Equal(id, []byte("null")) {
		id = nil
	}
	a.reportEvent(ctx, event.RequestRefused{
		Transport: transport, Reason: f.reason, Status: f.status, Code: f.err.Code,
		RequestID: string(id), RemoteAddr: remote, Err: f.err,
	})
}
