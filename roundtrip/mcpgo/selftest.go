package mcpgo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/protocol"
)

// host is what of mcp-go the checks go through, so that their own tests can
// break it.
type host struct {
	// handle is (*server.MCPServer).HandleMessage.
	handle func(s *server.MCPServer, ctx context.Context, message json.RawMessage) mcp.JSONRPCMessage
	// answer encodes an answer that came from a wire.
	answer func(raw json.RawMessage) ([]byte, error)
	// session is what withShadow puts in front of a handler.
	session func(ctx context.Context) context.Context
}

func realHost() host {
	return host{
		handle: func(s *server.MCPServer, ctx context.Context, message json.RawMessage) mcp.JSONRPCMessage {
			return s.HandleMessage(ctx, message)
		},
		answer: func(raw json.RawMessage) ([]byte, error) {
			var r mcp.InputResponse
			if err := json.Unmarshal(raw, &r); err != nil {
				return nil, err
			}
			return json.Marshal(r)
		},
		session: withShadow,
	}
}

// checkHost tries on a server of its own what the adapter relies on and no
// interface of mcp-go promises. A new version in which something of it has
// changed is refused when the program starts.
func checkHost() error { return realHost().check() }

func (h host) check() error {
	for _, c := range []struct {
		what  string
		check func() error
	}{
		{"answers keep the bytes that came", h.checkAnswers},
		{"a middleware sees all of a request, and its questions leave as they are", h.checkTool},
		{"prompts are the same", h.checkPrompt},
		{"the text of a handler's error is that of the response", h.checkError},
		{"an older revision's calls to the client reach its session", h.checkPush},
		{"a session within the process may ask in any revision", h.checkShadow},
	} {
		if err := c.check(); err != nil {
			return fmt.Errorf("%s: %w", c.what, err)
		}
	}
	return nil
}

// checkAnswers relies on the order of members and on a number that no float64
// holds.
func (h host) checkAnswers() error {
	const want = `{"b":9007199254740993,"a":1,"A":2}`
	got, err := h.answer(json.RawMessage(want))
	if err != nil {
		return err
	}
	return same(string(got), want)
}

type probeKey struct{}

const (
	probeMeta = `"_meta":{"` + protocol.MetaProtocolVersion + `":"2026-07-28","` + protocol.MetaClientCapabilities + `":{"elicitation":{"form":{}}}}`
	probeTool = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe","arguments":{"n":9007199254740993},` +
		`"requestState":"state","inputResponses":{"k":{"action":"decline"}},` + probeMeta + `}}`
	probePrompt = `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"probe","requestState":"state",` + probeMeta + `}}`
	probeRead   = `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"probe://1",` + probeMeta + `}}`
	probeLegacy = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe"}}`
	probeSchema = `{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"string"}}}`
)

// checkTool sends a retry and has the middleware answer it with a question.
func (h host) checkTool() error {
	var seen error
	s := server.NewMCPServer("probe", "1", server.WithToolHandlerMiddleware(func(server.ToolHandlerFunc) server.ToolHandlerFunc {
		return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			seen = checkRequest(ctx, readToolRequest(r), `{"n":9007199254740993}`)
			result, _, err := toolFamily{}.encodeAsks(&protocol.InputRequiredResult{
				InputRequests: protocol.InputRequests{{Key: "k", Request: &protocol.ElicitForm{Message: "?", Schema: json.RawMessage(probeSchema)}}},
				RequestState:  protocol.StateText("next"),
			})
			return result, err
		}
	}))
	s.AddTool(mcp.NewTool("probe"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, errors.New("the middleware was left out")
	})
	reply, err := h.said(s, context.WithValue(context.Background(), probeKey{}, true), probeTool)
	if err != nil || seen != nil {
		return errors.Join(seen, err)
	}
	if err := same(reply.Result.Type+" "+reply.Result.State, "input_required next"); err != nil {
		return err
	}
	return same(string(reply.Result.Requests["k"].Params.Schema), probeSchema)
}

// checkPrompt does the same for the second family.
func (h host) checkPrompt() error {
	s := server.NewMCPServer("probe", "1", server.WithPromptHandlerMiddleware(func(server.PromptHandlerFunc) server.PromptHandlerFunc {
		return func(_ context.Context, r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			result, _, err := promptFamily{}.encodeAsks(&protocol.InputRequiredResult{RequestState: protocol.StateText(r.Params.RequestState)})
			return result, err
		}
	}))
	s.AddPrompt(mcp.NewPrompt("probe"), func(context.Context, mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return nil, errors.New("the middleware was left out")
	})
	reply, err := h.said(s, context.Background(), probePrompt)
	if err != nil {
		return err
	}
	return same(reply.Result.Type+" "+reply.Result.State, "input_required state")
}

