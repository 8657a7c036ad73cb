package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// sqlServer has one tool that mirrors its region, on the second page of its
// list, and refuses calls without the header.
func sqlServer(t *testing.T, annotation string) *fakePeer {
	page := func(tool, schema, cursor string) string {
		return fmt.Sprintf(`{"resultType":"complete","tools":[{"name":%q,"inputSchema":%s}]%s,"ttlMs":0,"cacheScope":"private"}`, tool, schema, cursor)
	}
	return answering(func(req *protocol.Request) (*protocol.Response, error) {
		resp := &protocol.Response{ID: req.ID}
		switch {
		case req.Method == "tools/list" && member(t, req, "cursor") == "":
			resp.Result = json.RawMessage(page("plain", `{"type":"object"}`, `,"nextCursor":"2"`))
		case req.Method == "tools/list":
			resp.Result = json.RawMessage(page("sql", `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":`+annotation+`}}}`, ""))
		case len(req.Mirror.Params) == 1 && req.Mirror.Params[0] == protocol.MirroredParam{Name: "Region", Value: "us"}:
			resp.Result = json.RawMessage(done)
		default:
			resp.Error = protocol.Errorf(protocol.CodeHeaderMismatch, "Mcp-Param-Region is missing")
		}
		return resp, nil
	})
}

func methods(peer *fakePeer) string {
	var list []string
	ids := map[protocol.ID]bool{}
	for _, req := range peer.requests() {
		list = append(list, req.Method)
		if ids[req.ID] {
			list = append(list, "(id used twice)")
		}
		ids[req.ID] = true
	}
	return strings.Join(list, " ")
}

func TestMirroredArguments(t *testing.T) {
	args := map[string]any{"region": "us", "query": "x"}
	t.Run("listed", func(t *testing.T) {
		peer := sqlServer(t, `"Region"`)
		c := newClient(t, peer, nil)
		if _, err := c.ListTools(t.Context(), "2"); err != nil {
			t.Fatal(err)
		}
		r, err := c.CallTool(t.Context(), "sql", args)
		wantDone(t, r, err)
		if got, want := methods(peer), "tools/list tools/call"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("never listed", func(t *testing.T) {
		peer := sqlServer(t, `"Region"`)
		c := newClient(t, peer, nil)
		for range 2 {
			r, err := c.CallTool(t.Context(), "sql", args)
			wantDone(t, r, err)
		}
		if got, want := methods(peer), "tools/call tools/list tools/list tools/call tools/call"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("absent argument", func(t *testing.T) {
		peer := sqlServer(t, `"Region"`)
		_, err := newClient(t, peer, nil).CallTool(t.Context(), "sql", nil)
		if e, ok := protocol.AsError(err); !ok || e.Code != protocol.CodeHeaderMismatch {
			t.Errorf("got %v", err)
		}
		// The list changes nothing about the headers, so nothing is repeated.
		if got, want := methods(peer), "tools/call tools/list tools/list"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestEndlessToolListEndsRelearning(t *testing.T) {
	peer := answering(func(req *protocol.Request) (*protocol.Response, error) {
		if req.Method == "tools/list" {
			return &protocol.Response{ID: req.ID, Result: json.RawMessage(`{"tools":[],"nextCursor":"again"}`)}, nil
		}
		return &protocol.Response{ID: req.ID, Error: protocol.Errorf(protocol.CodeHeaderMismatch, "no")}, nil
	})
	_, err := callOnce(t, peer, nil)
	if e, ok := protocol.AsError(err); !ok || e.Code != protocol.CodeHeaderMismatch || len(peer.requests()) != 101 {
		t.Errorf("got %v after %d requests, want the first error after 101", err, len(peer.requests()))
	}
}

func TestInvalidAnnotationsHideTheTool(t *testing.T) {
	for _, annotation := range []string{`""`, `{}`, `[]`, `null`, `1`, `"a b"`, `"a:b"`, `"é"`, `"a\n"`} {
		t.Run(annotation, func(t *testing.T) {
			var rejected []string
			c := newClient(t, sqlServer(t, annotation), &client.Options{ToolRejected: func(_ context.Context, tool *protocol.Tool, err error) {
				rejected = append(rejected, tool.Name)
				if err == nil {
					t.Error("no reason given")
				}
			}})
			r, err := c.ListTools(t.Context(), "2")
			if err != nil || len(r.Tools) != 0 || len(rejected) != 1 || rejected[0] != "sql" {
				t.Errorf("got %+v, %v, rejected %q", r, err, rejected)
			}
		})
	}
}
