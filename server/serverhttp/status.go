package serverhttp

import (
	"net/http"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// A fault is the answer to what cannot be served as a request: a status and an
// error without id (basic/transports/streamable-http, "Sending Messages").
type fault struct {
	status        int
	err           *protocol.Error
	id            protocol.ID // where it could be read
	header, value string      // one more header, none if empty
}

// statusOf returns the status of a response that is sent as JSON. Clients read
// the body for what happened; the status tells proxies and clients of another
// era whether the request was taken as one of this protocol.
func statusOf(in *server.Incoming, response *protocol.Response) int {
	if response.Error == nil {
		return http.StatusOK
	}
	e := response.Error
	if in.DraftErrorCodes {
		e = e.Final()
	}
	switch {
	case e.Code == protocol.CodeMissingRequiredClientCapability:
		return http.StatusBadRequest
	case in.Refusal() == nil:
		return http.StatusOK
	case e.Code == protocol.CodeMethodNotFound:
		return http.StatusNotFound
	}
	return http.StatusBadRequest
}
