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

// A fault is the refusal of an HTTP request: a status and an error
// (basic/transports/streamable-http, "Sending Messages").
type fault struct {
	status        int
	reason        event.RefusalReason
	err           *protocol.Error // for the client
	text          string          // the encoded err; may be empty
	id            protocol.ID     // if readable
	header, value string          // an additional header, if value is not empty

	// The following is for the operator only.
	cause     error              // nil if err says everything
	principal protocol.Principal // the principal that exceeded a limit
}

func badRequestFault(reason event.RefusalReason, format string, args ...any) *fault {
	return &fault{status: http.StatusBadRequest, reason: reason,
		err: protocol.Errorf(protocol.CodeInvalidRequest, format, args...)}
}

// busyFault is the fault for a client that should retry later. limit is the exceeded limit, if any.
func busyFault(status int, reason event.RefusalReason, limit quota.Limit,
	retryAfter time.Duration, why string) *fault {
	seconds := retrySeconds(retryAfter)
	return &fault{status: status, reason: reason, header: "Retry-After", value: seconds,
		err: quota.Refuse(limit, retryAfter, "%s; try again in %ss", why, seconds)}
}

func retrySeconds(after time.Duration) string {
	return strconv.FormatInt(int64((after+time.Second-1)/time.Second), 10)
}

// statusOf returns the status of a JSON response. By it, proxies and clients of the other era
// recognize requests of this protocol.
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
