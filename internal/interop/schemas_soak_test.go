//go:build node && soak

package interop_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// realServers are public servers that list their tools without an account, or with a made-up key.
var realServers = []struct {
	name, version, program string
	args, env              []string
}{
	{"@modelcontextprotocol/server-everything", "2026.8.31", "mcp-server-everything", nil, nil},
	{"@modelcontextprotocol/server-filesystem", "2026.8.31", "mcp-server-filesystem",
		[]string{"."}, nil},
	{"@modelcontextprotocol/server-memory", "2026.8.31", "mcp-server-memory", nil, nil},
	{"@modelcontextprotocol/server-sequential-thinking", "2026.8.31",
		"mcp-server-sequential-thinking", nil, nil},
	{"@modelcontextprotocol/server-github", "2025.4.8", "mcp-server-github", nil, nil},
	{"@modelcontextprotocol/server-gitlab", "2025.4.25", "mcp-server-gitlab", nil,
		[]string{"GITLAB_PERSONAL_ACCESS_TOKEN=x"}},
	{"@playwright/mcp", "0.0.83", "playwright-mcp",
		[]string{"--caps=vision,pdf,devtools,testing,storage,network,config"}, nil},
	{"@upstash/context7-mcp", "4.1.1", "context7-mcp", nil, nil},
	{"chrome-devtools-mcp", "1.11.0", "chrome-devtools-mcp", nil, nil},
	{"firecrawl-mcp", "3.26.0", "firecrawl-mcp", nil, []string{"FIRECRAWL_API_KEY=fc-x"}},
	{"@notionhq/notion-mcp-server", "2.5.2", "notion-mcp-server", nil,
		[]string{"NOTION_TOKEN=ntn_x"}},
	{"@antv/mcp-server-chart", "0.9.10", "mcp-server-chart", nil, nil},
	{"@brave/brave-search-mcp-server", "2.1.4", "brave-search-mcp-server", nil,
		[]string{"BRAVE_API_KEY=x"}},
	{"tavily-mcp", "0.2.22", "tavily-mcp", nil, []string{"TAVILY_API_KEY=x"}},
	{"@circleci/mcp-server-circleci", "0.20.0", "mcp-server-circleci", nil,
		[]string{"CIRCLECI_TOKEN=x"}},
	{"@zereight/mcp-gitlab", "2.1.64", "zereight-mcp-gitlab", nil,
		[]string{"GITLAB_PERSONAL_ACCESS_TOKEN=x", "GITLAB_TOOLSETS=all"}},
	{"mcp-server-kubernetes", "4.1.7", "mcp-server-kubernetes", nil, nil},
	{"@mobilenext/mobile-mcp", "1.0.4", "mcp-server-mobile", nil, nil},
}

// TestRealSchemas: every client lists and calls public servers' tools on a server of ours, which
// sends the published schemas unchanged. Run it by hand: it fetches the servers.
//
//	go test -tags node,soak -v -run TestRealSchemas .
func TestRealSchemas(t *testing.T) {
	packages := []string{"--ignore-scripts", "--omit=optional"}
	for _, s := range realServers {
		packages = append(packages, s.name+"@"+s.version)
	}
	cache, err := os.UserCacheDir()
	noError(t, err)
	dir := nodeDir(filepath.Join(cache, "rondo-interop", "servers-1")) // raise with the versions
	fetch(t, dir, packages...)

	srv, published := newSchemaServer(t), map[string]definition{}
	for _, s := range realServers {
		list := listTools(t, dir, s.program, s.args, s.env)
		result, err := protocol.DecodeResult(protocol.V20251125, protocol.MethodListTools, list)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		tools := result.(*protocol.ListToolsResult).Tools
		raw := definitionsOf(t, list)
		if len(tools) != len(raw) {
			t.Errorf("%s: %d of %d tools can be read", s.name, len(tools), len(raw))
		}
		t.Logf("%s@%s: %d tools", s.name, s.version, len(tools))
		for _, x := range tools {
			original := raw[x.Name]
			x.Name = s.program + "." + x.Name
			published[x.Name] = original
			addSchema(t, srv, x)
		}
	}
	checkSchemas(t, srv, len(published), func(t *testing.T, sent map[string]definition) {
		for name, want := range published {
			got := sent[name]
			if !bytes.Equal(compactly(t, got.InputSchema), compactly(t, want.InputSchema)) ||
				!bytes.Equal(compactly(t, got.OutputSchema), compactly(t, want.OutputSchema)) ||
				got.Title != want.Title || got.Description != want.Description ||
				!reflect.DeepEqual(valueOf(t, got.Annotations, ""),
					valueOf(t, want.Annotations, "")) ||
				!reflect.DeepEqual(valueOf(t, got.Meta, ""), valueOf(t, want.Meta, "")) {
				t.Errorf("%s is published as %s, and was %s", name, got, want)
			}
		}
	})
}

// addSchema registers a server's tool. It answers with its arguments, or a value of its schema.
func addSchema(t *testing.T, srv *server.Server, x protocol.Tool) {
	t.Helper()
	var structured json.RawMessage
	if x.OutputSchema != nil {
		var err error
		if structured, err = json.Marshal(sampleOf(t, x.OutputSchema)); err != nil {
			t.Fatal(err)
		}
	}
	server.AddRawTool(srv, server.Tool{Name: x.Name, Title: x.Title, Description: x.Description,
		Icons: x.Icons, InputSchema: x.InputSchema, OutputSchema: x.OutputSchema,
		Annotations: x.Annotations, Meta: x.Meta}, func(_ context.Context,
		call *server.ToolCall) (protocol.CallToolOutcome, error) {
		result := server.Text(string(call.Arguments))
		result.StructuredContent = structured
		return result, nil
	})
}

// The function compactly returns JSON without spaces between its tokens, which stay unchanged.
func compactly(t *testing.T, raw json.RawMessage) []byte {
	t.Helper()
	if raw == nil {
		return nil
	}
	var compact bytes.Buffer
	noError(t, json.Compact(&compact, raw))
	return compact.Bytes()
}

// listTools starts a server and returns the raw result of tools/list.
func listTools(t *testing.T, dir nodeDir, program string, args, env []string) json.RawMessage {
	t.Helper()
	node := installed(t)
	ctx, cancel := context.WithCancel(within(t, patience))
	cmd := exec.CommandContext(ctx, node.node(), append([]string{dir.file(".bin", program)},
		args...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{"PATH=" + filepath.Dir(node.node()) + ":/usr/bin:/bin",
		"HOME=" + cmd.Dir}, env...)
	in, err := cmd.StdinPipe()
	noError(t, err)
	out, err := cmd.StdoutPipe()
	noError(t, err)
	noError(t, cmd.Start())
	defer func() {
		cancel()
		_ = cmd.Wait()
	}()
	lines := bufio.NewReader(out)
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
			`"capabilities":{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}},` +
			`"clientInfo":{"name":"interop","version":"1.0.0"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`} {
		if _, err := in.Write([]byte(message + "\n")); err != nil {
			t.Fatal(err)
		}
		for strings.Contains(message, `"id"`) {
			answer, err := lines.ReadBytes('\n')
			if err != nil {
				t.Fatalf("%s: %v", program, err)
			}
			var body struct {
				ID     int
				Result json.RawMessage
			}
			if json.Unmarshal(answer, &body) == nil && body.Result != nil {
				if body.ID == 2 {
					return body.Result
				}
				break
			}
		}
	}
	return nil
}
