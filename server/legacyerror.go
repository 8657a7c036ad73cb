package server

import (
	"context"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/internal/urlrule"
	"github.com/rondo-mcp/rondo/protocol"
)

// legacyError spells an error for a session. Codes that its revision does not
// have are kept off its wire, and a resource that is not found has a code of
// its own there (server/resources, "Error Handling").
func (s *Server) legacyError(ctx context.Context, in *Incoming, e *protocol.Error) *protocol.Error {
	if e == nil {
		return nil
	}
	c := *e
	switch {
	case e.Code == protocol.CodeMissingRequiredClientCapability:
		c.Code, c.Data = protocol.CodeCannotAsk, nil
	case e.Code == protocol.CodeHeaderMismatch, e.Code == protocol.CodeUnsupportedProtocolVersion:
		c.Code = protocol.CodeInvalidParams
	case e.Code == protocol.CodeURLElicitationRequired && in.Version != protocol.V20251125:
		return s.reportBug(ctx, in, fmt.Errorf("code %d does not exist in revision %s", e.Code, in.Version))
	case e.Code == protocol.CodeURLElicitationRequired: // of middleware, which the funnel has not seen
		if refusal := urlrule.Hook(s.opts.Roundtrip.AllowURL).RefuseRequired(e); refusal != nil {
			_ = s.reportBug(ctx, in, refusal)
			return refusal.Wire()
		}
	case e.Code == protocol.CodeInvalidParams && isMissingResource(in, e):
		c.Code = protocol.CodeResourceNotFound
	}
	return &c
}

// isMissingResource recognises what [protocol.ResourceNotFound] returns: an answer
// about a resource whose data is its URI and nothing else.
func isMissingResource(in *Incoming, e *protocol.Error) bool {
	switch in.Request.Method {
	case protocol.MethodReadResource, protocol.MethodSubscribe:
	default:
		return false
	}
	members, uri := 0, false
	err := jsonx.Members(e.Data, func(key, value []byte) error {
		members++
		uri = string(key) == "uri" && jsonx.KindOf(value) == jsonx.String
		return nil
	})
	return err == nil && members == 1 && uri
}
