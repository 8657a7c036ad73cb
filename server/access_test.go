package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

func TestAccessPermitsWhatWasGrantedOrIsImplied(t *testing.T) {
	read := &server.Access{Scopes: []string{"files:read", "mail"}}
	prefix := &server.Access{Scopes: []string{"files"},
		Implies: func(have, need string) bool { return strings.HasPrefix(need, have+":") }}
	tests := []struct {
		name   string
		access *server.Access
		need   []string
		ok     bool
	}{
		{"granted", read, []string{"files:read"}, true},
		{"all granted", read, []string{"mail", "files:read"}, true},
		{"one of two granted", read, []string{"mail", "files:write"}, false},
		{"letter case", read, []string{"Mail"}, false},
		{"a part", read, []string{"files"}, false},
		{"nothing needed", read, nil, true},
		{"implied", prefix, []string{"files:read", "files"}, true},
		{"not implied", prefix, []string{"mail"}, false},
		{"no access", nil, []string{"mail"}, false},
		{"no access, nothing needed", nil, nil, true},
		{"empty access", &server.Access{}, []string{"mail"}, false},
		{"unlimited", server.UnlimitedAccess(), []string{"mail", "anything"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.access.Check(tt.need...)
			lack, isLack := errors.AsType[*server.ScopeError](err)
			switch {
			case (err == nil) != tt.ok:
				t.Errorf("got %v, want ok: %t", err, tt.ok)
			case err != nil && (!isLack || fmt.Sprint(lack.Need) != fmt.Sprint(tt.need)):
				t.Errorf("got %v, want an error that names all of %v", err, tt.need)
			}
		})
	}
}

func TestAScopeErrorIsWhatTheClientGets(t *testing.T) {
	err := fmt.Errorf("delete: %w",
		&server.ScopeError{Need: []string{"a", "b"}, Reason: "not yours"})
	wire, ok := protocol.AsError(err)
	if !ok || wire.Code != protocol.CodeInsufficientScope ||
		wire.Message != "insufficient scope: needs a b: not yours" ||
		string(wire.Data) != `{"scopes":["a","b"]}` {
		t.Errorf("got %+v", wire)
	}
	const text = "delete: server: insufficient scope: needs a b: not yours"
	wantEqual(t, "the result", err.Error(), text)
	wire, ok = protocol.AsError((*server.ScopeError)(nil))
	if !ok || wire.Message != "insufficient scope" || string(wire.Data) != `{"scopes":[]}` {
		t.Errorf("a nil one: got %+v", wire)
	}
}

func TestScopesThatNobodyCanGrantAreRefusedAtRegistration(t *testing.T) {
	srv, err := server.New(nil)
	noError(t, err)
	for _, scope := range []string{"", "a b", `"`, `a\b`, "ü", "a\n"} {
		t.Run(scope, func(t *testing.T) {
			bad := []string{"good", scope}
			wantPanic(t, "scopes", func() {
				server.AddRawTool(srv, server.Tool{Name: "t", Scopes: bad}, noTool)
			})
			wantPanic(t, "scopes", func() {
				server.AddPrompt(srv, server.Prompt{Name: "p", Scopes: bad}, noPrompt)
			})
			wantPanic(t, "scopes", func() {
				server.AddResource(srv, server.Resource{URI: "u:", Name: "r", Scopes: bad},
					noResource)
			})
			wantPanic(t, "scopes", func() {
				server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: "u:{x}",
					Name: "r", Scopes: bad}, noResource)
			})
		})
	}
}

func noTool(context.Context, *server.ToolCall) (toolOutcome, error) {
	return server.Text("done"), nil
}

func noPrompt(context.Context, *server.PromptCall) (protocol.GetPromptOutcome, error) {
	return nil, nil
}

func noResource(context.Context, *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
	return nil, nil
}

func newScoped(t *testing.T) *server.Server {
	t.Helper()
	srv, err := server.New(nil)
	noError(t, err)
	server.AddRawTool(srv, server.Tool{Name: "t", Scopes: []string{"write"}}, noTool)
	return srv
}

const callScoped = `{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":` +
	`"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}`

