package mcpgo_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// A request is one message of a test that writes its own.
type request struct {
	method, target string
	arguments      string // JSON, empty: absent
	more           string // members of params, each with a comma before it
	outer          string // members of the message, likewise
	capabilities   string // JSON, empty: forms and visits
}

func (r request) message() string {
	if r.capabilities == "" {
		r.capabilities = `{"elicitation":{"form":{},"url":{}}}`
	}
	name := "name"
	if r.method == protocol.MethodReadResource {
		name = "uri"
	}
	if r.arguments != "" {
		r.more += `,"arguments":` + r.arguments
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":{%q:%q,"_meta":{%q:%q,%q:%s}%s}%s}`, r.method, name, r.target,
		protocol.MetaProtocolVersion, modern, protocol.MetaClientCapabilities, r.capabilities,
		r.more, r.outer)
}

// retry is r with what a client adds to it.
func (r request) retry(a answered, answers string) request {
	state, _ := json.Marshal(a.Result.RequestState)
	r.more += `,"requestState":` + string(state)
	if answers != "" {
		r.more += `,"inputResponses":` + answers
	}
	return r
}

// answered is what came back.
type answered struct {
	status int
	body   string
	Result struct {
		ResultType    string                     `json:"resultType"`
		RequestState  string                     `json:"requestState"`
		InputRequests map[string]json.RawMessage `json:"inputRequests"`
		Content       []struct{ Text string }    `json:"content"`
		IsError       bool                       `json:"isError"`
		Contents      []struct{ Text string }    `json:"contents"`
	} `json:"result"`
	Error struct {
		Code    int64           `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

// text is the gist of a response.
func (a answered) text() string {
	switch {
	case a.Error.Code != 0:
		return fmt.Sprintf("%d %s", a.Error.Code, a.Error.Message)
	case a.Result.ResultType == "input_required":
		return "asks"
	case len(a.Result.Content) > 0 && a.Result.IsError:
		return "error: " + a.Result.Content[0].Text
	case len(a.Result.Content) > 0:
		return a.Result.Content[0].Text
	case len(a.Result.Contents) > 0:
		return a.Result.Contents[0].Text
	}
	return a.body
}

// A sender sends a message of the modern revision and returns the response.
type sender func(message string) answered

// post sends over HTTP.
func post(t *testing.T, endpoint string, header ...string) sender {
	p := &picky{t: t, endpoint: endpoint, revision: modern}
	return func(message string) answered {
		t.Helper()
		var head struct {
			Method string `json:"method"`
			Params struct{ Name, URI string }
		}
		_ = json.Unmarshal([]byte(message), &head) // some are no JSON on purpose
		response, text := p.exchange(http.MethodPost, message, append(header,
			"Mcp-Method", head.Method, "Mcp-Name", head.Params.Name+head.Params.URI)...)
		return reading(t, response.StatusCode, text)
	}
}

func reading(t *testing.T, status int, text string) answered {
	t.Helper()
	a := answered{status: status, body: text}
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("status %d: %q: %v", status, text, err)
	}
	return a
}

// senders reach the server over HTTP and over lines.
func senders(t *testing.T, a *mcpgo.Adapter,
	s *server.MCPServer) map[string]func(*testing.T) sender {
	return map[string]func(*testing.T) sender{
		"http": func(t *testing.T) sender {
			endpoint, _ := serveHTTP(t, a, s)
			return post(t, endpoint)
		},
		"lines": func(t *testing.T) sender {
			r, w, _ := serveLines(t, a, s)
			lines := bufio.NewScanner(r)
			return func(message string) answered {
				t.Helper()
				if _, err := io.WriteString(w, message+"\n"); err != nil {
					t.Fatal(err)
				}
				for lines.Scan() {
					if strings.Contains(lines.Text(), `"id"`) {
						return reading(t, 0, lines.Text())
					}
				}
				t.Fatalf("no response: %v", lines.Err())
				return answered{}
			}
		},
	}
}

// over runs a test over each transport.
func over(t *testing.T, opts *mcpgo.Options, add func(*server.MCPServer),
	f func(t *testing.T, send sender)) {
	for _, name := range []string{"http", "lines"} {
		t.Run(name, func(t *testing.T) {
			s := newHostServer()
			add(s)
			f(t, senders(t, install(t, s, opts), s)[name](t))
		})
	}
}

const yes = `{"confirm":{"action":"accept","content":{"zeal":"much"}}}`

var typed = request{method: protocol.MethodCallTool, target: "typed"}

// TestExactQuestion: what asks carries nothing but the question, in the order
// in which its author has put it.
func TestExactQuestion(t *testing.T) {
	add := func(s *server.MCPServer) {
		s.AddTool(mcp.NewTool("order"),
			func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return mcpgo.ToolInput(mcpgo.Question("z", form("First?")),
					confirm.Elicit("Second?"),
					mcpgo.Question("a", visit("Third?"))), nil
			})
	}
	over(t, nil, add, func(t *testing.T, send sender) {
		got := send(request{method: protocol.MethodCallTool, target: "order"}.message())
		wiretest.Validate(t, modern, wiretest.Server, []byte(got.body), protocol.MethodCallTool)
		if got.status != 0 && got.status != http.StatusOK || got.text() != "asks" {
			t.Fatalf("got %d %s", got.status, got.body)
		}
		last := -1
		for _, part := range []string{`"z":`, `"message":"First?"`, `"zeal"`, `"amount"`,
			`"confirm":`, `"a":`, `"message":"Third?"`} {
			at := strings.Index(got.body[last+1:], part)
			if at < 0 {
				t.Fatalf("%s is not where it belongs: %s", part, got.body)
			}
			last += at + 1
		}
		for _, part := range []string{`"content":[`, "elicitationId", "rondo/asks",
			"structuredContent", "isError"} {
			if strings.Contains(got.body, part) {
				t.Errorf("%s is in %s", part, got.body)
			}
		}
		if !strings.Contains(got.body, `serverInfo":{"name":"host"`) {
			t.Errorf("the host's own _meta is not in %s", got.body)
		}
	})
}

