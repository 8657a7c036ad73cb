package server

import (
	"bytes"

	"github.com/rondo-mcp/rondo/protocol"
)

// maxBodySlack is how many bytes of a body may be kept, while a call waits for a
// person, that its handler has not been given. Copying costs more than a few
// hundred bytes are worth.
const maxBodySlack = 1 << 10

// copyFromBody has a request of a session hold of its body what its handler is
// given, and nothing else: arguments and _meta, which alias the body. The retry
// members do not exist in these revisions. Modern requests do not wait.
func (in *Incoming) copyFromBody(meta *protocol.RequestMeta) {
	if len(in.Request.Params) <= maxBodySlack {
		return
	}
	given := len(meta.Extra)
	switch p := in.Params.(type) {
	case *protocol.CallToolParams:
		given += len(p.Arguments)
	case *protocol.GetPromptParams:
		given += len(p.Arguments)
	case *protocol.ReadResourceParams:
	default:
		return
	}
	if len(in.Request.Params)-given <= maxBodySlack {
		return
	}
	meta.Extra = bytes.Clone(meta.Extra)
	// What the client can do is the session's, in whichever spelling it came.
	own := protocol.RequestMeta{ProgressToken: meta.ProgressToken, Extra: meta.Extra}
	switch p := in.Params.(type) {
	case *protocol.CallToolParams:
		p.Arguments, p.Retry, p.RequestMeta = bytes.Clone(p.Arguments), protocol.Retry{}, own
	case *protocol.GetPromptParams:
		p.Arguments, p.Retry, p.RequestMeta = bytes.Clone(p.Arguments), protocol.Retry{}, own
	case *protocol.ReadResourceParams:
		p.Retry, p.RequestMeta = protocol.Retry{}, own
	}
	in.bodyCopied = true
}

// releaseBody lets go of the body before the handler runs, which may wait for a
// person for long.
func (in *Incoming) releaseBody() {
	if in.bodyCopied {
		in.Request = &protocol.Request{ID: in.Request.ID, Method: in.Request.Method}
	}
}
