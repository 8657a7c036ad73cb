package interop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
	"github.com/rondo-mcp/rondo/protocol"
)

// A dialerOf connects a client of some make to an endpoint.
type dialerOf func(t *testing.T, endpoint, revision string, v *visit, who *person, mute bool) peer

// shapeClients are the clients that visit every shape, by make.
func shapeClients() map[string]dialerOf {
	return map[string]dialerOf{
		"official": func(t *testing.T, endpoint, revision string, v *visit, who *person,
			mute bool) peer {
			return connectGoSDK(t, who, mute, revision, &mcp.StreamableClientTransport{
				Endpoint: endpoint, HTTPClient: v.client(), MaxRetries: -1})
		},
		"mcp-go": func(t *testing.T, endpoint, revision string, v *visit, who *person,
			mute bool) peer {
			over, err := transport.NewStreamableHTTP(endpoint,
				transport.WithHTTPBasicClient(&http.Client{
					Transport: hophttp.Transport{Next: v}}),
				transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
			if err != nil {
				t.Fatal(err)
			}
			return connectMCPGo(t, who, mute, revision, over)
		},
		"rondo": func(t *testing.T, endpoint, revision string, v *visit, who *person,
			mute bool) peer {
			over, err := clienthttp.New(endpoint, &clienthttp.Options{HTTPClient: v.client()})
			if err != nil {
				t.Fatal(err)
			}
			if revision == modern {
				return connectRondo(t, over, who, mute)
			}
			return connectRondoLegacy(t, over, who, mute)
		},
	}
}

// A visit is the network of one client: its headers and its connections.
type visit struct {
	header    http.Header
	transport *http.Transport
	cancelled chan struct{} // closed when the server has taken a cancellation
	noteOnce  sync.Once

	mu    sync.Mutex
	gone  bool
	conns []net.Conn
}

func newVisit(t *testing.T, token string, header http.Header) *visit {
	v := &visit{header: maps.Clone(header), cancelled: make(chan struct{})}
	if v.header == nil {
		v.header = http.Header{}
	}
	if token != "" {
		v.header.Set("Authorization", "Bearer "+token)
	}
	v.transport = &http.Transport{DialContext: v.dial}
	t.Cleanup(v.transport.CloseIdleConnections)
	return v
}

func (v *visit) client() *http.Client { return &http.Client{Transport: v} }

// RoundTrip adds the headers of the visit.
func (v *visit) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range v.header {
		r.Header[name] = values
	}
	if v.isCancellation(r) {
		defer v.noteOnce.Do(func() { close(v.cancelled) })
	}
	return v.transport.RoundTrip(r)
}

// isCancellation reports whether r brings a notification that a request is cancelled. It reads
// the body and puts it back.
func (v *visit) isCancellation(r *http.Request) bool {
	if r.Body == nil {
		return false
	}
	message, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(message))
	return err == nil && bytes.Contains(message, []byte(`"`+protocol.NotifyCancelled+`"`))
}

func (v *visit) dial(ctx context.Context, network, address string) (net.Conn, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.gone {
		return nil, net.ErrClosed
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		v.conns = append(v.conns, conn)
	}
	return conn, err
}

// disconnect closes all connections for good, as the end of the client's process does.
func (v *visit) disconnect() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.gone = true
	for _, conn := range v.conns {
		_ = conn.Close()
	}
}

// A raw client sends what it is told, and returns what comes back byte by byte.
type raw struct {
	t                         *testing.T
	endpoint, revision, token string
	client                    *http.Client
	session                   string
	id                        int
	opened                    rawReply // to initialize, in sessions
}

// A rawReply is a response.
type rawReply struct {
	status            int
	contentType, body string

	code   int // of the error; 0: none
	result json.RawMessage
}

const rawCapabilities = `{"elicitation":{"form":{},"url":{}}}`

// newRaw connects; with no token it sends none.
func newRaw(t *testing.T, endpoint, revision, token string, header http.Header) *raw {
	t.Helper()
	v := newVisit(t, token, header)
	c := &raw{t: t, endpoint: endpoint, revision: revision, token: token, client: v.client()}
	if revision != modern {
		c.opened = c.send("initialize", `{"protocolVersion":"`+revision+`","capabilities":`+
			rawCapabilities+`,"clientInfo":{"name":"raw","version":"1"}}`)
		c.send("notifications/initialized", `{}`)
	}
	return c
}

