//go:build node

package mcpgo_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/proctest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// TestTypeScriptClients: the clients of both generations of the TypeScript SDK,
// @modelcontextprotocol/client in both eras and @modelcontextprotocol/sdk in
// the older, over HTTP and with the server as a process of theirs. The packages
// and the script are those of internal/interop.
func TestTypeScriptClients(t *testing.T) {
	for _, tc := range []struct {
		module, revision string
		negotiate        any
	}{
		{"client", modern, map[string]string{"pin": modern}},
		{"client", v20251125, "legacy"},
		{"sdk", v20251125, nil},
	} {
		ts := startTS(t, tc.module)
		for _, style := range []string{"changed", "unmodified"} {
			for _, sc := range flowScenarios() {
				name := tc.module + "/" + tc.revision + "/" + style + "/" + sc.name
				t.Run(name+"/http", func(t *testing.T) {
					s := newHostServer()
					addStyle(s, style)
					a := install(t, s, &mcpgo.Options{UnmodifiedHandlers: style == "unmodified"})
					endpoint, said := serveHTTP(t, a, s)
					t.Cleanup(func() { conform(t, tc.revision, said()) })
					ts.play(t, map[string]any{"endpoint": endpoint, "negotiate": tc.negotiate}, sc)
				})
				t.Run(name+"/process", func(t *testing.T) {
					ts.play(t, map[string]any{"program": hostProgram(t, style),
						"negotiate": tc.negotiate}, sc)
				})
			}
		}
	}
}

// hostProgram returns a program that starts this one as a server.
func hostProgram(t *testing.T, style string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "host")
	script := "#!/bin/sh\n" + asHost + "=" + style + " exec '" + self + "'\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return program
}

// play connects the script and plays one scenario.
func (p *tsPeer) play(t *testing.T, where map[string]any, sc scenario) {
	t.Helper()
	p.who = newPerson(sc.answers)
	if _, err := p.tell(context.Background(), "connect", where); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := p.tell(context.Background(), "disconnect", true); err != nil {
			t.Error(err)
		}
	})
	got, err := sc.call(within(t), p)
	if err != nil || got != sc.want {
		t.Errorf("got %q, %v, want %q", got, err, sc.want)
	}
	p.who.once(t, slices.DeleteFunc(slices.Clone(sc.asked),
		func(q string) bool { return q == "sampling" })...)
}

// tsPeer is the script, with a person behind it.
type tsPeer struct {
	*proctest.Process
	lines *bufio.Scanner
	last  int
	who   *person
}

func startTS(t *testing.T, module string) *tsPeer {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(cache, "rondo-interop", "node-*-sdk-*"))
	if err != nil || len(found) == 0 {
		t.Fatal("the npm packages are not there: go test -tags node ./internal/interop fetches them")
	}
	dir := slices.Max(found)
	cmd := exec.Command(filepath.Join(dir, "node_modules", "node", "bin", "node"),
		filepath.Join("..", "..", "internal", "interop", "testdata", "client.mjs"), dir, module)
	process := proctest.Start(t, cmd)
	return &tsPeer{Process: process, lines: bufio.NewScanner(process.Out)}
}

func (p *tsPeer) request(ctx context.Context, method, target string,
	args map[string]any) (string, error) {
	return p.tell(ctx, "request", map[string]any{"method": method, "target": target, "args": args})
}

func (p *tsPeer) tool(ctx context.Context, name string, args map[string]any) (string, error) {
	return p.request(ctx, protocol.MethodCallTool, name, args)
}

func (p *tsPeer) prompt(ctx context.Context, name string) (string, error) {
	return p.request(ctx, protocol.MethodGetPrompt, name, nil)
}

func (p *tsPeer) resource(ctx context.Context, uri string) (string, error) {
	return p.request(ctx, protocol.MethodReadResource, uri, nil)
}

// tell has something done, and answers what is asked until it is.
func (p *tsPeer) tell(ctx context.Context, what string, value any) (string, error) {
	defer context.AfterFunc(ctx, func() { _ = p.Cmd.Process.Kill() })()
	p.last++
	if err := p.write(map[string]any{"id": p.last, what: value}); err != nil {
		return "", err
	}
	for p.lines.Scan() {
		var heard struct {
			Text     string  `json:"text"`
			Error    *string `json:"error"`
			Ask      int     `json:"ask"`
			Question string  `json:"question"`
		}
		if err := json.Unmarshal(p.lines.Bytes(), &heard); err != nil {
			return "", fmt.Errorf("client.mjs says %q: %w", p.lines.Text(), err)
		}
		switch {
		case heard.Ask != 0:
			if err := p.write(map[string]any{"answer": heard.Ask,
				"text": p.reply(heard.Question)}); err != nil {
				return "", err
			}
		case heard.Error != nil:
			return "", errors.New(*heard.Error)
		default:
			return heard.Text, nil
		}
	}
	return "", errors.Join(errors.New("client.mjs has ended"), p.lines.Err(), ctx.Err())
}

// reply is what the script takes for an answer.
func (p *tsPeer) reply(question string) string {
	switch {
	case question == "Summarize.":
		return summary
	case question == "Third?":
		p.who.answer(question)
		return "{}"
	case !slices.Contains(slices.Collect(maps.Keys(p.who.answers)), question):
		return rootURI
	}
	action, content := p.who.answer(question)
	if content == nil {
		return action
	}
	return string(content)
}

func (p *tsPeer) write(message any) error { return json.NewEncoder(p.In).Encode(message) }
