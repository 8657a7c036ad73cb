package mcpgo

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/sdk"
	"github.com/rondo-mcp/rondo/protocol"
)

// handleMessage has a server serve a message. Tests change the message and the response.
type handleMessage func(s *server.MCPServer, ctx context.Context,
	message json.RawMessage) mcp.JSONRPCMessage

// runSelfTest checks what the adapter relies on beyond mcp-go's documentation.
func runSelfTest() error {
	return sdk.Run(handleMessage(func(s *server.MCPServer, ctx context.Context,
		message json.RawMessage) mcp.JSONRPCMessage {
		return s.HandleMessage(ctx, message)
	}).checks())
}

func (h handleMessage) checks() []sdk.Check {
	return []sdk.Check{
		{Name: "answers keep the bytes that came", Run: checkAnswers},
		{Name: "a middleware sees all of a request, and its questions leave as they are",
			Run: h.checkTool},
		{Name: "prompts are the same", Run: h.checkPrompt},
		{Name: "the text of a handler's error is that of the response", Run: h.checkError},
		{Name: "an older revision's calls to the client reach its session", Run: h.checkPush},
		{Name: "a session within the process may ask in any revision", Run: h.checkShadow},
		{Name: "transports know their server", Run: checkTransports},
	}
}

// checkAnswers: an answer keeps its bytes, the order of its members and numbers that no
// float64 holds included.
func checkAnswers(context.Context) error {
	const want = `{"b":9007199254740993,"a":1,"A":2}`
	var answer mcp.InputResponse
	err := json.Unmarshal([]byte(want), &answer)
	got, failed := json.Marshal(answer)
	return errors.Join(err, failed, sdk.Equal(string(got), want))
}

type probeKey struct{}

const (
	probeMeta = `"_meta":{"` + protocol.MetaProtocolVersion + `":"2026-07-28","` +
		protocol.MetaClientCapabilities + `":{"elicitation":{"form":{}}}}`
	probeTool = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe","arguments":{"n":9007199254740993},` +
		`"requestState":"state","inputResponses":{"k":{"action":"decline"}},` + probeMeta + `}}`
	probePrompt = `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"probe","requestState":"state",` + probeMeta + `}}`
	probeRead   = `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"probe://1",` + probeMeta + `}}`
	probeLegacy = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe"}}`
	probeSchema = `{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"string"}}}`
)

// checkTool: the middleware gets all of a retry, and the question that it returns is sent.
func (h handleMessage) checkTool(ctx context.Context) error {
	var seen error
	s := server.NewMCPServer("probe", "1",
		server.WithToolHandlerMiddleware(func(server.ToolHandlerFunc) server.ToolHandlerFunc {
			return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				seen = checkRequest(ctx, readToolRequest(r), `{"n":9007199254740993}`)
				result, _, err := toolFamily{}.encodeAsks(&protocol.InputRequiredResult{
					InputRequests: protocol.InputRequests{{Key: "k",
						Request: &protocol.ElicitForm{Message: "?",
							Schema: json.RawMessage(probeSchema)}}},
					RequestState: protocol.StateText("next"),
				})
				return result, err
			}
		}))
	s.AddTool(mcp.NewTool("probe"), nil) // a middleware that is left out is a panic, and fails
	reply, err := h.sendMessage(s, context.WithValue(ctx, probeKey{}, true), probeTool)
	return errors.Join(seen, err,
		sdk.Equal(reply.Result.Type+" "+reply.Result.State, "input_required next"),
		sdk.Equal(string(reply.Result.Requests["k"].Params.Schema), probeSchema))
}

// checkPrompt: the same holds for prompts.
func (h handleMessage) checkPrompt(ctx context.Context) error {
	s := server.NewMCPServer("probe", "1",
		server.WithPromptHandlerMiddleware(func(server.PromptHandlerFunc) server.PromptHandlerFunc {
			return func(_ context.Context, r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				result, _, err := promptFamily{}.encodeAsks(&protocol.InputRequiredResult{
					RequestState: protocol.StateText(r.Params.RequestState)})
				return result, err
			}
		}))
	s.AddPrompt(mcp.NewPrompt("probe"), nil)
	reply, err := h.sendMessage(s, ctx, probePrompt)
	return errors.Join(err,
		sdk.Equal(reply.Result.Type+" "+reply.Result.State, "input_required state"))
}

