package server_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

func echoExtension(name, method string) server.Extension {
	return server.Extension{Name: name, Settings: json.RawMessage(`{"echoes":true}`),
		Methods: []server.ExtensionMethod{{Method: method, Target: "what",
			Handle: func(_ context.Context, call *server.ExtensionCall) (protocol.Result, error) {
				p := call.Params.(*protocol.ExtensionParams)
				return &protocol.ExtensionResult{Members: p.Members}, nil
			}}}}
}

func TestExtensionIsServedToThoseWhoDeclareIt(t *testing.T) {
	srv, err := server.New(nil)
	noError(t, err)
	defer srv.Close()
	server.AddExtension(srv, echoExtension("example.com/echo", "echo/echo"))
	for _, row := range []struct{ name, declared, want string }{
		{"declared", `,"extensions":{"example.com/echo":{}}`, `"what":"w","n":1`},
		{"not declared", ``, `"example.com/echo":{}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			id, _ := protocol.ParseID([]byte("1"))
			resp, err := srv.Handle(t.Context(), &protocol.Request{ID: id, Method: "echo/echo",
				Params: json.RawMessage(`{"what":"w","n":1,"resultType":"task","_meta":{` +
					`"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
					`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}` +
					row.declared + `}}}`)}, nil)
			noError(t, err)
			got := string(resp.Result)
			if resp.Error != nil {
				got = string(resp.Error.Data)
			}
			if !strings.Contains(got, row.want) || strings.Contains(got, `"task"`) {
				t.Errorf("got %s, %v", got, resp.Error)
			}
		})
	}
	session := srv.NewSession(protocol.LocalPrincipal(), nil)
	defer session.Close()
	if got := session.Admit(&protocol.Request{Method: "echo/echo"}, server.Delivery{}); got.
		Request().Refusal() == nil {
		t.Error("a session has the method")
	}
}

func TestExtensionsThatAreWrongPanic(t *testing.T) {
	for name, e := range map[string]server.Extension{
		"no name":       {},
		"taken":         echoExtension("example.com/taken", "other/echo"),
		"method taken":  echoExtension("example.com/other", "taken/echo"),
		"core method":   echoExtension("example.com/other", protocol.MethodCallTool),
		"settings":      {Name: "example.com/other", Settings: json.RawMessage(`[]`)},
		"no handler":    {Name: "example.com/other", Methods: []server.ExtensionMethod{{Method: "m"}}},
		"settings text": {Name: "example.com/other", Settings: json.RawMessage(`{`)},
	} {
		t.Run(name, func(t *testing.T) {
			srv, err := server.New(nil)
			noError(t, err)
			defer srv.Close()
			server.AddExtension(srv, echoExtension("example.com/taken", "taken/echo"))
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			server.AddExtension(srv, e)
		})
	}
}