func TestAccessOfCallersInProcess(t *testing.T) {
	srv := newScoped(t)
	ann := server.WithPrincipal(t.Context(), protocol.Principal{Subject: "ann"})
	tests := []struct {
		name string
		ctx  context.Context
		ok   bool
	}{
		{"local", t.Context(), true},
		{"somebody", ann, false},
		{"nobody", server.WithPrincipal(t.Context(), protocol.Principal{}), false},
		{"somebody with the scope",
			server.WithAccess(ann, &server.Access{Scopes: []string{"write"}}), true},
		{"somebody without it",
			server.WithAccess(ann, &server.Access{Scopes: []string{"read"}}), false},
		{"somebody without limits", server.WithAccess(ann, server.UnlimitedAccess()), true},
		{"local with no access", server.WithAccess(t.Context(), nil), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			response, err := srv.Handle(tt.ctx, &protocol.Request{ID: protocol.IntID(1),
				Method: protocol.MethodCallTool, Params: []byte(callScoped)}, nil)
			noError(t, err)
			if ok := response.Error == nil; ok != tt.ok {
				t.Errorf("got the error %v, want ok: %t", response.Error, tt.ok)
			}
			if response.Error != nil && response.Error.Code != protocol.CodeInsufficientScope {
				t.Errorf("got %v", response.Error)
			}
		})
	}
}

func TestAccessOfCallersOnALineStream(t *testing.T) {
	modern := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + callScoped + "}\n"
	legacy := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":` +
		`"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}` + "\n"
	ann := protocol.Principal{Subject: "ann"}
	tests := []struct {
		name string
		opts *server.StreamOptions
		ok   bool
	}{
		{"standard input and output", nil, true},
		{"somebody", &server.StreamOptions{Principal: ann}, false},
		{"somebody with the scope", &server.StreamOptions{Principal: ann,
			Access: &server.Access{Scopes: []string{"write"}}}, true},
		{"local with less", &server.StreamOptions{Access: &server.Access{}}, false},
	}
	for _, tt := range tests {
		for era, in := range map[string]string{"2026-07-28": modern, "2025-11-25": legacy} {
			t.Run(tt.name+" "+era, func(t *testing.T) {
				var out bytes.Buffer
				err := newScoped(t).ServeStream(t.Context(), strings.NewReader(in), &out, tt.opts)
				noError(t, err)
				if ok := !strings.Contains(out.String(), `"code":23226`); ok != tt.ok {
					t.Errorf("got %s, want ok: %t", out.String(), tt.ok)
				}
			})
		}
	}
}

func ExampleTool_scopes() {
	srv, err := server.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	server.AddRawTool(srv, server.Tool{Name: "delete", Scopes: []string{"files:write"}},
		says("deleted"))
	call := func(a *server.Access) {
		ctx := server.WithAccess(context.Background(), a)
		response, err := srv.Handle(ctx, &protocol.Request{ID: protocol.IntID(1),
			Method: protocol.MethodCallTool, Params: []byte(`{"name":"delete",` +
				`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
				`"io.modelcontextprotocol/clientCapabilities":{}}}`)}, nil)
		if err != nil || response.Error != nil {
			fmt.Println(err, response.Error)
			return
		}
		fmt.Println("deleted")
	}
	call(&server.Access{Scopes: []string{"files:read"}})
	call(&server.Access{Scopes: []string{"files:read", "files:write"}})
	call(server.UnlimitedAccess())
	// Output:
	// <nil> insufficient scope: needs files:write (code 23226)
	// deleted
	// deleted
}

// A handler checks scopes that depend on the arguments itself.
func ExampleScopeError() {
	deleteFile := func(_ context.Context, call *server.ToolCall) (toolOutcome, error) {
		if err := call.Access.Check("files:write", "files:delete"); err != nil {
			return nil, err
		}
		return server.Text("deleted"), nil
	}
	call := &server.ToolCall{}
	call.Access = &server.Access{Scopes: []string{"files:write"}}
	_, err := deleteFile(context.Background(), call)
	fmt.Println(err)
	// Output: server: insufficient scope: needs files:write files:delete
}
