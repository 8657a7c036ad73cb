//go:build node

package interop_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"testing"

	"github.com/rondo-mcp/rondo/internal/wiretest"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// TestTSClient: the TypeScript SDK's client, in a process of its own, our server.
func TestTSClient(t *testing.T) {
	ts := startTS(t)
	pinned := map[string]string{"pin": modern}
	matrix(t, modern, wiretest.Server, []route{{"http", ts.opener(pinned)}}, map[string]defect{
		"resource twice": {
			what: "what took an answer is cached all the same, and the second reading is served from there",
			want: "opened: it is tested", legs: 2, asked: 1,
		},
	})
	// It finds out by itself which revision is spoken. Its default is another: to speak as if it were 2025.
	t.Run("negotiation", func(t *testing.T) {
		named(t, "single round").run(t, modern, wiretest.Server, route{open: ts.opener("auto")}, defect{})
	})
}

// tsProcess is testdata/client.mjs, which connects to one server after another. Its methods must not overlap.
type tsProcess struct {
	in     io.Writer
	out    *bufio.Scanner
	stderr bytes.Buffer // read after the process has ended
	kill   func() error
	lastID int
}

func startTS(t *testing.T) *tsProcess {
	t.Helper()
	dir := installed(t)
	cmd := exec.Command(dir.node(), "testdata/client.mjs", string(dir))
	ts := &tsProcess{}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = &ts.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ts.in, ts.out, ts.kill = in, bufio.NewScanner(out), cmd.Process.Kill
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil || ts.stderr.Len() > 0 {
			t.Errorf("client.mjs: %v\n%s", err, &ts.stderr)
		}
	})
	return ts
}

// opener returns how to connect the process to the subject, in the revision that negotiate says.
func (ts *tsProcess) opener(negotiate any) func(*testing.T, *person, bool) (peer, said) {
	return func(t *testing.T, who *person, mute bool) (peer, said) {
		endpoint, said := listen(t, serverhttp.New(newSubject(t), nil))
		client := tsClient{ts, who}
		where := map[string]any{"endpoint": endpoint, "mute": mute, "negotiate": negotiate}
		if _, err := client.tell(within(t, patience), "connect", where); err != nil {
			t.Fatal(err)
		}
		return client, said
	}
}

// tsClient is the process with a person behind it.
type tsClient struct {
	*tsProcess
	who *person
}

func (c tsClient) do(ctx context.Context, r request) (string, error) {
	return c.tell(ctx, "request", r)
}

// tell has something done, and answers what the process asks until it is.
func (c tsClient) tell(ctx context.Context, what string, value any) (string, error) {
	defer context.AfterFunc(ctx, func() { _ = c.kill() })()
	c.lastID++
	if err := c.write(map[string]any{"id": c.lastID, what: value}); err != nil {
		return "", err
	}
	for c.out.Scan() {
		var heard struct {
			ID       int     `json:"id"`
			Text     string  `json:"text"`
			Error    *string `json:"error"`
			Ask      int     `json:"ask"`
			Question string  `json:"question"`
			Progress bool    `json:"progress"`
		}
		if err := json.Unmarshal(c.out.Bytes(), &heard); err != nil {
			return "", fmt.Errorf("client.mjs says %q: %w", c.out.Text(), err)
		}
		switch {
		case heard.Progress:
			c.who.progress <- struct{}{}
		case heard.Ask != 0:
			if err := c.write(map[string]any{"answer": heard.Ask, "text": c.who.answer(heard.Question)}); err != nil {
				return "", err
			}
		case heard.ID != c.lastID:
			return "", fmt.Errorf("client.mjs says %q, not in its turn", c.out.Text())
		case heard.Error != nil:
			return "", errors.New(*heard.Error)
		default:
			return heard.Text, nil
		}
	}
	return "", errors.Join(errors.New("client.mjs has ended"), c.out.Err(), ctx.Err())
}

func (c tsClient) write(message any) error {
	return json.NewEncoder(c.in).Encode(message)
}
