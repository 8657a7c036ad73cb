package gosdk_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

const (
	onlyJSON   = "application/json"
	onlyEvents = "text/event-stream"
	sayYes     = `"result":{"action":"accept","content":{"reason":"because"}}`
)

// bothTypes is what clients accept that the specification knows.
const bothTypes = "application/json, text/event-stream"

// A picky is a client with one Accept header, none where that is empty, that says what a test
// wants said.
type picky struct {
	t                                   testing.TB
	endpoint, accept, revision, session string
	transport                           http.RoundTripper // nil: the default
}

func (p *picky) send(method, accept, body string, header ...string) *http.Response {
	p.t.Helper()
	r, err := http.NewRequestWithContext(within(p.t), method, p.endpoint, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", onlyJSON)
	header = append(header, "MCP-Protocol-Version", p.revision, "Accept", accept,
		"Mcp-Session-Id", p.session)
	for i := 0; i < len(header); i += 2 {
		if header[i+1] != "" {
			r.Header.Set(header[i], header[i+1])
		}
	}
	response, err := (&http.Client{Transport: p.transport}).Do(r)
	if err != nil {
		p.t.Fatalf("%s was not answered: %v", method, err)
	}
	p.t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// exchange sends what a client sends that accepts both types, and reads the response to its end.
func (p *picky) exchange(method, body string, header ...string) (*http.Response, string) {
	p.t.Helper()
	response := p.send(method, bothTypes, body, header...)
	text, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return response, string(text)
}

// initialize opens a session of a client that declares capabilities.
func (p *picky) initialize(capabilities string) *http.Response {
	p.t.Helper()
	response := p.send(http.MethodPost, p.accept,
		strings.Replace(initialize, `"capabilities":{}`, `"capabilities":`+capabilities, 1))
	_, _ = io.Copy(io.Discard, response.Body)
	p.session = response.Header.Get("Mcp-Session-Id")
	if got := p.send(http.MethodPost, p.accept, initialized).StatusCode; got != 202 {
		p.t.Fatalf("initialized: got %d", got)
	}
	return response
}

// post returns the one message of the response, which must have the type media.
func (p *picky) post(media, body string, header ...string) string {
	p.t.Helper()
	response := p.send(http.MethodPost, p.accept, body, header...)
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != 200 || response.Header.Get("Content-Type") != media {
		p.t.Fatalf("%q: got status %d and type %q, want %s: %s, %v", p.accept,
			response.StatusCode, response.Header.Get("Content-Type"), media, text, err)
	}
	if media == onlyJSON {
		return string(text)
	}
	return lastData(p.t, string(text))
}

func lastData(t testing.TB, text string) string {
	t.Helper()
	data := strings.Split(text, "\ndata: ")
	if len(data) < 2 {
		t.Fatalf("no event in %q", text)
	}
	return strings.TrimSpace(data[len(data)-1])
}

// modern sends a request of revision 2026-07-28.
func (p *picky) modern(media, method, name, params string) string {
	p.t.Helper()
	return p.post(media, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"_meta":{%q:%q,%q:%s}%s}}`,
		method, protocol.MetaProtocolVersion, modern, protocol.MetaClientCapabilities, everything,
		params), "Mcp-Method", method, "Mcp-Name", name)
}

// open opens a session.
func (p *picky) open(media string) {
	p.t.Helper()
	response := p.initialize(everything)
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != media {
		p.t.Fatalf("initialize: got %d and %q", response.StatusCode,
			response.Header.Get("Content-Type"))
	}
}

// question reads a stream up to a question and returns its id.
func question(t *testing.T, stream *http.Response) string {
	t.Helper()
	if stream.StatusCode != 200 || stream.Header.Get("Content-Type") != onlyEvents {
		t.Fatalf("got status %d and type %q, want a stream", stream.StatusCode,
			stream.Header.Get("Content-Type"))
	}
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
	t.Fatal("the client was not asked")
	return ""
}

// pickyServer has a tool that reports progress and asks in each way.
func pickyServer(t *testing.T, opts *mcp.StreamableHTTPOptions, set ...option) (string, *int) {
	t.Helper()
	effects := new(int)
	server := single(t, nil, set...)
	add := func(name string, ask func(context.Context, *toolRequest) (string, error)) {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: raw(`{"type":"object"}`)},
			func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
				//lint:ignore SA1019 the SDK has nothing else to write on the stream of a call
				_ = req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "error", Data: "noise"})
				got, err := ask(ctx, req)
				if name == "careless" { // it ignores the error, but what it does has its context
					if ctx.Err() == nil {
						*effects++
					}
					return toolText("acted"), nil
				}
				if err != nil {
					return nil, err
				}
				*effects++
				return toolText(got), nil
			})
	}
	add("plain", func(context.Context, *toolRequest) (string, error) { return "done", nil })
	add("flow", func(ctx context.Context, _ *toolRequest) (string, error) {
		got, err := roundtrip.Ask[struct {
			Reason string `json:"reason"`
		}](ctx, "q", "Sure?")
		return got.Reason, err
	})
	pushes := func(ctx context.Context, req *toolRequest) (string, error) {
		got, err := req.Session.Elicit(ctx, formQuestion())
		if err != nil {
			return "", err
		}
		return fmt.Sprint(got.Content["reason"]), nil
	}
	add("pushes", pushes)
	add("careless", pushes)
	add("closes", func(_ context.Context, req *toolRequest) (string, error) {
		if req.Extra != nil && req.Extra.CloseSSEStream != nil {
			req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{})
		}
		return "closed", nil
	})
	t.Cleanup(func() {
		for session := range server.Sessions() {
			_ = session.Close()
		}
	})
	endpoint, _ := serve(t, handlerOf(t, server, opts))
	return endpoint, effects
}

// oneType are Accept headers and the form in which they are served, empty where the options of
// the handler choose.
var oneType = map[string]string{
	onlyJSON: onlyJSON, "application/*": onlyJSON, "*/*;q=0.1, text/event-stream;q=0": onlyJSON,
	onlyEvents: onlyEvents, "text/*": onlyEvents, "application/json;q=0, */*": onlyEvents,
	"*/*": "", "": "",
}

func callOf(tool string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + tool + `"}}`
}

// TestAcceptOneType holds that a client is served in the form that it admits, in both eras.
func TestAcceptOneType(t *testing.T) {
	for _, prefersJSON := range []bool{false, true} {
		endpoint, _ := pickyServer(t, &mcp.StreamableHTTPOptions{JSONResponse: prefersJSON})
		for accept, media := range oneType {
			t.Run(fmt.Sprintf("%q, JSONResponse %t", accept, prefersJSON), func(t *testing.T) {
				if media == "" {
					media = map[bool]string{false: onlyEvents, true: onlyJSON}[prefersJSON]
				}
				p := &picky{t: t, endpoint: endpoint, accept: accept, revision: modern}
				got := p.modern(media, "tools/list", "", "")
				if !strings.Contains(got, `"careless"`) {
					t.Errorf("tools/list: got %s", got)
				}
				asked := p.modern(media, "tools/call", "flow", `,"name":"flow"`)
				var m struct {
					Result struct{ RequestState json.RawMessage }
				}
				if err := json.Unmarshal([]byte(asked), &m); err != nil ||
					!strings.Contains(asked, `"Sure?"`) {
					t.Fatalf("got %s, %v", asked, err)
				}
				got = p.modern(media, "tools/call", "flow", `,"name":"flow","inputResponses":{"q":`+
					strings.TrimPrefix(sayYes, `"result":`)+`},"requestState":`+
					string(m.Result.RequestState))
				if !strings.Contains(got, `"because"`) {
					t.Errorf("got %s", got)
				}
				old := &picky{t: t, endpoint: endpoint, accept: accept, revision: legacy}
				old.open(media)
				if got := old.post(media, callOf("plain")); !strings.Contains(got, `"done"`) {
					t.Errorf("in a session: got %s", got)
				}
			})
		}
	}
}

// TestAcceptRefusals holds what is refused as before, and a subscription without a stream.
func TestAcceptRefusals(t *testing.T) {
	endpoint, _ := pickyServer(t, nil)
	p := &picky{t: t, endpoint: endpoint, revision: modern}
	for _, accept := range []string{"text/html", "*/*;q=0"} {
		response := p.send(http.MethodPost, accept, callOf("plain"))
		if response.StatusCode != 400 && accept == "text/html" {
			t.Errorf("%s: got %d", accept, response.StatusCode)
		}
	}
	listen := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{%q:%q,%q:{}}}}`,
		protocol.MetaProtocolVersion, modern, protocol.MetaClientCapabilities)
	response := p.send(http.MethodPost, onlyJSON, listen, "Mcp-Method", "subscriptions/listen")
	if response.StatusCode != 406 {
		t.Errorf("subscriptions/listen: got %d", response.StatusCode)
	}
	old := &picky{t: t, endpoint: endpoint, accept: onlyJSON, revision: legacy}
	old.open(onlyJSON)
	if got := old.send(http.MethodGet, onlyJSON, "").StatusCode; got != 400 {
		t.Errorf("GET: got %d", got)
	}
}

// TestAcceptQuestionsInSession holds that a client of JSON alone is asked on its GET stream,
// and that without one the call ends before anything is done, in words that name Accept.
func TestAcceptQuestionsInSession(t *testing.T) {
	for _, tool := range []string{"flow", "pushes", "careless"} {
		for name, opts := range map[string]*mcp.StreamableHTTPOptions{
			"": nil, " with a store": {EventStore: mcp.NewMemoryEventStore(nil)},
		} {
			t.Run(tool+name, func(t *testing.T) {
				endpoint, effects := pickyServer(t, opts)
				p := &picky{t: t, endpoint: endpoint, accept: onlyJSON, revision: legacy}
				p.open(onlyJSON)
				got := p.post(onlyJSON, callOf(tool))
				if !strings.Contains(got, "nobody could be asked") ||
					!strings.Contains(got, "Accept: ") || *effects != 0 {
					t.Errorf("got %s, %d effects", got, *effects)
				}
				stream := p.send(http.MethodGet, onlyEvents, "")
				answered := make(chan string, 1)
				go func() { answered <- p.post(onlyJSON, callOf(tool)) }()
				id := question(t, stream)
				answer := `{"jsonrpc":"2.0","id":` + id + `,` + sayYes + `}`
				if got := p.send(http.MethodPost, onlyJSON, answer).StatusCode; got != 202 {
					t.Errorf("the answer: got %d", got)
				}
				if got := <-answered; strings.Contains(got, `"isError":true`) || *effects != 1 {
					t.Errorf("got %s, %d effects", got, *effects)
				}
			})
		}
	}
	t.Run("events alone", func(t *testing.T) {
		endpoint, _ := pickyServer(t, &mcp.StreamableHTTPOptions{JSONResponse: true})
		p := &picky{t: t, endpoint: endpoint, accept: onlyEvents, revision: legacy}
		p.open(onlyEvents)
		stream := p.send(http.MethodPost, onlyEvents, callOf("pushes"))
		answer := `{"jsonrpc":"2.0","id":` + question(t, stream) + `,` + sayYes + `}`
		_ = p.send(http.MethodPost, onlyEvents, answer)
		if rest, _ := io.ReadAll(stream.Body); !strings.Contains(string(rest), "because") {
			t.Errorf("got %s", rest)
		}
	})
}

// TestAcceptJSONKeepsOneForm holds that nothing loses the response of a call to a client of
// JSON alone: neither a handler that closes the stream, nor a batch.
func TestAcceptJSONKeepsOneForm(t *testing.T) {
	endpoint, _ := pickyServer(t, nil)
	p := &picky{t: t, endpoint: endpoint, accept: onlyJSON, revision: legacy}
	p.open(onlyJSON)
	if got := p.post(onlyJSON, callOf("closes")); !strings.Contains(got, `"closed"`) {
		t.Errorf("got %s", got)
	}
	p.revision = string(protocol.V20250326)
	second := strings.Replace(callOf("plain"), `"id":7`, `"id":8`, 1)
	for _, batch := range []string{callOf("plain"), callOf("plain") + "," + second} {
		var all []struct{ ID int }
		got := p.post(onlyJSON, " ["+batch+"]")
		if err := json.Unmarshal([]byte(got), &all); err != nil ||
			len(all) != strings.Count(batch, "jsonrpc") {
			t.Errorf("got %s, %v", got, err)
		}
	}
}

// TestNullForOptionalArguments holds that null is absent where the schema of a tool refuses it,
// also for a tool on another page of the list, and that a retry stays bound to what was sent.
func TestNullForOptionalArguments(t *testing.T) {
	type input struct {
		Note string  `json:"note,omitempty"`
		Kept *string `json:"kept,omitempty"`
		Must string  `json:"must"`
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "nulls", Version: "1"},
		&mcp.ServerOptions{PageSize: 1})
	mcp.AddTool(server, &mcp.Tool{Name: "a"}, func(context.Context, *toolRequest, any) (
		*mcp.CallToolResult, any, error) {
		return nil, nil, nil
	})
	mcp.AddTool(server, &mcp.Tool{Name: "t"}, func(ctx context.Context, req *toolRequest,
		in input) (*mcp.CallToolResult, any, error) {
		if _, err := roundtrip.Ask[struct {
			Reason string `json:"reason"`
		}](ctx, "q", "Sure?"); err != nil {
			return nil, nil, err
		}
		return toolText(fmt.Sprintf("%d %t %d", len(in.Note), in.Kept == nil,
			len(req.Params.Arguments))), nil, nil
	})
	installWith(t, server, &gosdk.Options{})
	w := dialWire(t, server)
	call := func(arguments, rest string) said {
		return w.send(protocol.MethodCallTool, `{"name":"t","arguments":`+arguments+rest+`}`)
	}
	const sent = `{"note":null,"kept":null,"must":"x"}`
	first := call(sent, "")
	first.wantAsks("q")
	retry := `,"inputResponses":{"q":` + strings.TrimPrefix(sayYes, `"result":`) +
		`},"requestState":` + string(first.member("requestState"))
	call(`{"kept":null,"must":"x"}`, retry).wantError(protocol.CodeInvalidParams, 400)
	call(sent, retry).wantText(fmt.Sprint("0 true ", len(`{"kept":null,"must":"x"}`)))
	for _, refused := range []string{`{"must":null}`, `{"note":1,"must":"x"}`} {
		if got := call(refused, ""); !strings.Contains(string(got.body), `"isError":true`) {
			t.Errorf("%s: got %s", refused, got.body)
		}
	}
}
