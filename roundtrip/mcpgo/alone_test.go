package mcpgo_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// newAskless returns a server whose handlers ask nothing.
func newAskless() *server.MCPServer {
	s := newHostServer(server.WithCompletions(), server.WithLogging(),
		server.WithInstructions("Ask me nothing."), server.WithPromptCompletionProvider(words{}))
	for name, handle := range asklessTools() {
		s.AddTool(mcp.NewTool(name, mcp.WithDescription("Says <hello>."), mcp.WithString("name")),
			handle)
	}
	s.AddPrompt(mcp.NewPrompt("brief", mcp.WithArgument("topic")),
		func(_ context.Context, r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			if err := failureOf(r.Params.Arguments["topic"]); err != nil {
				return nil, err
			}
			return briefed(r.Params.Arguments["topic"]), nil
		})
	read := func(_ context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		_, name, _ := strings.Cut(r.Params.URI, "://")
		if err := failureOf(strings.TrimPrefix(name, "box/")); err != nil {
			return nil, err
		}
		return []mcp.ResourceContents{
			mcp.TextResourceContents{URI: r.Params.URI, MIMEType: "text/plain",
				Text: "1 < 2 & é\u2028"},
			mcp.BlobResourceContents{URI: r.Params.URI, Blob: "AAE="}}, nil
	}
	for _, name := range []string{"codes", "wrapped", "marked", "visit"} {
		s.AddResource(mcp.NewResource("vault://"+name, name), read)
	}
	s.AddResourceTemplate(mcp.NewResourceTemplate("vault://box/{box}", "box"), read)
	return s
}

func asklessTools() map[string]server.ToolHandlerFunc {
	type call = mcp.CallToolRequest
	return map[string]server.ToolHandlerFunc{
		"echo": func(_ context.Context, r call) (*mcp.CallToolResult, error) {
			result := mcp.NewToolResultStructured(map[string]any{"n": 1e21, "s": "<"},
				fmt.Sprint(r.GetArguments()))
			result.Content = append(result.Content, mcp.NewImageContent("AQ==", "image/png"))
			result.Meta = mcp.NewMetaFromMap(map[string]any{"own": 1})
			return result, nil
		},
		"empty": func(context.Context, call) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{}, nil
		},
		"isError": func(context.Context, call) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultError("not <found>"), nil
		},
		"fails": func(_ context.Context, r call) (*mcp.CallToolResult, error) {
			return nil, failureOf(r.GetString("name", ""))
		},
		"typed": mcp.NewTypedToolHandler(func(_ context.Context, _ call,
			in struct{ Name string }) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText(in.Name), nil
		}),
	}
}

// failureOf is what handlers fail with that are called with a name.
func failureOf(name string) error {
	switch name {
	case "":
		return errors.New("the disk is <full>")
	case "wrapped":
		return fmt.Errorf("read: %w", io.ErrUnexpectedEOF)
	case "marked":
		return errors.New("a text that ends as a marker [rondo-marker]")
	case "visit":
		return mcp.URLElicitationRequiredError{
			Elicitations: []mcp.ElicitationParams{visit("Go there?")}}
	}
	return nil
}

// words completes arguments.
type words struct{}

func (words) CompletePromptArgument(_ context.Context, _ string, argument mcp.CompleteArgument,
	_ mcp.CompleteContext) (*mcp.Completion, error) {
	if argument.Value == "none" {
		return nil, errors.New("nothing fits")
	}
	if argument.Value == "nil" {
		return nil, nil
	}
	return &mcp.Completion{Values: []string{"a<b", "é"}, Total: 2}, nil
}

