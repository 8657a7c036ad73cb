package mcpgo

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// refusal answers what the adapter does not hand to mcp-go, of which no
// middleware hears.
type refusal struct {
	status int // of HTTP; 0 on a stream of lines
	reason roundtrip.RefusalReason
	id     json.RawMessage // "null" where it could not be read
	err    *protocol.Error
}

// writeRefusal answers an HTTP request, and tells the observer.
func (a *Adapter) writeRefusal(w http.ResponseWriter, r *http.Request, f refusal) {
	a.reportRefusal(r.Context(), "http", r.RemoteAddr, f)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.status)
	_, _ = w.Write(append(encodeErrorResponse(f.id, f.err), '\n'))
}

// reportRefusal tells the observer. A panic of it must not end the stream of a
// client, whose reader this is called on.
func (a *Adapter) reportRefusal(ctx context.Context, transport, remote string, f refusal) {
	defer func() { _ = recover() }()
	id := f.id
	if bytes.Equal(id, []byte("null")) {
		id = nil
	}
	a.reportEvent(ctx, roundtrip.RequestRefused{
		Transport: transport, Reason: f.reason, Status: f.status, Code: f.err.Code,
		RequestID: string(id), RemoteAddr: remote, Err: f.err,
	})
}