// TestRefusedState: one frozen error above the tool's, whatever the reason.
func TestRefusedState(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(request, answered) request
		reason event.Reason
	}{
		{"tampered", func(r request, a answered) request {
			a.Result.RequestState = strings.Replace(a.Result.RequestState,
				a.Result.RequestState[30:32], "zz", 1)
			return r.retry(a, yes)
		}, event.ReasonTampered},
		{"other arguments", func(r request, a answered) request {
			r.arguments = `{"n":1}`
			return r.retry(a, yes)
		}, event.ReasonArguments},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found := &bugs{}
			over(t, &mcpgo.Options{Options: roundtrip.Options{Observer: found}}, addGuard,
				func(t *testing.T, send sender) {
					first := send(typed.message())
					got := send(tc.change(typed, first).message())
					if got.text() != "-32602 Invalid or expired requestState" {
						t.Fatalf("got %s", got.body)
					}
					if got.status != 0 && got.status != http.StatusOK {
						t.Errorf("status %d", got.status)
					}
					var data struct{ Reason, Reference string }
					if err := json.Unmarshal(got.Error.Data, &data); err != nil ||
						data.Reason != "invalid_request_state" || data.Reference == "" {
						t.Errorf("data %s: %v", got.Error.Data, err)
					}
					if !found.rejected(tc.reason, data.Reference) {
						t.Errorf("the observer was not told %s for reference %s", tc.reason,
							data.Reference)
					}
				})
		})
	}
}

func (b *bugs) rejected(reason event.Reason, reference string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.events {
		if r, ok := e.(event.StateRejected); ok && r.Reason == reason &&
			r.Reference == reference {
			return true
		}
	}
	return false
}

// TestRefusedStateInProcess: within the process the refusal is there, and has mcp-go's code.
func TestRefusedStateInProcess(t *testing.T) {
	s := newHostServer()
	addGuard(s)
	install(t, s, nil)
	send := func(message string) answered {
		raw, err := json.Marshal(s.HandleMessage(t.Context(), json.RawMessage(message)))
		if err != nil {
			t.Fatal(err)
		}
		return reading(t, http.StatusOK, string(raw))
	}
	r := typed
	r.more = `,"requestState":"nonsense"`
	if got := send(r.message()); got.text() != "-32603 Invalid or expired "+
		"requestState (code -32602)" {
		t.Errorf("got %s", got.body)
	}
	if got := send(request{method: protocol.MethodReadResource,
		target: "vault://codes"}.message()); got.Error.Code != -32603 ||
		!strings.Contains(got.Error.Message, "Handler or Listen") {
		t.Errorf("got %s", got.body)
	}
}

// TestStream: a response that has become an event stream is changed in it.
func TestStream(t *testing.T) {
	s := newHostServer()
	s.AddTool(mcp.NewTool("slow"),
		func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			report := map[string]any{"progressToken": "p", "progress": 1}
			if err := s.SendNotificationToClient(ctx, protocol.NotifyProgress, report); err != nil {
				return nil, err
			}
			if _, ok := confirm.AcceptedContent(ctx); !ok {
				return mcpgo.ToolInput(confirm.Elicit("Go on?")), nil
			}
			return nil, protocol.Errorf(-32602, "no such thing")
		})
	endpoint, _ := serveHTTP(t, install(t, s, nil), s)
	send := post(t, endpoint)
	slow := request{method: protocol.MethodCallTool, target: "slow", more: ``}
	first := send(slow.message())
	if first.text() != "asks" || strings.Contains(first.body, `"content":[`) {
		t.Fatalf("got %s", first.body)
	}
	if got := send(slow.retry(first, yes).message()); got.text() != "-32602 no such thing" {
		t.Errorf("got %s", got.body)
	}
}