// checkError fails from a resource, where questions go out that way as well.
func (h host) checkError() error {
	const want = "refused [rondo-marker]"
	s := server.NewMCPServer("probe", "1", server.WithResourceHandlerMiddleware(func(server.ResourceHandlerFunc) server.ResourceHandlerFunc {
		return func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			return nil, errors.New(want)
		}
	}))
	s.AddResource(mcp.NewResource("probe://1", "probe"), func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		return nil, nil
	})
	reply, err := h.said(s, context.Background(), probeRead)
	if err != nil {
		return err
	}
	return same(reply.Error.Message, want)
}

// probeClient is the client of a session.
type probeClient struct{ asked string }

func (p *probeClient) Elicit(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	p.asked = r.Params.Message
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionDecline}}, nil
}

// checkPush asks within a request of an older revision.
func (h host) checkPush() error {
	client := &probeClient{}
	session := server.NewInProcessSessionWithHandlers("probe", nil, client, nil)
	session.SetProtocolVersion(mcp.ProtocolVersion20251125)
	session.SetClientCapabilities(mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}})
	s := server.NewMCPServer("probe", "1")
	s.AddTool(mcp.NewTool("probe"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		version, declared := readClient(ctx, nil)
		p := newPusher(ctx, version)
		if p == nil || declared.Elicitation == nil {
			return nil, errors.New("the session is not there, or forgets what its client can do")
		}
		raw, err := p.Push(ctx, &protocol.ElicitForm{Message: "?", Schema: json.RawMessage(probeSchema)}, func() {})
		return mcp.NewToolResultText(string(version) + " " + client.asked + " " + string(raw)), err
	})
	reply, err := h.said(s, s.WithContext(context.Background(), session), probeLegacy)
	if err != nil {
		return err
	}
	return same(reply.text(), mcp.ProtocolVersion20251125+` ? {"action":"decline"}`)
}

// checkShadow asks through a session that is not one of the process, in the
// revision that has no such calls.
func (h host) checkShadow() error {
	s := server.NewMCPServer("probe", "1")
	s.AddTool(mcp.NewTool("probe"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_, err := s.RequestElicitation(h.session(ctx), mcp.ElicitationRequest{Params: mcp.ElicitationParams{
			Message: "?", RequestedSchema: json.RawMessage(probeSchema)}})
		if errors.Is(err, server.ErrServerInitiatedRequestUnsupported) || errors.Is(err, server.ErrElicitationNotSupported) {
			return nil, err
		}
		return mcp.NewToolResultText("asked"), nil // and was told that there is no round
	})
	reply, err := h.said(s, s.WithContext(context.Background(), outsideSession{server.NewInProcessSession("probe", nil)}), probeTool)
	if err != nil {
		return err
	}
	return same(reply.text(), "asked")
}

// outsideSession is a session without the mark of those within the process.
type outsideSession struct{ server.ClientSession }

// probeReply is what a response says.
type probeReply struct {
	Result struct {
		Type     string `json:"resultType"`
		State    string `json:"requestState"`
		Requests map[string]struct {
			Params struct {
				Schema json.RawMessage `json:"requestedSchema"`
			} `json:"params"`
		} `json:"inputRequests"`
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	} `json:"result"`
	Error struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func (r probeReply) text() string {
	if len(r.Result.Content) == 0 {
		return r.Error.Message
	}
	return r.Result.Content[0].Text
}

func (h host) said(s *server.MCPServer, ctx context.Context, message string) (r probeReply, err error) {
	raw, err := json.Marshal(h.handle(s, ctx, json.RawMessage(message)))
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(raw, &r)
}

// checkRequest checks what a middleware is handed.
func checkRequest(ctx context.Context, in hostRequest, arguments string) error {
	info := server.RequestProtocolInfoFromContext(ctx)
	answers, err := encodeResponses(in.retry.InputResponses)
	if err != nil {
		return err
	}
	args, err := encodeArguments(in.arguments)
	if err != nil {
		return err
	}
	switch {
	case ctx.Value(probeKey{}) == nil || server.ServerFromContext(ctx) == nil:
		return errors.New("the context is not that of the request")
	case info == nil || !info.Modern || info.ClientCapabilities == nil || info.ClientCapabilities.Elicitation == nil:
		return errors.New("the context does not say what the client can do")
	}
	got := strings.Join([]string{in.target, string(args), in.retry.RequestState, string(answers.Get("k"))}, " ")
	return same(got, `probe `+arguments+` state {"action":"decline"}`)
}

func same(got, want string) error {
	if got != want {
		return fmt.Errorf("got %.200q, want %q", got, want)
	}
	return nil
}
