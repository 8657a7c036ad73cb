package clienthttp

import (
	"context"
	"errors"
	"net/http"

	"github.com/rondo-mcp/rondo/protocol"
)

var _ protocol.LegacyPeer = (*Transport)(nil)

// Probe implements [protocol.LegacyPeer]. Signs of a legacy server are an error
// status that is about the request and has no error of a modern revision as its
// body, the same without the status, and an answer that only a legacy server
// gives (basic/transports/streamable-http, "Backward Compatibility").
func (t *Transport) Probe(ctx context.Context, req *protocol.Request) (*protocol.Response, bool, error) {
	x, err := t.post(ctx, req, req.Method, &req.Mirror)
	if err != nil {
		return nil, false, err
	}
	status := x.http.StatusCode
	resp, err := x.response(req.ID, nil)
	if err = x.finish(err); err != nil {
		return nil, ctx.Err() == nil && (aboutRequest(status) || errors.Is(err, errAsked)), err
	}
	if resp.Error == nil || resp.Error.EraEvidence() {
		return resp, false, nil
	}
	return resp, status == http.StatusOK || aboutRequest(status), nil
}

// aboutRequest reports whether a status says that the request is at fault,
// rather than who sent it, when, or the server.
func aboutRequest(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status < 500
}