// asklessMessages are the messages of one era to that server.
func asklessMessages(revision string) (all []string) {
	meta := ""
	if revision == modern {
		meta = fmt.Sprintf(`"_meta":{%q:%q,%q:{}}`, protocol.MetaProtocolVersion, modern,
			protocol.MetaClientCapabilities)
	}
	add := func(method, params string) {
		params = strings.Trim(params+","+meta, ",")
		all = append(all, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`,
			len(all)+2, method, params))
	}
	const reference = `"ref":{"type":"ref/prompt","name":"brief"},"argument":{"name":"topic",`
	for _, r := range [][2]string{
		{"tools/list", ``}, {"tools/list", `"cursor":"bad"`},
		{"prompts/list", ``}, {"resources/list", ``}, {"resources/templates/list", ``},
		{"tools/call", `"name":"echo","arguments":{"b":"<","a":1e21}`},
		{"tools/call", `"name":"echo"`},
		{"tools/call", `"name":"empty","arguments":{}`},
		{"tools/call", `"name":"isError"`}, {"tools/call", `"name":"fails"`},
		{"tools/call", `"name":"typed","arguments":{"name":"x"}`},
		{"tools/call", `"name":"typed","arguments":{"name":7}`},
		{"tools/call", `"name":"unknown"`}, {"tools/call", `"name":7`},
		{"prompts/get", `"name":"brief","arguments":{"topic":"<rondos>"}`},
		{"prompts/get", `"name":"brief"`}, {"prompts/get", `"name":"unknown"`},
		{"resources/read", `"uri":"vault://codes"`}, {"resources/read", `"uri":"vault://box/7"`},
		{"resources/read", `"uri":"vault://unknown"`},
		{"completion/complete", reference + `"value":"x"}`},
		{"completion/complete", reference + `"value":"none"}`},
		{"completion/complete", reference + `"value":"nil"}`},
		{"ping", ``}, {"no/such", ``}, {"logging/setLevel", `"level":"loud"`},
	} {
		add(r[0], r[1])
	}
	for _, name := range []string{"wrapped", "marked", "visit"} {
		if name == "visit" && revision == modern {
			continue // asked for in rounds
		}
		add("tools/call", `"name":"fails","arguments":{"name":"`+name+`"}`)
		add("prompts/get", `"name":"brief","arguments":{"topic":"`+name+`"}`)
		add("resources/read", `"uri":"vault://`+name+`"`)
		add("resources/read", `"uri":"vault://box/`+name+`"`)
	}
	return all
}

// What asks nothing is answered as by mcp-go alone, byte for byte.
func TestWhatAsksNothingIsAnsweredByteForByte(t *testing.T) {
	opts := &mcpgo.Options{UnmodifiedHandlers: true,
		Options: roundtrip.Options{Observer: event.Discard}}
	for _, revision := range []string{modern, v20251125} {
		for name, options := range map[string][]server.StreamableHTTPOption{
			"sessions": {quiet()}, "stateless": {quiet(), server.WithStateLess(true)},
		} {
			t.Run(name+"/"+revision, func(t *testing.T) {
				adapted := newAskless()
				want := exchangeHTTP(t, server.NewStreamableHTTPServer(newAskless(), options...),
					revision)
				got := exchangeHTTP(t, install(t, adapted, opts).Handler(
					server.NewStreamableHTTPServer(adapted, options...)), revision)
				for _, message := range asklessMessages(revision) {
					if name == "stateless" && strings.Contains(message, "visit") {
						continue // the client has declared nothing
					}
					if got, want := got(message), want(message); got != want {
						t.Errorf("%s\ngot  %s\nwant %s", message, got, want)
					}
				}
			})
		}
		var texts [][]string
		for _, adapt := range []bool{false, true} {
			t.Run(fmt.Sprint("lines/", revision, "/adapted ", adapt), func(t *testing.T) {
				s := newAskless()
				var a *mcpgo.Adapter
				if adapt {
					a = install(t, s, opts)
				}
				send := senders(t, a, s)["lines"](t)
				if revision != modern {
					send(handshake(revision))
				}
				var all []string
				for _, message := range asklessMessages(revision) {
					all = append(all, send(message).body)
				}
				texts = append(texts, all)
			})
		}
		for i, message := range asklessMessages(revision) {
			if len(texts) == 2 && texts[0][i] != texts[1][i] {
				t.Errorf("lines: %s\ngot  %s\nwant %s", message, texts[1][i], texts[0][i])
			}
		}
	}
}
