package main

import (
	"context"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// after is the same server with three lines changed: who asks, what is
// installed, and what serves.
func after(files *files) (http.Handler, error) {
	deleteFile := func(ctx context.Context, req *mcp.CallToolRequest,
		in deletion) (*mcp.CallToolResult, any, error) {
		answer, err := gosdk.Elicit(ctx, req.Session, sure(in.Name))
		if err != nil {
			return nil, nil, err
		}
		if answer.Action != "accept" {
			return text("kept " + in.Name), nil, nil
		}
		files.remove(in.Name)
		return text("deleted " + in.Name), nil, nil
	}

	server := mcp.NewServer(&mcp.Implementation{Name: "files", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "delete", Description: "Deletes a file."}, deleteFile)
	a, err := gosdk.New(nil)
	if err != nil {
		return nil, err
	}
	return a.Handler(func(*http.Request) *mcp.Server { return server }, nil)
}
