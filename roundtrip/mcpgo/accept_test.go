package mcpgo_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

const (
	onlyJSON   = "application/json"
	onlyEvents = "text/event-stream"
	sayYes     = `{"action":"accept","content":{"zeal":"much"}}`
)

// A picky is a client with one Accept header that says what a test wants said.
type picky struct {
	t                                   *testing.T
	endpoint, accept, revision, session string
}

func (p *picky) send(method, accept, body string, header ...string) *http.Response {
	p.t.Helper()
	r, err := http.NewRequestWithContext(within(p.t), method, p.endpoint, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	header = append(header, "Content-Type", onlyJSON, "MCP-Protocol-Version", p.revision,
		"Accept", accept, "Mcp-Session-Id", p.session)
	for i := 0; i < len(header); i += 2 {
		if header[i+1] != "" {
			r.Header.Set(header[i], header[i+1])
		}
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatalf("%s was not answered: %v", method, err)
	}
	p.t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// exchange sends what a client sends that accepts both types, and returns the last message of the
// response.
func (p *picky) exchange(method, body string, header ...string) (*http.Response, string) {
	p.t.Helper()
	response := p.send(method, onlyJSON+", "+onlyEvents, body, header...)
	text, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	said := strings.TrimSpace(string(text))
	if i := strings.LastIndex("\n"+said, "\ndata: "); i >= 0 {
		said = said[i+len("data: "):]
	}
	return response, said
}

// read returns the response, whose type must be the client's.
func (p *picky) read(response *http.Response) string {
	p.t.Helper()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != 200 ||
		response.Header.Get("Content-Type") != p.accept ||
		strings.Contains(string(text), "data: ") != (p.accept == onlyEvents) {
		p.t.Fatalf("got status %d and type %q, want %s: %s, %v", response.StatusCode,
			response.Header.Get("Content-Type"), p.accept, text, err)
	}
	return string(text)
}

func (p *picky) call(params string) string {
	p.t.Helper()
	body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{` + params
	if p.revision == modern {
		body += fmt.Sprintf(`,"_meta":{%q:%q,%q:{"elicitation":{}},%q:{"name":"c","version":"1"}}`,
			protocol.MetaProtocolVersion, modern, protocol.MetaClientCapabilities,
			protocol.MetaClientInfo)
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(params, `"name":"`), `"`)
	return p.read(p.send(http.MethodPost, p.accept, body+"}}", "Mcp-Method", "tools/call",
		"Mcp-Name", name))
}

// open opens a session.
func (p *picky) open() {
	p.t.Helper()
	response := p.send(http.MethodPost, p.accept, `{"jsonrpc":"2.0","id":1,"method":"initialize",`+
		`"params":{"protocolVersion":"`+v20251125+`","capabilities":{"elicitation":{"form":{}}},`+
		`"clientInfo":{"name":"c","version":"1"}}}`)
	_ = p.read(response)
	p.session = response.Header.Get("Mcp-Session-Id")
	if got := p.send(http.MethodPost, p.accept,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`).StatusCode; got != 202 {
		p.t.Fatalf("initialized: got %d", got)
	}
}

// question reads a stream up to a question and returns its id.
func question(t *testing.T, stream *http.Response) string {
	t.Helper()
	lines := bufio.NewScanner(stream.Body)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok &&
			json.Unmarshal([]byte(data), &m) == nil && m.Method == protocol.MethodElicit {
			return string(m.ID)
		}
	}
	t.Fatalf("the client was not asked: status %d", stream.StatusCode)
	return ""
}

func (p *picky) answer(id string) {
	p.t.Helper()
	if got := p.send(http.MethodPost, p.accept,
		`{"jsonrpc":"2.0","id":`+id+`,"result":`+sayYes+`}`).StatusCode; got != 202 {
		p.t.Errorf("the answer: got %d", got)
	}
}

// pickyServer has tools that notify and ask in each way, and counts what they did.
func pickyServer(t *testing.T, opts *mcpgo.Options, how ...server.StreamableHTTPOption) (
	endpoint string, effects *int) {
	t.Helper()
	effects = new(int)
	s := newHostServer(server.WithLogging())
	add := func(name string, ask func(context.Context) (string, error)) {
		s.AddTool(mcp.NewTool(name), func(ctx context.Context,
			_ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			_ = s.SendNotificationToClient(ctx, "notifications/message",
				map[string]any{"level": "error", "data": "noise"})
			got, err := ask(ctx)
			if err != nil && name != "careless" {
				return nil, err
			}
			if ctx.Err() == nil {
				*effects++
			}
			return mcp.NewToolResultText(got), nil
		})
	}
	add("plain", func(context.Context) (string, error) { return "done", nil })
	add("flow", func(ctx context.Context) (string, error) {
		got, err := roundtrip.Ask[struct {
			Zeal string `json:"zeal"`
		}](ctx, "q", "Sure?")
		return got.Zeal, err
	})
	pushes := func(ctx context.Context) (string, error) {
		got, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{
			Message: "Sure?", RequestedSchema: json.RawMessage(formSchema)}})
		if err != nil {
			return "", err
		}
		return fmt.Sprint(got.Content), nil
	}
	add("pushes", pushes)
	add("careless", pushes)
	endpoint, _ = serveHTTP(t, install(t, s, opts), s, how...)
	return endpoint, effects
}

