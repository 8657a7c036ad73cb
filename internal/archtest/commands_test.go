package archtest_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

var (
	inlineCode = regexp.MustCompile("`(go (?:run|test) [^`]+)`")
	goCommand  = regexp.MustCompile(`^go (?:run|test)\b`)
)

// checks is the script that every change has to pass.
const checks = ".ci/run"

// elsewhere are commands of the pages that it runs, and the step that does.
var elsewhere = map[string]string{
	"go test ./...":                "readme_tests", // reads it from README.md
	"go run ./examples/quickstart": "go run ./examples/quickstart",
}

// benchmarking is the page whose commands take minutes, or write files. They are built, no more.
const benchmarking = "internal/benchmarks/README.md"

// commandsOf returns the commands with which a page has its reader run or test something.
func commandsOf(page string) []string {
	var commands []string
	add := func(line string) {
		line, _, _ = strings.Cut(line, " #")
		commands = append(commands, strings.TrimSpace(line))
	}
	inBlock := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "```") {
			inBlock = !inBlock
		} else if inBlock && goCommand.MatchString(line) {
			add(line)
		}
	}
	for _, command := range inlineCode.FindAllStringSubmatch(page, -1) {
		add(command[1])
	}
	return commands
}

// TestPagesCommandsRun runs the commands of the pages, or finds them where the checks of a change
// run them. It builds most of the workspace: from an empty cache that takes a minute.
func TestPagesCommandsRun(t *testing.T) {
	if !testkit.Slow {
		t.Skip("builds programs of all modules: runs with the tag slow")
	}
	ran := make(map[string]bool)
	for _, page := range pages(t) {
		t.Run(page, func(t *testing.T) {
			dir := root(t)
			switch page {
			case "examples/README.md":
				dir = typedModule(t)
			case benchmarking:
				dir = filepath.Join(dir, "internal", "benchmarks")
			}
			for _, command := range commandsOf(readPage(t, page)) {
				where := dir
				if strings.Contains(command, " ./examples/") {
					where = root(t)
				}
				if ran[where+command] {
					continue
				}
				ran[where+command] = true
				step, ok := elsewhere[command]
				switch {
				case ok:
					if !regexp.MustCompile(`(?m)^step .*` + regexp.QuoteMeta(step) + `$`).
						MatchString(readPage(t, checks)) {
						t.Errorf("%s does not run %q", checks, command)
					}
				case page == benchmarking:
					buildOnly(t, root(t), dir, command)
				default:
					runCommand(t, where, command)
				}
			}
		})
	}
	if len(ran) == 0 {
		t.Error("the pages have no commands")
	}
}

// buildOnly builds what a command runs.
func buildOnly(t *testing.T, root, dir, command string) {
	t.Helper()
	words := strings.Fields(command)
	if words[1] == "run" {
		runCommand(t, root, "go vet "+words[2])
		return
	}
	runCommand(t, dir, "go test -run ^$ "+words[len(words)-1])
}

// runCommand runs a command for a person who has answers to give.
func runCommand(t *testing.T, dir, command string) {
	t.Helper()
	args := strings.Fields(command)
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = dir
	if dir == root(t) {
		cmd.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=")
	}
	cmd.Stdin = strings.NewReader("{\"people\":3}\n{}\n")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Errorf("%s: %v\n%s", command, err, out.String())
	}
	const booked = "a table for 3, garden"
	if strings.HasSuffix(command, "-try") && !strings.Contains(out.String(), booked) {
		t.Errorf("%s printed\n%s", command, out.String())
	}
}

// typedModule returns the module of a reader who has typed all Go code of examples/README.md. A
// file begins with its package clause.
func typedModule(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	names := []string{"main.go", "try.go", "main_test.go"}
	files := 0
	var code strings.Builder
	write := func() {
		if code.Len() == 0 {
			return
		}
		if files >= len(names) {
			t.Fatalf("examples/README.md has more than %d files", len(names))
		}
		writeFile(t, filepath.Join(dir, names[files]), code.String())
		code.Reset()
		files++
	}
	for _, block := range goBlock.FindAllStringSubmatch(readPage(t, "examples/README.md"), -1) {
		if strings.HasPrefix(block[1], "package ") {
			write()
		}
		code.WriteString(block[1] + "\n")
	}
	write()
	mod := strings.Replace(readPage(t, "go.mod"), "module github.com/rondo-mcp/rondo",
		"module example.com/first", 1)
	writeFile(t, filepath.Join(dir, "go.mod"), mod+"\nrequire github.com/rondo-mcp/rondo v0.0.0\n"+
		"replace github.com/rondo-mcp/rondo => "+filepath.ToSlash(root(t))+"\n")
	writeFile(t, filepath.Join(dir, "go.sum"), readPage(t, "go.sum"))
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "-mod=mod")
	return dir
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
