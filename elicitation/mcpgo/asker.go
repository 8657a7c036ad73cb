package mcpgo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

// An asker asks the client of the request that its context comes from, and delivers
// progress to it. It belongs to one call.
type asker struct {
	clients *Downstream
	server  *server.MCPServer
	// session is the client's where there is no request that the context comes from.
	session server.ClientSession
	over    <-chan struct{} // closed when the request ends, nil: there is none
	queued  *queuedProgress // the last progress that was delivered, nil: none
}

var _ elicitation.ProgressDeliverer = (*asker)(nil)

// Ask implements [elicitation.Asker].
func (a *asker) Ask(ctx context.Context, q elicitation.Question,
	_ func()) (json.RawMessage, error) {
	var params mcp.ElicitationParams
	if err := json.Unmarshal(q.Params, &params); err != nil { // the router's own bytes
		return nil, fmt.Errorf("elicitation: asking the client: %w", err)
	}
	if form, ok := q.Request.(*protocol.ElicitForm); ok && params.Mode != "" {
		params.RequestedSchema = form.Schema // as it came; older revisions have it spelled down
	}
	if a.session != nil {
		ctx = a.server.WithContext(ctx, a.session)
	} else if text := a.clients.cannotAsk(ctx); text != "" {
		return nil, protocol.Errorf(protocol.CodeCannotAsk, "%s", text)
	} else if a.clients.writesFor(ctx) {
		mark := a.clients.asks.mark(&params)
		defer func() { a.withdraw(ctx, a.clients.asks.forget(mark)) }()
	}
	result, err := a.server.RequestElicitation(ctx, mcp.ElicitationRequest{Params: params})
	if err != nil && isGarbled(server.ClientSessionFromContext(ctx), err) {
		return json.RawMessage("null"), nil // which the router counts as not valid
	}
	if err != nil {
		return nil, decodeError(server.ClientSessionFromContext(ctx), err)
	}
	if result == nil {
		return nil, errors.New("elicitation: asking the client: mcp-go returned no answer")
	}
	return json.Marshal(result)
}

// mcp-go returns a client's error as text: over HTTP with the code, over lines without.
// Its sessions' own errors have other texts.
var (
	httpError  = regexp.MustCompile(`^elicitation/create error (-?[0-9]+): (?s:(.*))$`)
	linesError = "elicitation request failed: "
	garbled    = "failed to unmarshal elicitation response: "
)

// decodeError distinguishes the client's own error from a failure to ask. It relies on the
// text only in errors of the two types of session that write it. Errors of others, such as
// a session of the host's, may quote secrets, and are the client's only if they are a
// [*protocol.Error].
func decodeError(session server.ClientSession, err error) error {
	switch sessionType(session) {
	case "streamableHttpSession":
		if parts := httpError.FindStringSubmatch(err.Error()); parts != nil {
			if code, parsed := strconv.ParseInt(parts[1], 10, 64); parsed == nil {
				return &protocol.Error{Code: code, Message: parts[2]}
			}
		}
	case "stdioSession":
		if text, ok := strings.CutPrefix(err.Error(), linesError); ok {
			return &protocol.Error{Code: protocol.CodeInternalError, Message: text}
		}
	}
	return fmt.Errorf("elicitation: asking the client: %w", err)
}

// isGarbled reports whether the client has answered with what mcp-go cannot decode.
func isGarbled(session server.ClientSession, err error) bool {
	return sessionType(session) != "" && strings.HasPrefix(err.Error(), garbled)
}

// sessionType returns the name of the unexported type of a session of mcp-go's, and "" for
// all other sessions.
func sessionType(session server.ClientSession) string {
	t := reflect.TypeOf(session)
	if t == nil || t.Kind() != reflect.Pointer ||
		t.Elem().PkgPath() != reflect.TypeFor[server.MCPServer]().PkgPath() {
		return ""
	}
	return t.Elem().Name()
}
