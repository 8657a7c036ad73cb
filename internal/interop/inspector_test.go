//go:build node

package interop_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
)

// An inspection is one run of the MCP Inspector's command line.
type inspection struct {
	name string
	args []string
	want []string // parts of the output
	fail bool     // the run ends with an error
}

func inspections() []inspection {
	call := func(tool string, more ...string) []string {
		return append([]string{"--method", "tools/call", "--tool-name", tool}, more...)
	}
	return []inspection{
		{name: "list tools", args: []string{"--method", "tools/list"},
			want: []string{`"test_simple_text"`, `"inputSchema"`}},
		{name: "call", args: call("test_simple_text"),
			want: []string{"This is a simple text response for testing."}},
		{name: "call with arguments",
			args: call("test_x_mcp_header", "--tool-arg", "region=eu west", "level=3"),
			want: []string{`ran in region \"eu west\" at level 3`}},
		{name: "arguments that do not fit",
			args: call("json_schema_2020_12_tool", "--tool-arg", "name=Ada"),
			want: []string{`"isError":true`}, fail: true},
		{name: "image", args: call("test_image_content"), want: []string{`"image/png"`}},
		{name: "progress", args: call("test_tool_with_progress"),
			want: []string{"completed with progress"}},
		{name: "failure", args: call("test_error_handling"),
			want: []string{`"isError":true`, "intentionally"}, fail: true},
		// The Inspector cannot ask anyone and says so. The server names the missing capability.
		{name: "question", args: call("test_input_required_result_elicitation"),
			want: []string{"elicitation.form"}, fail: true},
		{name: "no such tool", args: call("nowhere"), want: []string{"nowhere"}, fail: true},
		{name: "list prompts", args: []string{"--method", "prompts/list"},
			want: []string{`"test_simple_prompt"`, `"arg1"`}},
		{name: "prompt", args: []string{"--method", "prompts/get", "--prompt-name",
			"test_prompt_with_arguments", "--prompt-args", "arg1=x", "arg2=y"},
			want: []string{"arg1='x', arg2='y'"}},
		{name: "list resources", args: []string{"--method", "resources/list"},
			want: []string{`"test://static-text"`}},
		{name: "list templates", args: []string{"--method", "resources/templates/list"},
			want: []string{`"test://template/{id}/data"`}},
		{name: "resource", args: []string{"--method", "resources/read", "--uri",
			"test://static-text"}, want: []string{"static text resource"}},
		{name: "resource template", args: []string{"--method", "resources/read", "--uri",
			"test://template/7/data"}, want: []string{`\"id\":\"7\"`}},
		{name: "no such resource", args: []string{"--method", "resources/read", "--uri",
			"test://nowhere"}, want: []string{"nowhere"}, fail: true},
	}
}

// TestInspector connects the MCP Inspector to internal/conformance/everything.
func TestInspector(t *testing.T) {
	dir, everything := installed(t), buildEverything(t)
	for _, revision := range []string{modern, v20251125} {
		for _, in := range inspections() {
			t.Run(revision+"/"+in.name+"/process", func(t *testing.T) {
				program, said := recordProcess(t, quote(everything))
				in.inspect(t, dir, revision, program, said)
			})
			t.Run(revision+"/"+in.name+"/http", func(t *testing.T) {
				endpoint, said := record(t, serveEverything(t, everything))
				in.inspect(t, dir, revision, endpoint, said)
			})
		}
	}
	// The Inspector negotiates here. Its default is a session, as in 2025.
	t.Run("negotiation/process",
		func(t *testing.T) { inspections()[0].run(t, dir, "auto", everything) })
	t.Run("negotiation/http", func(t *testing.T) {
		inspections()[0].run(t, dir, "auto",
			serveEverything(t, everything))
	})
}

// inspect runs an inspection in a revision, and checks the messages.
func (in inspection) inspect(t *testing.T, dir nodeDir, revision, target string, said said) {
	t.Helper()
	era := "legacy"
	if revision == modern {
		era = "modern"
	}
	in.run(t, dir, era, target)
	messages := said()
	conform(t, revision, wiretest.Server, messages, "")
	if n := legs(messages, protocol.MethodInitialize); n != 0 && revision == modern || n == 0 &&
		revision != modern {
		t.Errorf("%d sessions were opened", n)
	}
}

// run inspects target, a program or a URL.
func (in inspection) run(t *testing.T, dir nodeDir, era, target string) (printed string) {
	t.Helper()
	script := dir.file("@modelcontextprotocol", "inspector", "clients", "launcher", "build",
		"index.js")
	args := slices.Concat([]string{script, "--cli", "--protocol-era", era, "--format", "json",
		"--quiet"}, in.args)
	if strings.HasPrefix(target, "http:") {
		args = append(args, "--transport", "http", "--server-url", target)
	} else {
		args = append(args, "--", target)
	}
	cmd := exec.CommandContext(within(t, patience), dir.node(), args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir()) // the Inspector keeps a catalog there
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok ||
		(exit != nil) != in.fail {
		t.Errorf("%v\n%s", err, out)
	}
	for _, want := range in.want {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("%q is not part of %.1000s", want, out)
		}
	}
	return string(out)
}

func buildEverything(t *testing.T) (program string) {
	t.Helper()
	return buildProgram(t, "internal/conformance/everything")
}

func buildProgram(t *testing.T, folder string) (program string) {
	t.Helper()
	root, ok := wiretest.Root()
	if !ok {
		t.Fatal("the root of the module was not found")
	}
	program = filepath.Join(t.TempDir(), filepath.Base(folder))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	cmd.Dir = filepath.Join(root, folder) // the folder may be a module of its own
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// serveEverything starts the program and returns its endpoint.
func serveEverything(t *testing.T, program string) (endpoint string) {
	t.Helper()
	p := servertest.StartProcess(t, exec.Command(program, "-http", "127.0.0.1:0"))
	p.Quiet = true
	// The program ignores the end of its input.
	t.Cleanup(func() { _ = p.Cmd.Process.Signal(os.Interrupt) })
	return p.Line()
}
