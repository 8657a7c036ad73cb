package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// A lineClient is a client of one stream that works line by line.
type lineClient struct {
	testing.TB
	in    io.WriteCloser
	lines *bufio.Scanner
	ended chan error
	note  func(from wiretest.From, line string) // is told of each line
}

func serveLineClient(t testing.TB, ctx context.Context, s *server.Server, inR, outR io.ReadCloser,
	inW, outW io.WriteCloser, opts *server.StreamOptions) *lineClient {
	c := &lineClient{TB: t, in: inW, lines: bufio.NewScanner(outR), ended: make(chan error, 1),
		note: func(wiretest.From, string) {}}
	go func() {
		c.ended <- s.ServeStream(ctx, inR, outW, opts)
		inR.Close()
		outW.Close()
	}()
	return c
}

// pipes returns a client of both eras on one stream over OS pipes. Modern ids begin with "m. Lines
// are checked against the schema of their era.
func (h *harness) pipes(version string, opts *server.StreamOptions) *lineClient {
	h.Helper()
	inR, inW, err := os.Pipe()
	noError(h, err)
	outR, outW, err := os.Pipe()
	noError(h, err)
	c := serveLineClient(h.T, context.Background(), h.Server, inR, outR, inW, outW, opts)
	var modern, legacy wiretest.Log
	c.note = func(from wiretest.From, line string) {
		if strings.Contains(line, `"id":"m`) {
			modern.Add(from, []byte(line))
		} else {
			legacy.Add(from, []byte(line))
		}
	}
	h.Cleanup(func() {
		inW.Close()
		noError(c, <-c.ended)
		rest, _ := io.ReadAll(outR)
		wantEqual(c, "more was written", string(rest), "")
		outR.Close()
		wiretest.Conform(h.T, version, legacy.Messages())
		wiretest.Conform(h.T, "2026-07-28", modern.Messages())
	})
	return c
}

func (c *lineClient) say(line string) {
	c.Helper()
	c.note(wiretest.Client, line)
	write(c, c.in, line+"\n")
}

// expect reads one line, which must contain all parts.
func (c *lineClient) expect(parts ...string) string {
	c.Helper()
	if !c.lines.Scan() {
		c.Fatalf("the stream ended with %v, want a line with %q", c.lines.Err(), parts)
	}
	line := c.lines.Text()
	c.note(wiretest.Server, line)
	for _, part := range parts {
		if !strings.Contains(line, part) {
			c.Fatalf("got %s, want %s in it", line, part)
		}
	}
	return line
}

func (c *lineClient) ask(line string, parts ...string) string {
	c.Helper()
	c.say(line)
	return c.expect(parts...)
}

func initializeLine(id, version string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{"elicitation":{},"roots":{}},"clientInfo":{"name":"c","version":"1"}}}`, id, version)
}

const (
	initializedLine = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	askLine         = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask"}}`
)

func questionID(t *testing.T, line string) string {
	t.Helper()
	var req struct {
		ID     json.RawMessage
		Method string
	}
	if err := json.Unmarshal([]byte(line), &req); err != nil || req.Method == "" ||
		len(req.ID) == 0 {
		t.Fatalf("%s is no question: %v", line, err)
	}
	return string(req.ID)
}

// A session and modern requests are served on one stream, nested.
func TestStdioBothEras(t *testing.T) {
	for _, v := range []string{"2025-06-18", "2025-11-25"} {
		h := newHarness(t, nil)
		addAsker(h)
		c := h.pipes(v, nil)
		c.ask(`{"jsonrpc":"2.0","id":0,"method":"ping"}`, `"id":0,"result":{}`)
		c.ask(line(`"m0"`, "tools/list", ""), `"id":"m0"`, `"resultType":"complete"`)
		c.say(initializeLine("1", v))
		c.ask(initializedLine, `"id":1`, `"protocolVersion":"`+v+`"`)
		c.say(askLine)
		question := questionID(t, c.expect(`"method":"elicitation/create"`))

		modern := strings.Replace(line(`"m1"`, "tools/call", `"name":"ask"`),
			protocol.MetaClientCapabilities+`":{}`,
			protocol.MetaClientCapabilities+`":{"elicitation":{}}`, 1)
		c.ask(modern, `"id":"m1"`, `"resultType":"input_required"`)
		c.say(`{"jsonrpc":"2.0","id":"m2","method":"server/discover","params":{"_meta":{"` + protocol.MetaProtocolVersion + `":"2026-07-28","` + protocol.MetaClientCapabilities + `":{}}}}`)
		c.expect(`"id":"m2"`, "supportedVersions")

		c.say(`{"jsonrpc":"2.0","id":` + question + `,"result":` + acceptedNow + `}`)
		c.expect(`"id":2`, `"text":"now"`)
		c.ask(initializeLine("3", v), `"id":3`, "-32600")
		c.in.Close()
	}
}

func TestStdioNews(t *testing.T) {
	h := newHarness(t, nil)
	h.plain()
	c := h.pipes("2024-11-05", nil)
	c.ask(initializeLine("1", "2024-11-05"), `"id":1`)
	h.RemoveTool("x")
	c.ask(initializedLine, "notifications/tools/list_changed")
}

// After the end of input no answer is awaited.
func TestStdioEndOfInput(t *testing.T) {
	h := newHarness(t, nil)
	addAsker(h)
	c := h.pipes("2025-11-25", &server.StreamOptions{Grace: time.Minute})
	c.ask(initializeLine("1", "2025-11-25"), `"id":1`)
	c.say(askLine)
	questionID(t, c.expect())
	c.in.Close()
	c.expect(`"id":2`, "could not be asked")
}

// Only 2025-03-26 has batches.
func TestStdioBatches(t *testing.T) {
	const ping, list = `{"jsonrpc":"2.0","id":7,"method":"ping"}`, `{"jsonrpc":"2.0","id":8,"method":"tools/list"}`
	h := newHarness(t, nil)
	h.plain()
	h.tool("roots", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		roots, err := call.Push(ctx, &protocol.ListRoots{})
		if err != nil {
			return nil, err
		}
		return server.Text(string(roots)), nil
	})
	c := h.pipes("2025-03-26", nil)
	c.ask(initializeLine("1", "2025-03-26"), `"id":1`)
	c.say("[" + ping + "," + initializedLine + "," + list + "]")
	line := c.expect(`"id":7`, `"id":8`)
	if !strings.HasPrefix(line, "[") {
		t.Errorf("a batch is answered with %s", line)
	}
	c.say("[" + initializedLine + "]") // not answered
	c.say(`[{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"roots"}},{"jsonrpc":"2.0","id":10,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}]`)
	question := questionID(t, c.expect("roots/list"))
	c.say(`[{"jsonrpc":"2.0","id":` + question + `,"result":{"roots":[{"uri":"file:///src"}]}}]`)
	c.expect(`"id":9`, "file:///src", `"id":10`, "-32600")
	// Refused without an id, for which that revision's schema has no shape.
	write(t, c.in, "["+strings.Repeat(ping+",", 100)+ping+"]\n")
	if !c.lines.Scan() || !strings.Contains(c.lines.Text(), "-32600") {
		t.Errorf("too large a batch: got %s", c.lines.Text())
	}

	other := h.pipes("2025-11-25", nil)
	other.ask(initializeLine("1", "2025-11-25"), `"id":1`)
	write(t, other.in, "["+ping+"]\n")
	other.expect("-32600")
}
