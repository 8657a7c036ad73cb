package main

import (
	"context"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// before is a server as there are many. Its guard pushes a question down the
// session and waits for the answer.
func before(files *files) http.Handler {
	deleteFile := func(ctx context.Context, req *mcp.CallToolRequest,
		in deletion) (*mcp.CallToolResult, any, error) {
		answer, err := req.Session.Elicit(ctx, sure(in.Name))
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

	// Without Stateless the SDK refuses revision 2026-07-28; with it, nobody can
	// be asked, because there is no session left to push to.
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true})
}