// checkError: the text of an error of a resource's handler is sent. Resources ask with it.
func (h handleMessage) checkError(ctx context.Context) error {
	const want = "refused [rondo-marker]"
	s := server.NewMCPServer("probe", "1",
		server.WithResourceHandlerMiddleware(
			func(server.ResourceHandlerFunc) server.ResourceHandlerFunc {
				return func(context.Context,
					mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
					return nil, errors.New(want)
				}
			}))
	s.AddResource(mcp.NewResource("probe://1", "probe"), nil)
	reply, err := h.sendMessage(s, ctx, probeRead)
	return errors.Join(err, sdk.Equal(reply.Error.Message, want))
}

// probeClient is the client of a session.
type probeClient struct{ asked string }

func (p *probeClient) Elicit(_ context.Context,
	r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	p.asked = r.Params.Message
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{
		Action: mcp.ElicitationResponseActionDecline}}, nil
}

// checkPush: within a request of an older revision a question reaches the client.
func (h handleMessage) checkPush(ctx context.Context) error {
	client := &probeClient{}
	session := server.NewInProcessSessionWithHandlers("probe", nil, client, nil)
	session.SetProtocolVersion(mcp.ProtocolVersion20251125)
	session.SetClientCapabilities(mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}})
	s := server.NewMCPServer("probe", "1")
	s.AddTool(mcp.NewTool("probe"),
		func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			version, declared := readClient(ctx, nil)
			p := newPusher(ctx, version)
			if p == nil || declared.Elicitation == nil {
				return nil, errors.New("the session is not there, or forgets what its client can do")
			}
			raw, err := p.Push(ctx, &protocol.ElicitForm{Message: "?",
				Schema: json.RawMessage(probeSchema)}, func() {}, func() {})
			return mcp.NewToolResultText(string(version) + " " + client.asked + " " + string(raw)),
				err
		})
	reply, err := h.sendMessage(s, s.WithContext(ctx, session), probeLegacy)
	return errors.Join(err, sdk.Equal(reply.resultText(),
		mcp.ProtocolVersion20251125+` ? {"action":"decline"}`))
}

// checkShadow: in a modern revision, in which mcp-go refuses to ask over other sessions, a
// shadow session may ask.
func (h handleMessage) checkShadow(ctx context.Context) error {
	s := server.NewMCPServer("probe", "1")
	s.AddTool(mcp.NewTool("probe"),
		func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			_, err := s.RequestElicitation(withShadow(ctx),
				mcp.ElicitationRequest{Params: mcp.ElicitationParams{
					Message: "?", RequestedSchema: json.RawMessage(probeSchema)}})
			if errors.Is(err, server.ErrServerInitiatedRequestUnsupported) ||
				errors.Is(err, server.ErrElicitationNotSupported) {
				return nil, err
			}
			return mcp.NewToolResultText("asked"), nil // and was told that there is no round
		})
	reply, err := h.sendMessage(s,
		s.WithContext(ctx, outsideSession{server.NewInProcessSession("probe", nil)}), probeTool)
	return errors.Join(err, sdk.Equal(reply.resultText(), "asked"))
}

// checkTransports: the server of a transport is found, so that one which is not installed is
// refused.
func checkTransports(context.Context) error {
	s := server.NewMCPServer("probe", "1")
	if findServer(server.NewStreamableHTTPServer(s)) != s {
		return errors.New("the server of a StreamableHTTPServer is not found")
	}
	if findServer(server.NewStdioServer(s)) != s {
		return errors.New("the server of a StdioServer is not found")
	}
	return nil
}

// outsideSession is a session that mcp-go does not recognize as one within the process.
type outsideSession struct{ server.ClientSession }

// probeReply is the part of a response that the checks look at.
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

func (r probeReply) resultText() string {
	if len(r.Result.Content) == 0 {
		return r.Error.Message
	}
	return r.Result.Content[0].Text
}

func (h handleMessage) sendMessage(s *server.MCPServer, ctx context.Context,
	message string) (r probeReply, err error) {
	raw, err := json.Marshal(h(s, ctx, json.RawMessage(message)))
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(raw, &r)
}

// checkRequest checks the request and the context that a middleware gets.
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
	case info == nil || !info.Modern || info.ClientCapabilities == nil ||
		info.ClientCapabilities.Elicitation == nil:
		return errors.New("the context does not say what the client can do")
	}
	got := strings.Join([]string{in.target, string(args), in.retry.RequestState,
		string(answers.Get("k"))}, " ")
	return sdk.Equal(got, `probe `+arguments+` state {"action":"decline"}`)
}
