package serverhttp

import (
	"net/http"
	"strconv"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

// A fault is the answer to what cannot be served as a request: a status and an
// error without id (basic/transports/streamable-http, "Sending Messages").
type fault struct {
	status        int
	reason        event.RefusalReason
	err           *protocol.Error // what the client is told
	text          string          // err as the body spells it; empty: as usual
	id            protocol.ID     // where it could be read
	header, value string          // one more header, none if empty

	// The following is for the operator alone.
	cause     error              // why; nil: what the client is told says it all
	principal protocol.Principal // who was refused for want of room
}

// badRequestFault is the fault of a client that does not keep to the protocol.
func badRequestFault(reason event.RefusalReason, format string, args ...any) *fault {
	return &fault{status: http.StatusBadRequest, reason: reason,
		err: protocol.Errorf(protocol.CodeInvalidRequest, format, args...)}
}

// busyFault is the fault of a client that comes at a bad time, and may come again.
// limit is the bound that was reached, if there is one.
func busyFault(status int, reason event.RefusalReason, limit quota.Limit,
	retryAfter time.Duration, why string) *fault {
	seconds := retrySeconds(retryAfter)
	return &fault{status: status, reason: reason, header: "Retry-After", value: seconds,
		err: quota.Refuse(limit, retryAfter, "%s; try again in %ss", why, seconds)}
}

// retrySeconds returns the value of a Retry-After header.
func retrySeconds(after time.Duration) string {
	return strconv.FormatInt(int64((after+time.Second-1)/time.Second), 10)
}

// statusOf returns the status of a response in JSON. It tells proxies and clients of the other era
// whether the request was one of this protocol.
func (h *Handler) statusOf(admitted *server.Admission, response *protocol.Response) int {
	if response.Error == nil {
		return http.StatusOK
	}
	e := response.Error
	switch {
	case e.Code == protocol.CodeMissingRequiredClientCapability:
		return http.StatusBadRequest
	case admitted.Request().Refusal() == nil:
		return http.StatusOK
	case e.Code == protocol.CodeMethodNotFound:
		return http.StatusNotFound
	}
	return http.StatusBadRequest
}