// TestAcceptOneType holds that a client is served in the type that it accepts, in both eras.
func TestAcceptOneType(t *testing.T) {
	endpoint, _ := pickyServer(t, nil)
	for _, accept := range []string{onlyJSON, onlyEvents} {
		t.Run(accept, func(t *testing.T) {
			p := &picky{t: t, endpoint: endpoint, accept: accept, revision: modern}
			if got := p.call(`"name":"plain"`); !strings.Contains(got, `"done"`) {
				t.Errorf("got %s", got)
			}
			asked := p.call(`"name":"flow"`)
			_, rest, _ := strings.Cut(asked, `"requestState":"`)
			state, _, ok := strings.Cut(rest, `"`)
			if !ok || !strings.Contains(asked, `"Sure?"`) {
				t.Fatalf("got %s", asked)
			}
			got := p.call(`"name":"flow","inputResponses":{"q":` + sayYes + `},"requestState":"` +
				state + `"`)
			if !strings.Contains(got, `"much"`) {
				t.Errorf("got %s", got)
			}
			old := &picky{t: t, endpoint: endpoint, accept: accept, revision: v20251125}
			old.open()
			if got := old.call(`"name":"plain"`); !strings.Contains(got, `"done"`) {
				t.Errorf("in a session: got %s", got)
			}
		})
	}
}

// TestAcceptQuestionsInSession holds that a client of JSON alone is asked on its GET stream,
// and that without one the call ends before anything is done, in words that name Accept.
func TestAcceptQuestionsInSession(t *testing.T) {
	for name, opts := range map[string]*mcpgo.Options{
		"": nil, "unmodified": {UnmodifiedHandlers: true},
		"must ask": {UnmodifiedHandlers: true, MustAsk: true},
	} {
		for _, tool := range []string{"flow", "pushes", "careless"} {
			t.Run(name+" "+tool, func(t *testing.T) {
				endpoint, effects := pickyServer(t, opts)
				p := &picky{t: t, endpoint: endpoint, accept: onlyJSON, revision: v20251125}
				p.open()
				got := p.call(`"name":"` + tool + `"`)
				if !strings.Contains(got, "nobody could be asked") ||
					!strings.Contains(got, "Accept: ") || *effects != 0 {
					t.Errorf("got %s, %d effects", got, *effects)
				}
				stream := p.send(http.MethodGet, onlyEvents, "")
				answered := make(chan string, 1)
				go func() { answered <- p.call(`"name":"` + tool + `"`) }()
				p.answer(question(t, stream))
				if got := <-answered; !strings.Contains(got, "much") || *effects != 1 {
					t.Errorf("got %s, %d effects", got, *effects)
				}
			})
		}
	}
	t.Run("events alone", func(t *testing.T) {
		endpoint, _ := pickyServer(t, nil)
		p := &picky{t: t, endpoint: endpoint, accept: onlyEvents, revision: v20251125}
		p.open()
		stream := p.send(http.MethodPost, onlyEvents,
			`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"pushes"}}`)
		p.answer(question(t, stream))
		if rest, _ := io.ReadAll(stream.Body); !strings.Contains(string(rest), "much") {
			t.Errorf("got %s", rest)
		}
	})
}

// TestNullForOptionalArguments holds that mcp-go's typed tools read null as absent.
func TestNullForOptionalArguments(t *testing.T) {
	s := newHostServer()
	s.AddTool(mcp.NewTool("t", mcp.WithString("note")), mcp.NewTypedToolHandler(
		func(_ context.Context, r mcp.CallToolRequest, in struct {
			Note string `json:"note"`
		}) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText(in.Note + r.GetString("note", "default")), nil
		}))
	endpoint, _ := serveHTTP(t, install(t, s, nil), s)
	p := &picky{t: t, endpoint: endpoint, accept: onlyJSON, revision: v20251125}
	p.open()
	if got := p.call(`"name":"t","arguments":{"note":null}`); !strings.Contains(got, `"default"`) {
		t.Errorf("got %s", got)
	}
}
