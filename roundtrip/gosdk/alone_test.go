package gosdk_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/testing/pipehttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// newAskless returns a server whose handlers ask nothing.
func newAskless() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "askless", Version: "1.0.0"},
		&mcp.ServerOptions{Instructions: "Ask me nothing.",
			CompletionHandler: func(_ context.Context,
				req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
				switch req.Params.Argument.Value {
				case "none":
					return nil, errors.New("nothing fits")
				case "nil":
					return nil, nil
				}
				return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{
					Values: []string{"a<b", "é"}, Total: 2}}, nil
			}})
	type in struct {
		Name string `json:"name"`
	}
	type out struct {
		Size float64 `json:"size"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "typed", Description: "Says <hello>."},
		func(_ context.Context, _ *toolRequest, in in) (*mcp.CallToolResult, out, error) {
			if in.Name == "nobody" {
				return nil, out{}, errors.New("nobody is <there>")
			}
			return nil, out{1e21}, nil
		})
	for name, handle := range asklessTools() {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: raw(`{"type":"object"}`)}, handle)
	}
	prompt := func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		switch req.Params.Arguments["topic"] {
		case "":
			return nil, errors.New("no topic")
		case "coded":
			return nil, &jsonrpc.Error{Code: 4711, Message: "own", Data: raw(`{"a":1}`)}
		case "wrapped":
			return nil, fmt.Errorf("reading: %w", &jsonrpc.Error{Code: -32603, Message: "broken"})
		}
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user",
			Content: &mcp.TextContent{Text: req.Params.Arguments["topic"]}}}}, nil
	}
	server.AddPrompt(&mcp.Prompt{Name: "brief",
		Arguments: []*mcp.PromptArgument{{Name: "topic"}}}, prompt)
	read := func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		switch _, box, _ := strings.Cut(req.Params.URI, "/box/"); box {
		case "0":
			return nil, mcp.ResourceNotFoundError(req.Params.URI)
		case "1":
			return nil, errors.New("the disk is full")
		case "2":
			return nil, &jsonrpc.Error{Code: 4711, Message: "own", Data: raw(`{"a":1}`)}
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{
			{URI: req.Params.URI, MIMEType: "text/plain", Text: "1 < 2 & é\u2028"},
			{URI: req.Params.URI, Blob: []byte{0, 1}}}}, nil
	}
	server.AddResource(&mcp.Resource{Name: "codes", URI: "vault://codes"}, read)
	server.AddResourceTemplate(&mcp.ResourceTemplate{Name: "box", URITemplate: "vault://box/{box}"},
		read)
	return server
}

// asklessTools returns tools that were not added with mcp.AddTool.
func asklessTools() map[string]mcp.ToolHandler {
	return map[string]mcp.ToolHandler{
		"echo": func(_ context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Meta: mcp.Meta{"own": 1},
				Content: []mcp.Content{&mcp.TextContent{Text: string(req.Params.Arguments)},
					&mcp.ImageContent{MIMEType: "image/png", Data: []byte{1}}},
				StructuredContent: map[string]any{"n": 1e21, "s": "<"}}, nil
		},
		"empty": func(context.Context, *toolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{}, nil
		},
		"isError": func(context.Context, *toolRequest) (*mcp.CallToolResult, error) {
			result := toolText("not <found>")
			result.IsError = true
			return result, nil
		},
		"error": func(context.Context, *toolRequest) (*mcp.CallToolResult, error) {
			return nil, errors.New("the disk is full")
		},
		"coded": func(context.Context, *toolRequest) (*mcp.CallToolResult, error) {
			return nil, &jsonrpc.Error{Code: 4711, Message: "own", Data: raw(`{"a": "<"}`)}
		},
		"wrapped": func(context.Context, *toolRequest) (*mcp.CallToolResult, error) {
			return nil, fmt.Errorf("reading: %w", &jsonrpc.Error{Code: -32602, Message: "broken"})
		},
		"logs": func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
			err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: req.Params.GetProgressToken(), Progress: 1, Message: "half"})
			return toolText("done"), err
		},
	}
}

// asklessRequests are methods with parameters, without _meta. Those that a modern client does
// not send have answers of the adapter's own: the SDK alone reads parameters after the headers,
// and dies of a nil completion.
func asklessRequests(revision string) [][2]string {
	all := [][2]string{
		{"tools/list", `{}`}, {"tools/list", `{"cursor":"bad"}`},
		{"prompts/list", `{}`}, {"resources/list", `{}`}, {"resources/templates/list", `{}`},
		{"tools/call", `{"name":"typed","arguments":{"name":"x"}}`},
		{"tools/call", `{"name":"typed","arguments":{"name":"nobody"}}`},
		{"tools/call", `{"name":"typed","arguments":{"name":1}}`},
		{"tools/call", `{"name":"typed"}`},
		{"tools/call", `{"name":"echo","arguments":{"b":"<","a":1e21}}`},
		{"tools/call", `{"name":"echo"}`},
		{"tools/call", `{"name":"empty","arguments":{}}`},
		{"tools/call", `{"name":"isError","arguments":{}}`},
		{"tools/call", `{"name":"error","arguments":{}}`},
		{"tools/call", `{"name":"coded","arguments":{}}`},
		{"tools/call", `{"name":"wrapped","arguments":{}}`},
		{"tools/call", `{"name":"unknown","arguments":{}}`},
		{"prompts/get", `{"name":"brief","arguments":{"topic":"<rondos>"}}`},
		{"prompts/get", `{"name":"brief"}`}, {"prompts/get", `{"name":"unknown"}`},
		{"prompts/get", `{"name":"brief","arguments":{"topic":"coded"}}`},
		{"prompts/get", `{"name":"brief","arguments":{"topic":"wrapped"}}`},
		{"resources/read", `{"uri":"vault://codes"}`},
		{"resources/read", `{"uri":"vault://box/7"}`},
		{"resources/read", `{"uri":"vault://box/0"}`},
		{"resources/read", `{"uri":"vault://box/1"}`},
		{"resources/read", `{"uri":"vault://box/2"}`},
		{"resources/read", `{"uri":"vault://unknown"}`},
		{"completion/complete", asklessCompletion("x")},
		{"completion/complete", asklessCompletion("none")},
		{"ping", `{}`}, {"no/such", `{}`}, {"logging/setLevel", `{"level":"loud"}`},
	}
	if revision == legacy {
		all = append(all, [2]string{"tools/call", `{"name":7}`},
			[2]string{"completion/complete", asklessCompletion("nil")})
	}
	return all
}

func asklessCompletion(value string) string {
	return `{"ref":{"type":"ref/prompt","name":"brief"},"argument":{"name":"topic","value":"` +
		value + `"}}`
}

// asklessMessage returns a request as a client of a revision sends it.
func asklessMessage(revision string, id int, method, params string) string {
	if revision == modern {
		comma := ","
		if params == "{}" {
			comma = ""
		}
		params = fmt.Sprintf(`%s%s"_meta":{%q:%q,%q:{"name":"x","version":"1"},%q:{}}}`,
			strings.TrimSuffix(params, "}"), comma, protocol.MetaProtocolVersion, modern,
			protocol.MetaClientInfo, protocol.MetaClientCapabilities)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)
}

const asklessHello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` +
	legacy + `","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`

// transcribeHTTP returns all that h answers, one response after the other.
func transcribeHTTP(t *testing.T, h http.Handler, revision string) (all []string) {
	endpoint, recorder := serve(t, h)
	p := &picky{t: t, endpoint: endpoint, transport: recorder}
	send := func(method, message string) string {
		var header []string
		if revision == modern {
			header = []string{"Mcp-Method", method, "Mcp-Name", nameIn(message)}
		}
		response, body := p.exchange(http.MethodPost, message, header...)
		if method == "initialize" {
			p.session = response.Header.Get("Mcp-Session-Id")
		}
		return fmt.Sprint(response.StatusCode, " ", response.Header.Get("Content-Type"), "\n",
			body)
	}
	if revision == legacy {
		all = append(all, send("initialize", asklessHello))
		p.revision = revision
		send("notifications/initialized", initialized)
	}
	p.revision = revision
	for i, r := range asklessRequests(revision) {
		all = append(all, send(r[0], asklessMessage(revision, i+2, r[0], r[1])))
	}
	if p.session != "" { // which the SDK keeps otherwise
		p.exchange(http.MethodDelete, "")
	}
	return all
}

// nameIn returns what a modern client puts into the Mcp-Name header.
func nameIn(message string) string {
	for _, member := range []string{`"name":"`, `"uri":"`} {
		if _, rest, ok := strings.Cut(strings.Split(message, `"_meta"`)[0], member); ok {
			name, _, _ := strings.Cut(rest, `"`)
			return name
		}
	}
	return ""
}

