package interop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	mcpgomcp "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/attack"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted/gosdk"
	"github.com/rondo-mcp/rondo/server/hosted/mcpgo"
)

// TestAttacksOnSDKServers checks mcpattack's findings in tools on both SDKs: one deletes whatever
// the answer is, the other only after an acceptance. They run alone and behind rondo. They are
// processes, because some wait for ever for an answer that their SDK could not read.
func TestAttacksOnSDKServers(t *testing.T) {
	anything := []string{"no answer", "a decline", "a decline at once", "a cancel", "null", "{}",
		`"accept"`, "objects as values", "the action accepted", "a client that cannot be asked"}
	// The SDK does not validate answers against the form.
	unchecked := []string{"objects as values"}
	both := []protocol.Era{protocol.Modern, protocol.Legacy}
	for _, test := range []struct {
		server, tool string
		eras         []protocol.Era
		open         []string
	}{
		{"go-sdk", "open", both[1:], anything},
		{"go-sdk", "strict", both[1:], nil},
		{"go-sdk with rondo", "strict", both, nil},
		{"mcp-go", "open", both[1:], anything},
		{"mcp-go", "strict", both[1:], unchecked},
		{"mcp-go with rondo", "strict", both, nil},
	} {
		t.Run(test.server+" "+test.tool, func(t *testing.T) {
			t.Parallel()
			for _, era := range test.eras {
				connect := func(string) (protocol.Peer, error) {
					return client.Command(servertest.Self(t, asSurveyed+"="+test.server),
						&client.CommandOptions{Grace: time.Millisecond}) // some servers hang
				}
				v := judgeTool(t, era, test.tool, json.RawMessage(`{}`), connect)
				var open []string
				for _, what := range v.Open {
					what, _, _ = strings.Cut(what, " to ")
					open = append(open, what)
				}
				if v.Asks != 1 || !v.Complete || !slices.Equal(open, test.open) {
					t.Errorf("%s: %+v", era, v)
				}
			}
		})
	}
}

func judgeTool(t *testing.T, era protocol.Era, tool string, arguments json.RawMessage,
	connect func(user string) (protocol.Peer, error)) *attack.Verdict {
	t.Helper()
	target := &attack.Target{Timeout: patience, Connect: connect}
	v, err := target.Judge(era, attack.Request{Method: protocol.MethodCallTool, Target: tool,
		Arguments: arguments})
	noError(t, err)
	t.Logf("%s %s: %+v", era, tool, v)
	return v
}

// serveSurveyed serves a server of TestAttacksOnSDKServers on standard input and output.
func serveSurveyed(ctx context.Context, name string) error {
	switch name {
	case "go-sdk":
		return newSurveyedGoSDK().Run(ctx, &mcp.StdioTransport{})
	case "go-sdk with rondo":
		front, err := gosdk.New(newSurveyedGoSDK(), nil)
		if err != nil {
			return err
		}
		return front.Server().ServeStdio(ctx)
	case "mcp-go":
		return mcpgoserver.ServeStdio(newSurveyedMCPGo())
	case "mcp-go with rondo":
		front, err := mcpgo.New(newSurveyedMCPGo(), nil)
		if err != nil {
			return err
		}
		return front.Server().ServeStdio(ctx)
	}
	return fmt.Errorf("there is no server %q", name)
}

func newSurveyedGoSDK() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "surveyed", Version: "1.0.0"}, nil)
	add := func(name string, needsAccept bool) {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Mode: "form",
					Message: "Delete it?", RequestedSchema: json.RawMessage(confirmSchema)})
				if needsAccept && (err != nil || answer.Action != "accept") {
					return &mcp.CallToolResult{IsError: true}, nil
				}
				return &mcp.CallToolResult{Content: []mcp.Content{
					&mcp.TextContent{Text: "deleted"}}}, nil
			})
	}
	add("open", false)
	add("strict", true)
	return s
}

func newSurveyedMCPGo() *mcpgoserver.MCPServer {
	s := mcpgoserver.NewMCPServer("surveyed", "1.0.0", mcpgoserver.WithElicitation())
	add := func(name string, needsAccept bool) {
		s.AddTool(mcpgomcp.NewTool(name), func(ctx context.Context,
			_ mcpgomcp.CallToolRequest) (*mcpgomcp.CallToolResult, error) {
			answer, err := s.RequestElicitation(ctx, mcpgomcp.ElicitationRequest{
				Params: mcpgomcp.ElicitationParams{Message: "Delete it?",
					RequestedSchema: json.RawMessage(confirmSchema)}})
			if needsAccept && (err != nil ||
				answer.Action != mcpgomcp.ElicitationResponseActionAccept) {
				return mcpgomcp.NewToolResultError("left alone"), nil
			}
			return mcpgomcp.NewToolResultText("deleted"), nil
		})
	}
	add("open", false)
	add("strict", true)
	return s
}
