package interop_test

import (
	"context"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// This file has handlers of subject_test.go as straight-line code.

func straightWizard(ctx context.Context,
	_ *server.ToolCall) (protocol.CallToolOutcome, error) {
	region, err := where.Ask(ctx, "Which region?")
	if err != nil {
		return nil, err
	}
	saw, err := roundtrip.Memo(ctx, "saw", func(context.Context) (string, error) {
		return "saw " + region.Name, nil
	})
	if err != nil {
		return nil, err
	}
	size, err := howBig.Ask(ctx, "How big in "+region.Name+"?")
	if err != nil {
		return nil, err
	}
	who, err := whom.Ask(ctx, "Who is told?")
	if err != nil {
		return nil, err
	}
	return server.Text(fmt.Sprintf("%d cores in %s for %s, %s", size.Cores, region.Name, who.Email,
		saw)), nil
}

func straightProvision(ctx context.Context, _ *server.ToolCall, _ struct{}) (database, error) {
	// Code that chooses options by a condition passes nil.
	region, err := where.Ask(ctx, "Which region?", nil, roundtrip.Reworded(), nil)
	return database{Region: region.Name}, err
}

func straightSummarize(ctx context.Context,
	_ *server.ToolCall) (protocol.CallToolOutcome, error) {
	said, err := roundtrip.AskMessage(ctx, "summary", servertest.Sampling())
	if err != nil {
		return nil, err
	}
	return server.Text(said.Model + " says: " + textOf(said.Content)), nil
}

func straightTidy(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
	roots, err := roundtrip.AskRoots(ctx, "dirs")
	if err != nil {
		return nil, err
	}
	return server.Text("tidied " + uris(roots)), nil
}

func straightVault(ctx context.Context,
	call *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
	why, err := confirm.Ask(ctx, "Open "+call.URI+"?")
	if err != nil {
		return nil, err
	}
	return &protocol.ReadResourceResult{
		Contents: []protocol.ResourceContents{{Text: "opened: " + why.Reason}}}, nil
}
