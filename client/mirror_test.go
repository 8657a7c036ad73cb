package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// sqlServer has a tool on page 2 that mirrors its region. It refuses calls without the header.
func sqlServer(t *testing.T, annotation string) *fakePeer {
	page := func(tool, schema, cursor string) string {
		return fmt.Sprintf(
			`{"resultType":"complete","tools":[{"name":%q,"inputSchema":%s}]%s,"ttlMs":0,"cacheScope":"private"}`,
			tool, schema, cursor,
		)
	}
	return answering(func(req *protocol.Request) (response, error) {
		resp := &protocol.Response{ID: req.ID}
		switch {
		case req.Method == "tools/list" && member(t, req, "cursor") == "":
			resp.Result = json.RawMessage(page("plain", `{"type":"object"}`, `,"nextCursor":"2"`))
		case req.Method == "tools/list":
			resp.Result = json.RawMessage(page("sql",
				`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":`+annotation+`}}}`,
				""))
		case len(req.Mirror.Params) == 1 &&
			req.Mirror.Params[0] == protocol.MirroredParam{Name: "Region", Value: "us"}:
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
	for _, test := range []struct {
		name   string
		listed bool
		args   any
		calls  int
		sent   string
	}{
		{"listed", true, args, 1, "tools/list tools/call"},
		{"never listed", false, args, 2, "tools/call tools/list tools/list tools/call tools/call"},
		// The list does not change the headers, so the call is not repeated.
		{"absent argument", false, nil, 1, "tools/call tools/list tools/list"},
	} {
		t.Run(test.name, func(t *testing.T) {
			peer := sqlServer(t, `"Region"`)
			c := newClient(t, peer, nil)
			if test.listed {
				_, err := c.ListTools(t.Context(), "2")
				noError(t, err)
			}
			for range test.calls {
				r, err := c.CallTool(t.Context(), "sql", test.args)
				if test.args != nil {
					wantDone(t, r, err)
				} else if e, ok := protocol.AsError(err); !ok ||
					e.Code != protocol.CodeHeaderMismatch {
					t.Errorf("got %v", err)
				}
			}
			wantEqual(t, "sent", methods(peer), test.sent)
		})
	}
}

type query struct {
	Region string `json:"region"`
	Query  string `json:"query"`
}

func addSQL(s *server.Server) {
	server.AddTool(s, server.Tool{
		Name: "sql", Description: "asks a database",
		InputSchema: json.RawMessage(
			`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"query":{"type":"string"}}}`,
		),
	}, func(_ context.Context, _ *server.ToolCall, in query) (protocol.CallToolOutcome, error) {
		return server.Text(in.Region), nil
	})
}

func TestMirroredArgumentsOverHTTP(t *testing.T) {
	for _, region := range []string{"us-west1", "", "  é\n", "=?base64?eA==?="} {
		for _, listed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%q listed %v", region, listed), func(t *testing.T) {
				s := newServer(t, nil)
				addSQL(s)
				var seen []string
				inner := servertest.NewHandler(t, s, nil)
				peer := dialHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					seen = append(seen, fmt.Sprintf("%s %q", r.Header.Get("Mcp-Method"),
						r.Header.Values("Mcp-Param-Region")))
					inner.ServeHTTP(w, r)
				}), nil)
				c := newClient(t, peer, &client.Options{Era: protocol.Modern})
				if listed {
					_, err := c.ListTools(t.Context(), "")
					noError(t, err)
				}
				for range 2 {
					r, err := c.CallTool(t.Context(), "sql", query{Region: region})
					if err != nil || r.Content[0].(*protocol.TextContent).Text != region {
						t.Fatalf("got %+v, %v", r, err)
					}
				}
				call := fmt.Sprintf("tools/call %q", []string{rules.EncodeValue(region)})
				want := []string{"tools/list []", call, call}
				if !listed {
					want = append([]string{"tools/call []"}, want...)
				}
				wantEqual(t, "headers", strings.Join(seen, ", "), strings.Join(want, ", "))
			})
		}
	}
}