// TestStrict: what mcp-go would take for a member of a round.
func TestStrict(t *testing.T) {
	over(t, nil, addGuard, func(t *testing.T, send sender) {
		first := send(typed.message())
		state, _ := json.Marshal(first.Result.RequestState)
		for _, tc := range []struct {
			name, more, outer, want string
		}{
			{"as it should be", `,"requestState":` + string(state) + `,"inputResponses":` + yes,
				``, "much 2"},
			{"state in another case",
				`,"RequestState":` + string(state) + `,"inputResponses":` + yes, ``, "asks"},
			{"answers in another case",
				`,"requestState":` + string(state) + `,"InputResponses":` + yes, ``, "asks"},
			{"params twice, in another case", ``,
				`,"Params":{"requestState":` + string(state) + `,"inputResponses":` + yes + `}`,
				"asks"},
			{"state twice", `,"requestState":` + string(state) + `,"requestState":"x"`, ``,
				"-32700 parse error"},
			{"answer says two things", `,"requestState":` + string(state) + `,"inputResponses":{"confirm":{"action":"decline","Action":"accept"}}`, ``, "declined"},
			{"answer says one thing twice", `,"requestState":` + string(state) + `,"inputResponses":{"confirm":{"action":"decline","action":"accept"}}`, ``, "-32700 parse error"},
			{"answers in a list", `,"requestState":` + string(state) + `,"inputResponses":[]`, ``, "-32602 inputResponses: must be an object"},
			{"answers null", `,"requestState":` + string(state) + `,"inputResponses":null`, ``, "-32602 inputResponses: must be an object"},
			{"state a number", `,"requestState":1`, ``, "-32602 requestState: must be a string"},
		} {
			t.Run(tc.name, func(t *testing.T) {
				r := typed
				r.more, r.outer = tc.more, tc.outer
				if got := send(r.message()); !strings.HasPrefix(got.text(), tc.want) {
					t.Errorf("got %s, want %s", got.body, tc.want)
				}
			})
		}
	})
}

// TestLegacyPasses: a request of an older revision is left as it came, however
// odd, and so is its answer.
func TestLegacyPasses(t *testing.T) {
	s := newHostServer()
	s.AddTool(mcp.NewTool("echo"),
		func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText(r.GetString("text", "")), nil
		})
	endpoint, _ := serveHTTP(t, install(t, s, nil), s)
	got := sessionPost(t, endpoint)(`{"jsonrpc":"2.0","id":7,"method":"tools/call","Params":{` +
		`"name":"echo","arguments":{"text":"a","text":"` + protocol.MetaProtocolVersion + `"}}}`)
	if got.text() != protocol.MetaProtocolVersion {
		t.Errorf("got %s", got.body)
	}
}

// refusalReasons keeps why requests were refused.
type refusalReasons struct {
	mu   sync.Mutex
	list []string
}

func (o *refusalReasons) Observe(_ context.Context, e event.Event) {
	if e, ok := e.(event.RequestRefused); ok {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.list = append(o.list, fmt.Sprintf("%s %s %d", e.Transport, e.Reason, e.Status))
		panic("on purpose") // which costs nobody the answer
	}
}

func (o *refusalReasons) take() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.list
	o.list = nil
	return strings.Join(list, ", ")
}

// TestTooLong: a message over the limit is answered and costs nothing more. The
// observer hears of it, as of one that is refused for its form.
func TestTooLong(t *testing.T) {
	seen := &refusalReasons{}
	over(t, &mcpgo.Options{MaxMessageBytes: 1000, Options: roundtrip.Options{Observer: seen}},
		addGuard, func(t *testing.T, send sender) {
			send(strings.Replace(typed.message(), `"jsonrpc"`, `"jsonrpc":"2.0","jsonrpc"`, 1))
			if got := seen.take(); got != "http malformed 400" && got != "stream malformed 0" {
				t.Errorf("a duplicate member: the observer was told %q", got)
			}
			r := typed
			r.arguments = `{"pad":"` + strings.Repeat("x", 2000) + `"}`
			if got := send(r.message()); got.text() != "-32600 the message is longer than 1000 "+
				"bytes" {
				t.Errorf("got %s", got.body)
			}
			if got := seen.take(); got != "http too_large 413" && got != "stream too_large 0" {
				t.Errorf("too long: the observer was told %q", got)
			}
			if got := send(typed.message()); got.text() != "asks" {
				t.Errorf("got %s", got.body)
			}
			if got := seen.take(); got != "" {
				t.Errorf("served: the observer was told %q", got)
			}
		})
}
