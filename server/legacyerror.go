package server

import (
	"context"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/internal/revision"
	"github.com/rondo-mcp/rondo/internal/urlrule"
	"github.com/rondo-mcp/rondo/protocol"
)

// spellError spells an error for a session. Codes that its revision does not have are kept off its
// wire, and a resource that is not found has a code of its own there (server/resources, "Error
// Handling"). URLs in an error of middleware have not passed the funnel, which checks them.
func (s *Server) spellError(ctx context.Context, in *Incoming, e *protocol.Error) *protocol.Error {
	spelled, err := revision.SpellError(in.Version, e)
	switch {
	case err != nil:
		return s.bug(ctx, in, err)
	case spelled == nil:
		return nil
	case spelled.Code == protocol.CodeURLElicitationRequired:
		hook := urlrule.Hook(s.opts.Roundtrip.AllowURL)
		if refusal := hook.RefuseRequired(spelled); refusal != nil {
			_ = s.bug(ctx, in, refusal)
			return refusal.Wire()
		}
	case spelled.Code == protocol.CodeInvalidParams && missingURI(in, spelled):
		c := *spelled
		c.Code = protocol.CodeResourceNotFound
		return &c
	}
	return spelled
}

// missingURI recognises what [protocol.ResourceNotFound] returns: an answer
// about a resource whose data is its URI and nothing else.
func missingURI(in *Incoming, e *protocol.Error) bool {
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
