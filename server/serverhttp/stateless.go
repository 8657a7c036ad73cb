package serverhttp

import (
	"net/http"

	"github.com/rondo-mcp/rondo/internal/replay"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// stateless answers a legacy POST without a session: nothing is known of the
// client but what this request says.
func (h *Handler) stateless(x *exchange, r *http.Request, p roundtrip.Principal, d *delivered) {
	version := protocol.Version(trim(r.Header.Get(headerVersion)))
	if version == "" {
		version = protocol.V20250326 // basic/transports, "Protocol Version Header"
	}
	if d.batch && version != protocol.V20250326 {
		x.fail(noBatches(version))
		return
	}
	if len(d.requests)+len(d.broken) == 0 {
		x.w.WriteHeader(http.StatusAccepted) // there is nobody to tell
		return
	}
	calls, ok := h.calls(r.Context(), nil, d.requests)
	if !ok {
		x.fail(shuttingDown().about(d))
		return
	}
	for i := range calls {
		c := &calls[i]
		var end func()
		c.in, end = h.srv.AdmitStateless(d.requests[i], version, p)
		vetParams(r.Header, c.in)
		c.in.Private = h.opts.Authenticate != nil
		describeSender(c.in, r)
		if d.batch && d.requests[i].Method == protocol.MethodInitialize {
			c.in.Refuse(protocol.Errorf(protocol.CodeInvalidRequest, "invalid request: initialize must not be part of a batch"))
		}
		c.done = end
	}
	h.run(x, r, &replay.Log{}, calls, d)
}
