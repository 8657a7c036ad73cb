package main

import (
	"context"
	"encoding/json"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

func addResources(srv *server.Server) {
	for _, r := range []server.Resource{
		{URI: "test://static-text", Name: "Static text", Description: "Text that never changes.",
			MIMEType: "text/plain"},
		{URI: "test://example-resource", Name: "Example", Description: "Text for prompts to embed.",
			MIMEType: "text/plain"},
	} {
		server.AddResource(srv, r, readStaticText)
	}
	server.AddResource(srv, server.Resource{
		URI: "test://static-binary", Name: "Static image",
		Description: "A picture that never changes.", MIMEType: "image/png",
	}, readPicture)
	server.AddResourceTemplate(srv, server.ResourceTemplate{
		URITemplate: "test://template/{id}/data", Name: "Data by id",
		Description: "A record for every id.", MIMEType: "application/json",
	}, readTemplate)
}

// readText returns a text that never changes.
func readText(uri string) (protocol.ResourceContents, error) {
	contents := protocol.ResourceContents{URI: uri, MIMEType: "text/plain"}
	switch uri {
	case "test://static-text":
		contents.Text = "This is the content of the static text resource."
	case "test://example-resource":
		contents.Text = "Embedded resource content for testing."
	default:
		return contents, protocol.ResourceNotFound(uri)
	}
	return contents, nil
}

func readStaticText(_ context.Context,
	call *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
	contents, err := readText(call.URI)
	if err != nil {
		return nil, err
	}
	return &protocol.ReadResourceResult{Contents: []protocol.ResourceContents{contents}}, nil
}

func readPicture(context.Context, *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
	return &protocol.ReadResourceResult{
		Contents: []protocol.ResourceContents{{MIMEType: "image/png", Blob: picturePNG}}}, nil
}

// readTemplate finds what the client put for {id} among the variables. It may
// be anything, so it is encoded and not pasted.
func readTemplate(_ context.Context,
	call *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
	text, err := json.Marshal(map[string]any{"id": call.Variables["id"], "data": "Data for this id",
		"templateTest": true})
	if err != nil {
		return nil, err
	}
	return &protocol.ReadResourceResult{
		Contents: []protocol.ResourceContents{{MIMEType: "application/json", Text: string(text)}},
	}, nil
}
