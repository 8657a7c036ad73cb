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

// A pipeClient is a client of both eras on one stream over real pipes. Modern
// requests have ids that begin with "m. All lines are held against the schema of
// their era.
type pipeClient struct {
	*testing.T
	in             *os.File
	lines          *bufio.Scanner
	modern, legacy wiretest.Log
	ended          chan error
}

func (h *harness) pipes(version string, opts *server.StreamOptions) *pipeClient {
	h.Helper()
	inR, inW, err := os.Pipe()
	noError(h, err)
	outR, outW, err := os.Pipe()
	noError(h, err)
	c := &pipeClient{T: h.T, in: inW, lines: bufio.NewScanner(outR), ended: make(chan error, 1)}
	go func() {
		c.ended <- h.ServeStream(context.Background(), inR, outW, opts)
		inR.Close()
		outW.Close()
	}()
	h.Cleanup(func() {
		inW.Close()
		noError(c, <-c.ended)
		rest, _ := io.ReadAll(outR)
		if len(rest) > 0 {
			c.Errorf("more was written: %s", rest)
		}
		outR.Close()
		wiretest.Conform(c.T, version, c.legacy.Messages())
		wiretest.Conform(c.T, "2026-07-28", c.modern.Messages())
	})
	return c
}

func (c *pipeClient) say(line string) {
	c.Helper()
	log := &c.legacy
	if strings.Contains(line, `"id":"m`) {
		log = &c.modern
	}
	log.Add(wiretest.Client, []byte(line))
	write(c, c.in, line+"\n")
}

func (c *pipeClient) hear() string {
	c.Helper()
	if !c.lines.Scan() {
		c.Fatalf("the stream ended: %v", c.lines.Err())
	}
	line := c.lines.Text()
	log := &c.legacy
	if strings.Contains(line, `"id":"m`) {
		log = &c.modern
	}
	log.Add(wiretest.Server, []byte(line))
	return line
}

// expect reads one line, which must say all the words.
func (c *pipeClient) expect(words ...string) string {
	c.Helper()
	line := c.hear()
	for _, w := range words {
		if !strings.Contains(line, w) {
			c.Fatalf("got %s, want %q in it", line, w)
		}
	}
	return line
}

func initializeLine(id, version string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{"elicitation":{},"roots":{}},"clientInfo":{"name":"c","version":"1"}}}`, id, version)
}

const (
	initializedLine = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	askLine         = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask"}}`
)

// questionID returns the id of a question.
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

// TestStdioBothEras serves a session and modern requests on one stream, one
// within the other.
func TestStdioBothEras(t *testing.T) {
	for _, v := range []string{"2025-06-18", "2025-11-25"} {
		h := newHarness(t, nil)
		addAsker(h)
		c := h.pipes(v, nil)
		c.say(`{"jsonrpc":"2.0","id":0,"method":"ping"}`)
		c.expect(`"id":0,"result":{}`)
		c.say(line(`"m0"`, "tools/list", ""))
		c.expect(`"id":"m0"`, `"resultType":"complete"`)
		c.say(initializeLine("1", v))
		c.say(initializedLine)
		c.expect(`"id":1`, `"protocolVersion":"`+v+`"`)
		c.say(askLine)
		question := questionID(t, c.expect(`"method":"elicitation/create"`))

		modern := strings.Replace(line(`"m1"`, "tools/call", `"name":"ask"`),
			protocol.MetaClientCapabilities+`":{}`,
			protocol.MetaClientCapabilities+`":{"elicitation":{}}`, 1)
		c.say(modern)
		c.expect(`"id":"m1"`, `"resultType":"input_required"`)
		c.say(`{"jsonrpc":"2.0","id":"m2","method":"server/discover","params":{"_meta":{"` + protocol.MetaProtocolVersion + `":"2026-07-28","` + protocol.MetaClientCapabilities + `":{}}}}`)
		c.expect(`"id":"m2"`, "supportedVersions")

		c.say(`{"jsonrpc":"2.0","id":` + question + `,"result":` + acceptedNow + `}`)
		c.expect(`"id":2`, `"text":"now"`)
		c.say(initializeLine("3", v))
		c.expect(`"id":3`, "-32600")
		c.in.Close()
	}
}

// TestStdioNews tells of changes between requests.
func TestStdioNews(t *testing.T) {
	h := newHarness(t, nil)
	h.plain()
	c := h.pipes("2024-11-05", nil)
	c.say(initializeLine("1", "2024-11-05"))
	c.expect(`"id":1`)
	h.RemoveTool("x")
	c.say(initializedLine)
	c.expect("notifications/tools/list_changed")
}

// TestStdioEndOfInput: nobody is left to answer, so nobody is waited for.
func TestStdioEndOfInput(t *testing.T) {
	h := newHarness(t, nil)
	addAsker(h)
	c := h.pipes("2025-11-25", &server.StreamOptions{Grace: time.Minute})
	c.say(initializeLine("1", "2025-11-25"))
	c.expect(`"id":1`)
	c.say(askLine)
	questionID(t, c.hear())
	c.in.Close()
	c.expect(`"id":2`, "could not be asked")
}

// TestStdioBatches has them in 2025-03-26 and in no other revision.
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
	c.say(initializeLine("1", "2025-03-26"))
	c.expect(`"id":1`)
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
	other.say(initializeLine("1", "2025-11-25"))
	other.expect(`"id":1`)
	write(t, other.in, "["+ping+"]\n")
	other.expect("-32600")
}
