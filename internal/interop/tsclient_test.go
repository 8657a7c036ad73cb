//go:build node

package interop_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
)

// TestTSClient connects the TypeScript SDK's client, in its own process, to our server.
func TestTSClient(t *testing.T) {
	ts := startTS(t, "client")
	pinned := map[string]string{"pin": modern}
	matrix(t, modern, wiretest.Server, ts.routes(pinned), map[string]defect{
		"resource twice": {
			what: "what took an answer is cached all the same, and the second reading is served " +
				"from there",
			want: "opened: it is tested", legs: 2, asked: 1,
		},
		"progress": {
			what: "progress that is read together with the response is dropped: who waits " +
				"for it is let go of first",
			harmless: true, silent: true,
		},
	})
	// The client negotiates here. Its default is a session, as in 2025.
	for _, r := range ts.routes("auto") {
		t.Run("negotiation/"+r.name,
			func(t *testing.T) {
				named(t, "single round").run(t, modern, wiretest.Server, r,
					defect{})
			})
	}
}

// In TestTSClientLegacy the same client opens a session.
func TestTSClientLegacy(t *testing.T) {
	ts := startTS(t, "client")
	matrix(t, v20251125, wiretest.Server, ts.routes("legacy"), nil)
}

// TestTSSDKLegacy uses the SDK's previous generation, which knows older revisions only.
func TestTSSDKLegacy(t *testing.T) {
	ts := startTS(t, "sdk")
	matrix(t, v20251125, wiretest.Server, ts.routes(nil), nil)
}

// A tsProcess is testdata/client.mjs, with one connection at a time. Its methods must not overlap.
type tsProcess struct {
	*servertest.Process
	lines     *bufio.Scanner
	lastID    int
	connected bool
}

func startTS(t *testing.T, module string) *tsProcess {
	t.Helper()
	process := startNode(t, "client.mjs", module)
	lines := bufio.NewScanner(process.Out)
	lines.Buffer(nil, 16<<20) // list results are long
	return &tsProcess{Process: process, lines: lines}
}

// routes returns routes to the subject: over HTTP, and to a process that the client starts.
func (ts *tsProcess) routes(negotiate any) []route {
	return []route{
		{"http", func(t *testing.T, who *person, mute bool) (peer, said) {
			endpoint, said := listen(t, servertest.NewHandler(t, newSubject(t), nil))
			return ts.connect(t, who, map[string]any{"endpoint": endpoint, "mute": mute,
				"negotiate": negotiate}), said
		}},
		{"process", func(t *testing.T, who *person, mute bool) (peer, said) {
			return ts.process(t, asSubject+"=yes", who, mute, negotiate)
		}},
	}
}

// process connects to this program as another program, which the client starts.
func (ts *tsProcess) process(t *testing.T, as string, who *person, mute bool,
	negotiate any) (peer, said) {
	t.Helper()
	program, said := recordProcess(t, processAs(t, as))
	client := ts.connect(t, who,
		map[string]any{"program": program, "mute": mute, "negotiate": negotiate})
	return client, func() []wiretest.Message {
		client.disconnect()
		return said()
	}
}

func (ts *tsProcess) connect(t *testing.T, who *person, where map[string]any) tsClient {
	t.Helper()
	client := tsClient{ts, who}
	ts.connected = true
	if _, err := client.tell(within(t, patience), "connect", where); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.disconnect)
	return client
}

// A tsClient is a tsProcess with its user.
type tsClient struct {
	*tsProcess
	who *person
}

func (c tsClient) do(ctx context.Context, r request) (string, error) {
	return c.tell(ctx, "request", r)
}

// disconnect closes the session's open stream. The server's end would wait for it.
func (c tsClient) disconnect() {
	if !c.connected {
		return
	}
	c.connected = false
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := c.tell(ctx, "disconnect", true); err != nil {
		c.who.t.Error(err)
	}
}

// tell executes a command. Meanwhile it answers the process's questions.
func (c tsClient) tell(ctx context.Context, what string, value any) (string, error) {
	defer context.AfterFunc(ctx, func() { _ = c.Cmd.Process.Kill() })()
	c.lastID++
	if err := c.write(map[string]any{"id": c.lastID, what: value}); err != nil {
		return "", err
	}
	for c.lines.Scan() {
		var heard struct {
			ID       int     `json:"id"`
			Text     string  `json:"text"`
			Error    *string `json:"error"`
			Ask      int     `json:"ask"`
			Question string  `json:"question"`
			URL      string  `json:"url"`
			Progress bool    `json:"progress"`
			Changed  bool    `json:"changed"`
		}
		if err := json.Unmarshal(c.lines.Bytes(), &heard); err != nil {
			return "", fmt.Errorf("client.mjs says %.200q: %w", c.lines.Text(), err)
		}
		switch {
		case heard.Progress:
			c.who.progress <- struct{}{}
		case heard.Changed:
			c.who.changed <- struct{}{}
		case heard.Ask != 0:
			if heard.URL != "" && c.who.open != nil {
				c.who.open(ctx, heard.URL)
			}
			if err := c.write(map[string]any{"answer": heard.Ask,
				"text": c.who.answer(heard.Question)}); err != nil {
				return "", err
			}
		case heard.ID != c.lastID:
			return "", fmt.Errorf("client.mjs says %.200q, not in its turn", c.lines.Text())
		case heard.Error != nil:
			return "", errors.New(*heard.Error)
		default:
			return heard.Text, nil
		}
	}
	return "", errors.Join(errors.New("client.mjs has ended"), c.lines.Err(), ctx.Err())
}

func (c tsClient) write(message any) error {
	return json.NewEncoder(c.In).Encode(message)
}

func named(t *testing.T, name string) scenario {
	t.Helper()
	i := slices.IndexFunc(scenarios(), func(s scenario) bool { return s.name == name })
	if i < 0 {
		t.Fatalf("there is no scenario %q", name)
	}
	return scenarios()[i]
}
