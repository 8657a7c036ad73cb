package interop_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
)

// An oddServer answers one method oddly, over HTTP or on lines, in both eras.
type oddServer struct {
	method string // the method; default: tools/call
	result string // members of the answer
	ask    string // a form that the server sends first
	note   string // a message that the server sends first
	tail   string // ends an event, instead of an empty line
	lost   bool   // the first call loses its session, as a restart does
}

// oddServers act like deployed servers. A client passes if its text ends with want, or an "error".
var oddServers = []struct {
	row    string
	server oddServer
	want   string
}{
	{"half a surrogate in a text", oddServer{result: texts(`cut \ud83d`)}, "cut \ufffd"},
	{"bytes in a text that are not UTF-8", oddServer{result: texts("cut \xb0")}, "cut \ufffd"},
	{"`NaN` in a result ends the call at once", oddServer{
		result: `"content":[],"structuredContent":{"v":NaN}`}, "error"},
	{"a result of 5 MiB", oddServer{result: texts(strings.Repeat("x", 5<<20) + "ok")}, "ok"},
	{"base64 with line breaks", oddServer{result: `"content":[{"type":"image",` +
		`"data":"aGVs\nbG8=","mimeType":"image/png"},{"type":"text","text":"ok"}]`}, "ok"},
	{"a block that cannot be read beside one that can", oddServer{
		result: `"content":[{"type":"image","data":"?","mimeType":"image/png"},` +
			`{"type":"text","text":"ok"}]`}, "ok"},
	{"a block of a kind that is not known", oddServer{
		result: `"content":[{"type":"hologram","x":1},{"type":"text","text":"ok"}]`}, "ok"},
	{"members that are null", oddServer{result: `"content":[{"type":"text","text":"ok",` +
		`"annotations":null,"_meta":null}],"structuredContent":null,"isError":null,"_meta":null`},
		"ok"},
	{"an event without its empty line at the end of a body", oddServer{tail: "\n",
		result: texts("ok")}, "ok"},
	{"a notification whose params are a list", oddServer{result: texts("ok"),
		note: `{"jsonrpc":"2.0","method":"notifications/message","params":[1]}`}, "ok"},
	{"a session that the server has lost", oddServer{lost: true, result: texts("ok")}, "ok"},
	{"a tool that cannot be read beside one that can", listOf(`{"name":5}`), "good"},
	{"a schema that nests 61 objects beside another tool", listOf(`{"name":"deep",` +
		`"inputSchema":{"type":"object",` + strings.Repeat(`"properties":{"a":{"type":"object",`,
		60) + `"x":1` + strings.Repeat("}}", 60) + "}}"), "good"},
	{"`true` for a schema of a member", listOf(
		`{"name":"any","inputSchema":{"type":"object","properties":{"v":true}}}`), "any good"},
	{"`properties` that are null", listOf(
		`{"name":"nil","inputSchema":{"type":"object","properties":null}}`), "nil good"},
	{"a schema without `type`", listOf(`{"name":"bare","inputSchema":{}}`), "bare good"},
	{"a pattern with a look-ahead", listOf(`{"name":"ahead","inputSchema":{"type":"object",` +
		`"properties":{"a":{"type":"string","pattern":"^(?!x)"}}}}`), "ahead good"},
	{"`exclusiveMinimum` of draft 4", listOf(`{"name":"four","inputSchema":{"type":"object",` +
		`"properties":{"a":{"minimum":0,"exclusiveMinimum":true}}}}`), "four good"},
	{"a cursor that repeats", oddServer{method: protocol.MethodListTools, result: `"tools":[` +
		`{"name":"good","inputSchema":{"type":"object"}}],"nextCursor":"x"`}, "good"},
	{"further members of annotations", listOf(`{"name":"more","inputSchema":{"type":"object"},` +
		`"annotations":{"category":"input"}}`), "more good"},
	{"form: `anyOf` of a text and null", formOf(`"properties":{"a":{"anyOf":[{"type":"string"},` +
		`{"type":"null"}],"default":null}}`), "asked"},
	{"form: a list of types with null", formOf(
		`"properties":{"a":{"type":["string","null"]}}`), "asked"},
	{"form: `enum` without `type`", formOf(`"properties":{"a":{"enum":["x","y"]}}`), "asked"},
	{"form: `$ref` to an `enum`", formOf(`"properties":{"a":{"$ref":"#/$defs/E"}},` +
		`"$defs":{"E":{"type":"string","enum":["x","y"]}}`), "asked"},
	{"form: `required` that is null", formOf(
		`"properties":{"a":{"type":"string"}},"required":null`), "asked"},
	{"form: no `properties`", formOf(``), "asked"},
	{"form: `{}`", oddServer{ask: `{}`}, "asked"},
	{"form: a pattern with a look-ahead", formOf(
		`"properties":{"a":{"type":"string","pattern":"^(?!\\.)x"}}`), "asked"},
}

