package upstream

// This file converts between the types of an SDK, which are JSON for the most part, and the
// router's.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// Convert converts a value by its JSON.
func Convert[To any](from any) (to To, err error) {
	data, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(data, &to)
	}
	return to, err
}

// DecodeCapabilities converts the capabilities that a client declares.
func DecodeCapabilities(declared any) (caps protocol.ClientCapabilities, err error) {
	data, err := json.Marshal(declared)
	if err == nil {
		caps, err = protocol.DecodeClientCapabilities(data)
	}
	if err != nil {
		return caps, fmt.Errorf("elicitation call: the client's capabilities: %w", err)
	}
	return caps, nil
}

// DecodeToken returns the progress token of a request, zero for none. The SDKs do not check its
// type; one of another type than string or number counts as none.
func DecodeToken(token any) protocol.ProgressToken {
	data, err := json.Marshal(token)
	if err != nil {
		return protocol.ProgressToken{}
	}
	decoded, err := protocol.ParseID(data)
	if err != nil {
		return protocol.ProgressToken{}
	}
	return decoded
}

// DecodeCompletion returns the id in a notification of the router, which is that a visit is
// finished.
func DecodeCompletion(m protocol.Message) (id string, err error) {
	n, ok := m.(*protocol.Notification)
	if !ok || n.Method != protocol.NotifyElicitationCompleted {
		return "", fmt.Errorf("elicitation: a %T cannot be sent outside of a request", m)
	}
	var params protocol.ElicitationCompleted
	err = json.Unmarshal(n.Params, &params) // the router's own bytes
	return params.ElicitationID, err
}

// ExtendQuestion reports whether progress of a client was on a question of the session, whose
// timeout it extends. from is who has sent it, zero: whose session it is.
func ExtendQuestion(router *elicitation.Router, session *elicitation.Session,
	from protocol.Principal, params any) bool {
	data, err := json.Marshal(params)
	if err != nil {
		return false
	}
	sender := session.Sender()
	if !from.Anonymous() {
		sender.Principal = from
	}
	n := &protocol.Notification{Method: protocol.NotifyProgress, Params: data}
	return router.HandleProgress(sender, n) != elicitation.Unknown
}

// A MessageHead is what is known of the JSON-RPC message in a request over HTTP. Its zero value
// stands for any other request.
type MessageHead struct {
	Method string
	ID     []byte // JSON, nil: a notification
}

// IsRequest reports whether the message is one.
func (h MessageHead) IsRequest() bool { return h.Method != "" && h.ID != nil }

// IsResponse reports whether the message is one.
func (h MessageHead) IsResponse() bool { return h.Method == "" && h.ID != nil }

// ReadHead reads a copy of the body of a request. getBody is that of an http.Request, nil: it has
// no body.
func ReadHead(getBody func() (io.ReadCloser, error)) (head MessageHead) {
	if getBody == nil {
		return head
	}
	body, err := getBody()
	if err != nil {
		return head
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		return head
	}
	err = jsonx.CheckMembers(data, func(key, value []byte) error {
		switch string(key) {
		case "id":
			head.ID = bytes.TrimSpace(value)
		case "method":
			return json.Unmarshal(value, &head.Method)
		}
		return nil
	})
	if err != nil {
		return MessageHead{}
	}
	return head
}