// transcribeLines is transcribeHTTP over a stream of lines.
func transcribeLines(t *testing.T, revision string,
	connect func(context.Context, mcp.Transport) (*mcp.ServerSession, error)) (all []string) {
	r, w := pipehttp.ServeLines(t, func(ctx context.Context, in io.Reader, out io.Writer) {
		session, err := connect(ctx, &mcp.IOTransport{Reader: io.NopCloser(in),
			Writer: unclosed{out}})
		if err != nil {
			t.Error(err)
			return
		}
		_ = session.Wait()
	})
	lines := bufio.NewReader(r)
	send := func(message string) string {
		if _, err := io.WriteString(w, message+"\n"); err != nil {
			t.Fatal(err)
		}
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	if revision == legacy {
		all = append(all, send(asklessHello))
		_, err := io.WriteString(w, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range asklessRequests(revision) {
		all = append(all, send(asklessMessage(revision, i+2, r[0], r[1])))
	}
	return all
}

type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// What asks nothing is answered as by the SDK alone, byte for byte.
func TestWhatAsksNothingIsAnsweredByteForByte(t *testing.T) {
	for _, revision := range []string{modern, legacy} {
		for name, opts := range map[string]*mcp.StreamableHTTPOptions{
			"events": {}, "JSON": {JSONResponse: true}, "stateless": {Stateless: true},
		} {
			alone := *opts
			if revision == modern { // which the SDK alone serves without sessions only
				alone.Stateless = true
			}
			t.Run(name+"/"+revision, func(t *testing.T) {
				get := func(server *mcp.Server) func(*http.Request) *mcp.Server {
					return func(*http.Request) *mcp.Server { return server }
				}
				a := newAdapter(t, &gosdk.Options{UnmodifiedHandlers: true,
					Options: roundtrip.Options{Observer: event.Discard}})
				compareTranscripts(t,
					transcribeHTTP(t, newHandler(t, a, get(newAskless()), opts), revision),
					transcribeHTTP(t,
						mcp.NewStreamableHTTPHandler(get(newAskless()), &alone), revision))
			})
		}
		t.Run("lines/"+revision, func(t *testing.T) {
			a := newAdapter(t, &gosdk.Options{UnmodifiedHandlers: true,
				Options: roundtrip.Options{Observer: event.Discard}})
			adapted := transcribeLines(t, revision,
				func(ctx context.Context, over mcp.Transport) (*mcp.ServerSession, error) {
					server := newAskless()
					return server.Connect(ctx, a.Transport(server, over), nil)
				})
			compareTranscripts(t, adapted, transcribeLines(t, revision,
				func(ctx context.Context, over mcp.Transport) (*mcp.ServerSession, error) {
					return newAskless().Connect(ctx, over, nil)
				}))
		})
	}
}

func compareTranscripts(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) != len(want) || len(got) < len(asklessRequests(modern)) {
		t.Fatalf("%d responses, and %d of the SDK alone", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("got\n%s\nand of the SDK alone\n%s", got[i], want[i])
		}
	}
}

// Parameters of the wrong type are refused before the SDK reads them, with the SDK's code on
// streams. Over HTTP the SDK alone names the header that the client left out.
func TestParametersOfTheWrongType(t *testing.T) {
	w := dialWire(t, single(t, asks(nil), withUnmodifiedHandlers()))
	got := w.send(protocol.MethodCallTool, `{"name":7,"arguments":{}}`)
	got.wantError(protocol.CodeInvalidParams, http.StatusBadRequest)
	if got.Error != nil && got.Error.Message != "invalid params: name: must be a string" {
		t.Errorf("got %s", got.body)
	}
}
