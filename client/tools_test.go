package client_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
)

// sqlTools returns the result of a list of n tools that mirror their region.
func sqlTools(n int, more string) json.RawMessage {
	tools := make([]string, n)
	for i := range tools {
		tools[i] = fmt.Sprintf(`{"name":"sql%d","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}`, i)
	}
	return json.RawMessage(`{"tools":[` + strings.Join(tools, ",") + `]` + more + `}`)
}

// To learn about one tool, the list is read as far as that tool and no further.
func TestLearningStopsAtTheTool(t *testing.T) {
	peer := answering(func(req *protocol.Request) (*protocol.Response, error) {
		switch {
		case req.Method == protocol.MethodListTools:
			return &protocol.Response{ID: req.ID, Result: sqlTools(2, `,"nextCursor":"more"`)}, nil
		case len(req.Mirror.Params) == 0:
			return &protocol.Response{ID: req.ID, Error: protocol.Errorf(protocol.CodeHeaderMismatch, "Mcp-Param-Region is missing")}, nil
		}
		return &protocol.Response{ID: req.ID, Result: json.RawMessage(done)}, nil
	})
	r, err := newClient(t, peer, nil).CallTool(t.Context(), "sql1", map[string]any{"region": "us"})
	wantDone(t, r, err)
	if got, want := methods(peer), "tools/call tools/list tools/call"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A server cannot fill the memory of its clients with tools.
func TestMirrorsAreBounded(t *testing.T) {
	const limit, extra = 10_000, 5
	peer := answering(func(req *protocol.Request) (*protocol.Response, error) {
		if req.Method == protocol.MethodListTools {
			return &protocol.Response{ID: req.ID, Result: sqlTools(limit+extra, "")}, nil
		}
		return &protocol.Response{ID: req.ID, Result: json.RawMessage(done)}, nil
	})
	c := newClient(t, peer, nil)
	if _, err := c.ListTools(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	for i := range limit + extra {
		if _, err := c.CallTool(t.Context(), fmt.Sprintf("sql%d", i), json.RawMessage(`{"region":"us"}`)); err != nil {
			t.Fatal(err)
		}
	}
	mirrored := 0
	for _, req := range peer.requests() {
		mirrored += len(req.Mirror.Params)
	}
	if mirrored != limit {
		t.Errorf("got %d tools remembered, want %d", mirrored, limit)
	}
}
