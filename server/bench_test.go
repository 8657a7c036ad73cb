package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

type deployInput struct {
	Env string `json:"env" jsonschema:"where to deploy to"`
}

var confirmDeploy = roundtrip.MustQuestion[confirmation]("confirm")

func deploy(ctx context.Context, _ *server.ToolCall, in deployInput) (toolOutcome, error) {
	if answer, ok := confirmDeploy.AcceptedContent(ctx); ok && answer.OK {
		return server.Text("deployed to " + in.Env), nil
	}
	return roundtrip.InputRequired(confirmDeploy.Elicit("Deploy to " + in.Env + "?")), nil
}

const benchMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`

func benchServer(b *testing.B) *server.Server {
	b.Helper()
	s, err := server.New(nil)
	noError(b, err)
	b.Cleanup(func() { s.Close() })
	server.AddTool(s, server.Tool{Name: "deploy", Description: "Deploys."}, deploy)
	server.AddTool(s, server.Tool{Name: "echo"},
		func(_ context.Context, _ *server.ToolCall, in deployInput) (toolOutcome, error) {
			return server.Text(in.Env), nil
		})
	server.AddToolOut(s, server.Tool{Name: "double"},
		func(_ context.Context, _ *server.ToolCall, in count) (count, error) {
			return count{2 * in.N}, nil
		})
	return s
}

func benchRequest(method, members string) *protocol.Request {
	return &protocol.Request{ID: protocol.IntID(1), Method: method,
		Params: json.RawMessage("{" + benchMeta + members + "}")}
}

func benchHandle(b *testing.B, s *server.Server, req *protocol.Request) *protocol.Response {
	response, err := s.Handle(b.Context(), req, nil)
	if err != nil || response.Error != nil {
		b.Fatal(err, response.Error)
	}
	return response
}

// BenchmarkTwoLegs is a whole flow of one question.
func BenchmarkTwoLegs(b *testing.B) {
	s := benchServer(b)
	first := benchRequest(protocol.MethodCallTool, `,"name":"deploy","arguments":{"env":"prod"}`)
	b.ReportAllocs()
	for b.Loop() {
		asked := benchHandle(b, s, first)
		result, err := protocol.DecodeResult(protocol.Latest, protocol.MethodCallTool, asked.Result)
		noError(b, err)
		benchHandle(b, s, benchRetry(result))
	}
}

func benchRetry(result protocol.Result) *protocol.Request {
	state, _ := result.(*protocol.InputRequiredResult).RequestState.Text()
	return benchRequest(protocol.MethodCallTool, `,"name":"deploy","arguments":{"env":"prod"},`+
		`"inputResponses":{"confirm":{"action":"accept","content":{"ok":true}}},"requestState":"`+state+`"`)
}

// BenchmarkLegs measures each leg by itself.
func BenchmarkLegs(b *testing.B) {
	s := benchServer(b)
	first := benchRequest(protocol.MethodCallTool, `,"name":"deploy","arguments":{"env":"prod"}`)
	asked, err := protocol.DecodeResult(protocol.Latest, protocol.MethodCallTool,
		benchHandle(b, s, first).Result)
	noError(b, err)
	for name, req := range map[string]*protocol.Request{"first": first,
		"retry": benchRetry(asked)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				benchHandle(b, s, req)
			}
		})
	}
}

func BenchmarkHandle(b *testing.B) {
	s := benchServer(b)
	for i := range 100 {
		server.AddTool(s, server.Tool{Name: fmt.Sprintf("tool-%d", i)}, deploy)
	}
	for name, req := range map[string]*protocol.Request{
		"call": benchRequest(protocol.MethodCallTool, `,"name":"echo","arguments":{"env":"prod"}`),
		"structured": benchRequest(protocol.MethodCallTool,
			`,"name":"double","arguments":{"n":21}`),
		"list":     benchRequest(protocol.MethodListTools, ""),
		"discover": benchRequest(protocol.MethodDiscover, ""),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				benchHandle(b, s, req)
			}
		})
	}
}
