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

// An asker puts questions to the client of the request that its context comes
// from, and delivers progress to it. It is for one call.
type asker struct {
	server *server.MCPServer
	queued *queuedProgress // the last progress that was delivered, nil: none
}

var _ elicitation.ProgressDeliverer = (*asker)(nil)

// Ask implements [elicitation.Asker].
func (a *asker) Ask(ctx context.Context, q elicitation.Asked, _ func()) (json.RawMessage, error) {
	var params mcp.ElicitationParams
	if err := json.Unmarshal(q.Params, &params); err != nil { // the router's own bytes
		return nil, fmt.Errorf("elicitation: asking the client: %w", err)
	}
	if form, ok := q.Question.(*protocol.ElicitForm); ok && params.Mode != "" {
		params.RequestedSchema = form.Schema // as it came; older revisions have it spelled down
	}
	result, err := a.server.RequestElicitation(ctx, mcp.ElicitationRequest{Params: params})
	if err != nil {
		return nil, decodeError(server.ClientSessionFromContext(ctx), err)
	}
	if result == nil {
		return nil, errors.New("elicitation: asking the client: mcp-go returned no answer")
	}
	return json.Marshal(result)
}

// mcp-go passes a client's error on as text: over HTTP with its code, over lines
// without. What its sessions say of failures of their own reads otherwise.
var (
	httpError  = regexp.MustCompile(`^elicitation/create error (-?[0-9]+): (?s:(.*))$`)
	linesError = "elicitation request failed: "
)

// decodeError tells the client's own refusal from a failure to ask. The text is
// proof only in the errors of the two types of session that write it: that of any
// other, such as one of the host's, may quote what no upstream is to read, and
// counts only as a [*protocol.Error].
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

// sessionType is the name of the type of a session of mcp-go's, which it does not
// export, and "" of any other.
func sessionType(session server.ClientSession) string {
	t := reflect.TypeOf(session)
	if t == nil || t.Kind() != reflect.Pointer || t.Elem().PkgPath() != reflect.TypeFor[server.MCPServer]().PkgPath() {
		return ""
	}
	return t.Elem().Name()
}
