package main

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// officialUpstream asks while its tool runs.
func officialUpstream() http.Handler {
	srv := officialServer()
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil)
}

func officialServer() *mcp.Server {
	srv := mcp.NewServer(&mcp.Implementation{Name: "official", Version: "1.0.0"}, nil)
	mcp.AddTool(srv, &mcp.Tool{Name: "deploy", Description: "Deploys to an environment."},
		func(ctx context.Context, req *mcp.CallToolRequest,
			in Deploy) (*mcp.CallToolResult, any, error) {
			answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{
				Message:         "Deploy to " + in.Env + "?",
				RequestedSchema: json.RawMessage(`{"type":"object","properties":{"reason":{"type":"string","minLength":3}},"required":["reason"]}`),
			})
			if err != nil {
				return nil, nil, err
			}
			said := "left " + in.Env + " alone"
			if reason, ok := answer.Content["reason"].(string); ok && answer.Action == "accept" {
				said = "deployed to " + in.Env + ": " + reason
			}
			return &mcp.CallToolResult{
				Content: []mcp.Content{&mcp.TextContent{Text: said}}}, nil, nil
		})
	return srv
}

// Deploy is the input of the tool deploy.
type Deploy struct {
	Env string `json:"env"`
}

// Region is what the tool database asks for.
type Region struct {
	Name string `json:"name" title:"Region" enum:"eu,us"`
}

var region = roundtrip.MustQuestion[Region]("region")

// Database is the input of the tool database.
type Database struct {
	Name string `json:"name"`
}

// rondoUpstream is written once, for clients of either era.
func rondoUpstream() (http.Handler, error) {
	srv, err := server.New(
		&server.Options{Info: protocol.Implementation{Name: "rondo", Version: "1.0.0"}})
	if err != nil {
		return nil, err
	}
	server.AddTool(srv, server.Tool{Name: "database", Description: "Makes a database."},
		func(ctx context.Context, _ *server.ToolCall,
			in Database) (protocol.CallToolOutcome, error) {
			where, ok := region.AcceptedContent(ctx)
			if !ok {
				return roundtrip.InputRequired(
					region.Elicit("Which region for " + in.Name + "?")), nil
			}
			return server.Text("made " + in.Name + " in " + where.Name), nil
		})
	return serverhttp.New(srv, nil)
}
