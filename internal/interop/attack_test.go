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
	"github.com/rondo-mcp/rondo/internal/testing/proctest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted/gosdk"
	"github.com/rondo-mcp/rondo/server/hosted/mcpgo"
)

// TestSurveyOfSDKServers: what mcpattack says of tools on both SDKs, one that deletes whatever is
// answered, and one that deletes after an accept alone; as they are, and with rondo in front. They
// run as processes, since some wait for good for an answer that their SDK could not read.
func TestSurveyOfSDKServers(t *testing.T) {
	for _, test := range []struct {
		server string
		want   []string // rows, with one space between cells
	}{
		{"go-sdk", []string{
			"2025-11-25 open 1 result OPEN OPEN OPEN OPEN - kept",
			"2025-11-25 strict 1 result ok ok ok ok - kept",
		}},
		{"go-sdk with rondo", []string{
			"2026-07-28 strict 1 result ok ok ok ok ok kept",
			"2025-11-25 strict 1 result ok ok ok ok - kept",
		}},
		// The SDK holds no answer against the form that it asked for.
		{"mcp-go", []string{
			"2025-11-25 open 1 result OPEN OPEN OPEN OPEN - kept",
			"2025-11-25 strict 1 result ok ok OPEN ok - kept",
		}},
		{"mcp-go with rondo", []string{
			"2026-07-28 strict 1 result ok ok ok ok ok kept",
			"2025-11-25 strict 1 result ok ok ok ok - kept",
		}},
	} {
		t.Run(test.server, func(t *testing.T) {
			t.Parallel()
			rows := surveyProcess(t, test.server)
			for _, want := range test.want {
				if !slices.Contains(rows, want) {
					t.Errorf("no row %q", want)
				}
			}
		})
	}
}

// surveyProcess returns the rows of the table about a server that serveSurveyed knows.
func surveyProcess(t *testing.T, name string) (rows []string) {
	t.Helper()
	connect := func(string) (protocol.Peer, error) {
		return client.Command(proctest.Self(t, asSurveyed+"="+name),
			&client.CommandOptions{Grace: time.Millisecond}) // some hang, and nothing is lost
	}
	return surveyRows(t, connect, attack.ToolCall{Name: "open", Arguments: json.RawMessage(`{}`)},
		attack.ToolCall{Name: "strict", Arguments: json.RawMessage(`{}`)})
}

// surveyRows returns the rows of the table about the tools, with one space between cells.
func surveyRows(t *testing.T, connect func(user string) (protocol.Peer, error),
	tools ...attack.ToolCall) (rows []string) {
	t.Helper()
	survey := &attack.Survey{Timeout: patience, Target: &attack.Target{Connect: connect}}
	report, err := survey.Report(tools)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := report.Print(&out); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", out.String())
	for line := range strings.Lines(out.String()) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	return rows
}

// serveSurveyed serves one of the servers of TestSurveyOfSDKServers over standard input and output.
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