func texts(text string) string { return `"content":[{"type":"text","text":"` + text + `"}]` }

func listOf(tool string) oddServer {
	return oddServer{method: protocol.MethodListTools, result: `"tools":[` + tool +
		`,{"name":"good","inputSchema":{"type":"object"}}]`}
}

func formOf(members string) oddServer {
	form := strings.TrimSuffix(`{"type":"object",`+members, ",") + "}"
	return oddServer{ask: form}
}

// answer returns the messages that answer a request. The last message is the response.
func (s *oddServer) answer(m oddMessage) (messages []string) {
	result := `"tools":[{"name":"good","inputSchema":{"type":"object"}}]`
	switch m.Method {
	case protocol.MethodDiscover:
		result = `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},` + oddInfo
	case protocol.MethodInitialize:
		result = `"protocolVersion":"2025-11-25","capabilities":{"tools":{}},` + oddInfo
	case cmp.Or(s.method, protocol.MethodCallTool):
		result = cmp.Or(s.result, texts("asked"))
		if s.note != "" {
			messages = append(messages, s.note)
		}
		ask := `"method":"elicitation/create","params":{"mode":"form","message":"m",` +
			`"requestedSchema":` + s.ask + `}`
		switch {
		case s.ask == "":
		case !bytes.Contains(m.Params, []byte(modern)):
			messages = append(messages, `{"jsonrpc":"2.0","id":"asked",`+ask+`}`)
		case !bytes.Contains(m.Params, []byte("inputResponses")):
			result = `"resultType":"input_required","inputRequests":{"k":{` + ask + `}}`
		}
	}
	if !strings.Contains(result, "resultType") {
		result += `,"resultType":"complete","ttlMs":0,"cacheScope":"private"`
	}
	return append(messages, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{`+result+`}}`)
}

const oddInfo = `"serverInfo":{"name":"odd","version":"1"}`

type oddMessage struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
}

// handler answers with JSON, or with events if these are requested or needed.
func (s *oddServer) handler(events bool) http.Handler {
	answered := make(chan struct{}, 1)
	var sessions atomic.Int32
	var lost atomic.Value // session of the first call
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m oddMessage
		_ = json.NewDecoder(r.Body).Decode(&m)
		switch {
		case r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		case string(m.ID) == `"asked"`:
			answered <- struct{}{}
			fallthrough
		case m.ID == nil:
			w.WriteHeader(http.StatusAccepted)
			return
		case m.Method == protocol.MethodInitialize:
			w.Header().Set("Mcp-Session-Id", fmt.Sprint(sessions.Add(1)))
		}
		session := r.Header.Get("Mcp-Session-Id")
		if m.Method == protocol.MethodCallTool && s.lost {
			lost.CompareAndSwap(nil, session)
		}
		if lost.Load() == session {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		messages := s.answer(m)
		if len(messages) == 1 && !events && s.tail == "" {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, messages[0])
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i, message := range messages {
			if i > 0 && s.ask != "" {
				_ = http.NewResponseController(w).Flush()
				select {
				case <-answered:
				case <-r.Context().Done():
				}
			}
			tail := "\n\n"
			if s.tail != "" && m.Method == protocol.MethodCallTool {
				tail = s.tail
			}
			fmt.Fprintf(w, "event: message\ndata: %s%s", message, tail)
		}
	})
}

func (s *oddServer) serveLines(end line) {
	defer end.w.Close()
	for lines := bufio.NewReader(end.r); ; {
		raw, err := lines.ReadBytes('\n')
		var m oddMessage
		if err != nil || json.Unmarshal(raw, &m) != nil {
			return
		}
		if m.ID == nil || m.Method == "" {
			continue
		}
		messages := s.answer(m)
		for i, message := range messages {
			if i > 0 && s.ask != "" {
				_, _ = lines.ReadBytes('\n') // the client's answer
			}
			fmt.Fprintf(end.w, "%s\n", message)
		}
	}
}

// An oddDialer connects a client to an endpoint. If it is empty, it connects to streams of lines.
type oddDialer func(t *testing.T, endpoint string, open func() line, revision string,
	who *person) peer

// oddReaders are our client, alone and behind our gateway, and clients of others.
var oddReaders = []struct {
	name string
	dial oddDialer
}{
	{"rondo", func(t *testing.T, endpoint string, open func() line, revision string,
		who *person) peer {
		return newRondo(t, overAny(t, endpoint, open), who, false,
			&client.Options{Timeout: patience, Era: eraOf(revision)})
	}},
	{"gateway", func(t *testing.T, endpoint string, open func() line, revision string,
		who *person) peer {
		front := startFrontDoor(t, gateway.Upstream{Name: "up", Era: eraOf(revision),
			Unprefixed: []string{"good"},
			Connect: func(context.Context, gateway.Credential) (protocol.Peer, error) {
				return overAny(t, endpoint, open), nil
			}})
		return newRondo(t, over(t, front), who, false,
			&client.Options{Timeout: patience, Era: eraOf(revision)})
	}},
	{"official Go SDK", func(t *testing.T, endpoint string, open func() line, revision string,
		who *person) peer {
		if endpoint == "" {
			end := open()
			return connectGoSDK(t, who, false, revision,
				&mcp.IOTransport{Reader: end.r, Writer: end.w})
		}
		return connectGoSDK(t, who, false, revision, &mcp.StreamableClientTransport{
			Endpoint: endpoint, HTTPClient: newHTTPClient(t), MaxRetries: -1})
	}},
	{"mcp-go", func(t *testing.T, endpoint string, open func() line, revision string,
		who *person) peer {
		if endpoint == "" {
			end := open()
			return connectMCPGo(t, who, false, revision,
				transport.NewIO(end.r, end.w, io.NopCloser(strings.NewReader(""))))
		}
		streamable, err := transport.NewStreamableHTTP(endpoint,
			transport.WithHTTPLogger(slog.New(slog.DiscardHandler)),
			transport.WithHTTPBasicClient(newHTTPClient(t)))
		noError(t, err)
		return connectMCPGo(t, who, false, revision, streamable)
	}},
}

func eraOf(revision string) protocol.Era {
	if revision == modern {
		return protocol.Modern
	}
	return protocol.Legacy
}

// overAny connects our client to an endpoint, or if that is empty, over lines.
func overAny(t *testing.T, endpoint string, open func() line) protocol.Peer {
	if endpoint != "" {
		return over(t, endpoint)
	}
	end := open()
	return overLines(end.r, end.w)
}

// TestOddServers compares testdata/odd_servers.md with clients' results, in both eras, over JSON,
// event streams and lines. Our client reads every row, and so do clients of our gateway.
func TestOddServers(t *testing.T) {
	table := newTable(t, "rondo", "its gateway")
	for _, row := range oddServers {
		takes := make([]bool, len(oddReaders))
		for i, c := range oddReaders {
			t.Run(row.row+"/"+c.name, func(t *testing.T) {
				takes[i] = true
				for _, revision := range []string{modern, v20251125} {
					for _, way := range []string{"JSON", "events", "lines"} {
						s := row.server
						if s.lost && (revision == modern || way == "lines") ||
							s.tail != "" && way != "events" ||
							len(s.result) > 1<<20 && revision == modern { // this takes long
							continue
						}
						got := takeOdd(t, c.dial, s, way, revision, row.want)
						t.Logf("%s, %s: %s", revision, way, got)
						takes[i] = takes[i] && got == ""
					}
				}
			})
		}
		table.add(row.row, takes)
		if !takes[0] || !takes[1] {
			t.Errorf("our client or gateway does not read %s", row.row)
		}
	}
	table.check(t, "testdata/odd_servers.md")
}

// takeOdd returns a client's mistake with a server, or "".
func takeOdd(t *testing.T, dial oddDialer, s oddServer, way, revision, want string) (
	wrong string) {
	who := newPerson(t, answers{"m": `{"a":"x"}`})
	if !strings.Contains(s.ask, `"a"`) {
		who.answers["m"] = "{}"
	}
	open := func() line {
		ours, theirs, _ := stream(t)
		go s.serveLines(theirs)
		return ours
	}
	var endpoint string
	if way != "lines" {
		srv := httptest.NewServer(s.handler(way == "events"))
		t.Cleanup(srv.Close)
		t.Cleanup(srv.CloseClientConnections)
		endpoint = srv.URL
	}
	limit := patience
	if want == "error" {
		limit = 2 * time.Second // some clients hang
	}
	ctx := within(t, limit)
	got, err := dial(t, endpoint, open, revision, who).do(ctx,
		request{Method: cmp.Or(s.method, protocol.MethodCallTool), Target: "good"})
	switch {
	case ctx.Err() != nil:
		return "hangs"
	case want == "error" && (err != nil || strings.HasPrefix(got, want)):
		return ""
	case err != nil:
		return fmt.Sprintf("error: %.200v", err)
	case s.ask != "" && who.asked["m"] != 1:
		return "nobody is asked"
	case !strings.HasSuffix(got, want):
		return fmt.Sprintf("got %.100s", got)
	}
	return ""
}