func TestIntegersThatNoHeaderCanCarry(t *testing.T) {
	peer := script(
		`{"tools":[{"name":"t","inputSchema":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}]}`,
		done,
	)
	c := newClient(t, peer, nil)
	_, err := c.ListTools(t.Context(), "")
	noError(t, err)
	_, err = c.CallTool(t.Context(), "t", json.RawMessage(`{"n":9007199254740993}`))
	if err == nil || !strings.Contains(err.Error(), "argument n") || len(peer.requests()) != 1 {
		t.Errorf("got %v after %d requests", err, len(peer.requests()))
	}
}

func TestEndlessToolListEndsRelearning(t *testing.T) {
	peer := answering(func(req *protocol.Request) (response, error) {
		if req.Method == "tools/list" {
			return reply(req, `{"tools":[],"nextCursor":"again"}`)
		}
		return refuse(req, protocol.Errorf(protocol.CodeHeaderMismatch, "no"))
	})
	_, err := callOnce(t, peer, nil)
	if e, ok := protocol.AsError(err); !ok || e.Code != protocol.CodeHeaderMismatch ||
		len(peer.requests()) != 101 {
		t.Errorf("got %v after %d requests, want the first error after 101", err,
			len(peer.requests()))
	}
}

func TestInvalidAnnotationsHideTheTool(t *testing.T) {
	for _, annotation := range []string{`""`, `{}`, `[]`, `null`, `1`, `"a b"`, `"a:b"`,
		`"é"`, `"a\n"`} {
		t.Run(annotation, func(t *testing.T) {
			var rejected []error
			c := newClient(t, sqlServer(t, annotation),
				&client.Options{Warn: func(_ context.Context, err error) {
					rejected = append(rejected, err)
				}})
			r, err := c.ListTools(t.Context(), "2")
			if err != nil || len(r.Tools) != 0 || len(rejected) != 1 ||
				!strings.Contains(rejected[0].Error(), `tool "sql" is left out: `) {
				t.Errorf("got %+v, %v, rejected %q", r, err, rejected)
			}
		})
	}
}

func sqlTools(n int, more string) json.RawMessage {
	tools := make([]string, n)
	for i := range tools {
		tools[i] = fmt.Sprintf(
			`{"name":"sql%d","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}`,
			i,
		)
	}
	return json.RawMessage(`{"tools":[` + strings.Join(tools, ",") + `]` + more + `}`)
}

// To learn about one tool, the client reads the list up to that tool only.
func TestLearningStopsAtTheTool(t *testing.T) {
	peer := answering(func(req *protocol.Request) (response, error) {
		switch {
		case req.Method == protocol.MethodListTools:
			return &protocol.Response{ID: req.ID, Result: sqlTools(2, `,"nextCursor":"more"`)}, nil
		case len(req.Mirror.Params) == 0:
			return refuse(req, protocol.Errorf(protocol.CodeHeaderMismatch,
				"Mcp-Param-Region is missing"))
		}
		return reply(req, done)
	})
	r, err := newClient(t, peer, nil).CallTool(t.Context(), "sql1", map[string]any{"region": "us"})
	wantDone(t, r, err)
	wantEqual(t, "sent", methods(peer), "tools/call tools/list tools/call")
}

// A server cannot fill the memory of its clients with tools.
func TestMirrorsAreBounded(t *testing.T) {
	const limit, extra = 10_000, 5
	peer := answering(func(req *protocol.Request) (response, error) {
		if req.Method == protocol.MethodListTools {
			return &protocol.Response{ID: req.ID, Result: sqlTools(limit+extra, "")}, nil
		}
		return reply(req, done)
	})
	c := newClient(t, peer, nil)
	_, err := c.ListTools(t.Context(), "")
	noError(t, err)
	for i := range limit + extra {
		if _, err := c.CallTool(t.Context(), fmt.Sprintf("sql%d", i),
			json.RawMessage(`{"region":"us"}`)); err != nil {
			t.Fatal(err)
		}
	}
	mirrored := 0
	for _, req := range peer.requests() {
		mirrored += len(req.Mirror.Params)
	}
	wantEqual(t, "tools remembered", mirrored, limit)
}
