package server_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// Every request gets one encodable response with its id, without panics and server bugs.
func FuzzHandle(f *testing.F) {
	seen := &events{}
	s, err := server.New(&server.Options{Observer: seen})
	noError(f, err)
	server.AddTool(s, server.Tool{Name: "deploy"}, deploy)
	server.AddRawTool(s, server.Tool{Name: "cold", AcceptUnsolicited: true}, asksCount)
	server.AddPrompt(s, server.Prompt{Name: "p",
		Arguments: []protocol.PromptArgument{{Name: "a", Required: true}}}, getNothing)
	server.AddResourceTemplate(s, server.ResourceTemplate{URITemplate: "x:{a}/{+b}", Name: "x"},
		tells("x"))

	asked, err := s.Handle(f.Context(), benchRequest(protocol.MethodCallTool, `,"name":"deploy","arguments":{"env":"prod"}`), nil)
	if err != nil || asked.Error != nil {
		f.Fatal(err, asked.Error)
	}
	result, err := protocol.DecodeResult(protocol.Latest, protocol.MethodCallTool, asked.Result)
	noError(f, err)
	seeds := []*protocol.Request{
		benchRetry(result),
		benchRequest(protocol.MethodCallTool, `,"name":"deploy","arguments":{"env":"prod"}`),
		benchRequest(protocol.MethodCallTool, `,"name":"cold","inputResponses":{"n":{"action":"accept","content":{"n":1}}}`),
		benchRequest(protocol.MethodGetPrompt, `,"name":"p","arguments":{"a":"b"}`),
		benchRequest(protocol.MethodReadResource, `,"uri":"x:%20/b"`),
		benchRequest(protocol.MethodListTools, `,"cursor":"x"`),
		benchRequest(protocol.MethodDiscover, ""),
		{Method: protocol.MethodInitialize,
			Params: json.RawMessage(`{"protocolVersion":"2025-11-25"}`)},
	}
	for _, seed := range seeds {
		if len(seed.Params) == 0 || seed.Method == "" {
			f.Fatal("empty seed")
		}
		f.Add(seed.Method, []byte(seed.Params))
	}
	f.Fuzz(func(t *testing.T, method string, params []byte) {
		if method == protocol.MethodListen {
			return // a subscription is answered only when it is over
		}
		req := &protocol.Request{ID: protocol.StringID("id"), Method: method, Params: params}
		response, err := s.Handle(context.Background(), req, nil)
		if err != nil || response == nil || response.ID != req.ID {
			t.Fatalf("Handle = %v, %v", response, err)
		}
		if _, err := protocol.AppendMessage(nil, response); err != nil {
			t.Fatalf("the response cannot be sent: %v", err)
		}
		if response.Error == nil {
			if _, err := protocol.DecodeResult(protocol.Latest, method,
				response.Result); err != nil {
				t.Fatalf("the result cannot be read: %v: %s", err, response.Result)
			}
		}
		if seen.panicked() || seen.bugs() != "" {
			t.Fatalf("the server is to blame: %s", seen.bugs())
		}
	})
}

// The values of a match expand to the same URI.
func FuzzTemplates(f *testing.F) {
	h := struct{ variables map[string]string }{}
	s, err := server.New(&server.Options{Roundtrip: roundtrip.Options{Audience: "fuzz"}})
	noError(f, err)
	server.AddResourceTemplate(s, server.ResourceTemplate{URITemplate: "x:{a}/{+b}", Name: "x"},
		func(_ context.Context, c *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
			h.variables = c.Variables
			return &protocol.ReadResourceResult{}, nil
		})
	for _, seed := range []string{"x:a/b", "x:%41/%2F..", "x:ü/b/c?d#e", "x:/b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		raw, err := json.Marshal(uri)
		if err != nil || !utf8.ValidString(uri) {
			return // such a URI never arrives
		}
		h.variables = nil
		if _, err := s.Handle(t.Context(),
			benchRequest(protocol.MethodReadResource, `,"uri":`+string(raw)), nil); err != nil {
			t.Fatal(err)
		}
		if h.variables == nil {
			return
		}
		if h.variables["a"] == "" || h.variables["b"] == "" || !strings.HasPrefix(uri, "x:") {
			t.Errorf("%q matches with %q", uri, h.variables)
		}
		if !strings.Contains(uri, "%") && uri != "x:"+h.variables["a"]+"/"+h.variables["b"] {
			t.Errorf("%q matches with %q, which do not make it up", uri, h.variables)
		}
	})
}