// send sends a request, or a notification, and reads the response to its end.
func (c *raw) send(method, params string) rawReply {
	c.t.Helper()
	id := ""
	if !strings.HasPrefix(method, "notifications/") {
		c.id++
		id = fmt.Sprintf(`"id":%d,`, c.id)
	}
	if c.revision == modern {
		comma := ","
		if params == "{}" {
			comma = ""
		}
		params = fmt.Sprintf(`%s%s"_meta":{%q:%q,%q:{"name":"raw","version":"1"},%q:%s}}`,
			strings.TrimSuffix(params, "}"), comma, protocol.MetaProtocolVersion, modern,
			protocol.MetaClientInfo, protocol.MetaClientCapabilities, rawCapabilities)
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0",%s"method":%q,"params":%s}`, id, method, params)
	req, err := http.NewRequestWithContext(within(c.t, patience), http.MethodPost, c.endpoint,
		strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	var named struct{ Name, URI string }
	_ = json.Unmarshal([]byte(params), &named)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if c.revision == modern {
		req.Header.Set("Mcp-Method", method)
		req.Header.Set("Mcp-Name", named.Name+named.URI)
	}
	if method != "initialize" {
		req.Header.Set("MCP-Protocol-Version", c.revision)
	}
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if got := resp.Header.Get("Mcp-Session-Id"); got != "" {
		c.session = got
	}
	return readReply(resp, string(text))
}

func readReply(resp *http.Response, body string) rawReply {
	reply := rawReply{status: resp.StatusCode, contentType: resp.Header.Get("Content-Type"),
		body: body}
	lines := []string{body}
	if strings.HasPrefix(reply.contentType, "text/event-stream") {
		lines = strings.Split(body, "\n")
	}
	for _, line := range lines {
		var m struct {
			Result json.RawMessage
			Error  struct{ Code int }
		}
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &m) == nil {
			reply.code, reply.result = m.Error.Code, m.Result
		}
	}
	return reply
}

// asks reports whether the reply asks.
func (r rawReply) asks() bool { return strings.Contains(string(r.result), `"input_required"`) }

// do sends a request; with an earlier reply, its state and the answers to its questions.
func (c *raw) do(r request, earlier *rawReply, given answers) rawReply {
	c.t.Helper()
	params := map[string]any{"name": r.Target}
	if len(r.Args) > 0 {
		params["arguments"] = r.Args
	}
	if earlier != nil {
		if !earlier.asks() {
			c.t.Fatalf("got %d %s, want questions", earlier.status, earlier.body)
		}
		var asked struct {
			InputRequests map[string]struct{ Params struct{ Message, URL string } }
			RequestState  string
		}
		if err := json.Unmarshal(earlier.result, &asked); err != nil {
			c.t.Fatal(err)
		}
		responses := map[string]any{}
		for key, question := range asked.InputRequests {
			answer := map[string]any{"action": "accept"}
			if text := given[question.Params.Message]; text != "{}" {
				answer["content"] = json.RawMessage(text)
			}
			responses[key] = answer
			if at := question.Params.URL; at != "" {
				openPage(c.t, within(c.t, patience), at)
			}
		}
		params["inputResponses"], params["requestState"] = responses, asked.RequestState
	}
	text, err := json.Marshal(params)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.send(r.Method, string(text))
}

// A plainRequest asks nothing.
type plainRequest struct{ method, params string }

func (r plainRequest) String() string { return r.method + " " + r.params }

// plainRequests are answered by every shape (addPlainOfficial, addPlainMCPGo).
func plainRequests() []plainRequest {
	return []plainRequest{
		{"tools/list", `{}`},
		{"prompts/list", `{}`},
		{"resources/list", `{}`},
		{"resources/templates/list", `{}`},
		{"tools/call", `{"name":"version","arguments":{"a":[1,2.50,"\u00e9"]}}`},
		{"tools/call", `{"name":"broken","arguments":{}}`},
		{"tools/call", `{"name":"coded","arguments":{}}`},
		{"tools/call", `{"name":"nowhere","arguments":{}}`},
		{"tools/call", `{"name":"version","arguments":{}}`},
		{"prompts/get", `{"name":"hello"}`},
		{"prompts/get", `{"name":"broken"}`},
		{"prompts/get", `{"name":"nowhere"}`},
		{"resources/read", `{"uri":"doc://readme"}`},
		{"resources/read", `{"uri":"doc://broken"}`},
		{"resources/read", `{"uri":"doc://nowhere"}`},
		{"nowhere/method", `{}`},
	}
}
