package serverhttp

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
	"github.com/rondo-mcp/rondo/internal/limits/inflight"
	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// OwnerToken returns what names this replica to the others, for states of which OwnerOf of
// [Options] reads it again. It is empty without Replicas.
func (h *Handler) OwnerToken() string {
	if h.forwarder == nil {
		return ""
	}
	return h.forwarder.SealSession("owner")
}

// forwardToOwner passes on a request that only another replica can serve: that of OwnerOf. It
// reports false for one that is to be served here, as it is where the owner is surely gone: the
// handler knows what to say then.
func (h *Handler) forwardToOwner(
	rw *responseWriter, r *http.Request, p protocol.Principal, request *protocol.Request,
	body []byte,
) bool {
	if h.opts.OwnerOf == nil || h.forwarder == nil || rw.received != nil {
		return false
	}
	token := h.ownerToken(r.Context(), p, request)
	owner, _ := h.forwarder.FindOwner(token)
	if self := h.forwarder.Self(); owner.Name == "" || owner.Name == self.Name {
		return false
	}
	var task inflight.Request // that of rw is the request's, which may be served here yet
	ctx, ok := h.beginRequest(r.Context(), &task, nil)
	if !ok {
		rw.refuseRequest(shutdownFault())
		return true
	}
	defer h.endRequest(&task)
	hop := r.Clone(ctx)
	hop.Header[headerSession] = []string{token} // binds the hop to the owner; it means no session
	e, answered := h.sendToOwner(rw, hop, owner, body, ownerPatience)
	if answered {
		return true
	}
	if hophttp.IsDead(e.Err) {
		return false
	}
	rw.refuseRequest(ownerFault(request, e))
	return true
}

// ownerPatience is how long an owner may give no sign of life before its client is told to come
// back. It is less than the two seconds that hosts promise: proxies need time, too.
const ownerPatience = 1500 * time.Millisecond

// ownerToken returns the token in the state of a request, empty where there is none.
func (h *Handler) ownerToken(
	ctx context.Context, principal protocol.Principal, request *protocol.Request,
) string {
	if !protocol.MultiRoundTrip(request.Method) ||
		!bytes.Contains(request.Params, []byte(`"requestState"`)) {
		return ""
	}
	params, err := protocol.DecodeParams(request.Method, request.Params)
	if err != nil {
		return ""
	}
	retry := protocol.RetryOf(params)
	if retry == nil {
		return ""
	}
	text, _ := retry.RequestState.Text()
	if text == "" {
		return ""
	}
	return h.opts.OwnerOf(ctx, principal, text)
}

// ownerFault is what a client gets whose request its owner did not answer. The state stays good:
// the owner takes a request that it had before for the same one.
func ownerFault(request *protocol.Request, e event.RequestForwarded) *fault {
	f := busyFault(http.StatusServiceUnavailable, words.RefusedUnreachable, quota.None,
		unreachableRetry, "the replica that runs this call cannot be reached: send the request again")
	f.id = request.ID
	f.cause = fmt.Errorf("replica %q: %w", e.Owner, e.Err)
	return f
}
