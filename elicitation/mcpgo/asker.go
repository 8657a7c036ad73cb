package mcpgo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

// An asker puts questions to the client of the request that its context comes
// from.
type asker struct{ server *server.MCPServer }

// Ask implements [elicitation.Asker].
func (a asker) Ask(ctx context.Context, q elicitation.Asked, _ func()) (json.RawMessage, error) {
	var params mcp.ElicitationParams
	if err := json.Unmarshal(q.Params, &params); err != nil { // the router's own bytes
		return nil, fmt.Errorf("elicitation: asking the client: %w", err)
	}
	if form, ok := q.Question.(*protocol.ElicitForm); ok && params.Mode != "" {
		params.RequestedSchema = form.Schema // as it came; older revisions have it spelled down
	}
	result, err := a.server.RequestElicitation(ctx, mcp.ElicitationRequest{Params: params})
	if err != nil {
		return nil, clientError(err)
	}
	if result == nil {
		return nil, errors.New("elicitation: asking the client: mcp-go returned no answer")
	}
	return json.Marshal(result)
}

// mcp-go passes a client's error on as text: over HTTP with its code, over lines
// without.
var (
	httpError  = regexp.MustCompile(`^elicitation/create error (-?[0-9]+): (?s:(.*))$`)
	linesError = "elicitation request failed: "
)

// clientError tells the client's own refusal from a failure to ask.
func clientError(err error) error {
	if parts := httpError.FindStringSubmatch(err.Error()); parts != nil {
		if code, parsed := strconv.ParseInt(parts[1], 10, 64); parsed == nil {
			return &protocol.Error{Code: code, Message: parts[2]}
		}
	}
	if text, ok := strings.CutPrefix(err.Error(), linesError); ok {
		return &protocol.Error{Code: protocol.CodeInternalError, Message: text}
	}
	return fmt.Errorf("elicitation: asking the client: %w", err)
}
