package archtest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// TestREADMECodeCompiles wants every line of Go in the README, block by block
// and in order, in one Go file of the module: what is compiled and run there
// cannot be wrong here.
func TestREADMECodeCompiles(t *testing.T) {
	root := moduleRoot(t)
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := goBlock.FindAllSubmatch(readme, -1)
	if len(blocks) == 0 {
		t.Fatal("README.md has no Go code")
	}
	files := goFiles(t, root)
	for _, block := range blocks {
		code := string(block[1])
		found := false
		for _, file := range files {
			found = found || containsInOrder(file, code)
		}
		if !found {
			t.Errorf("no file of the module contains this code of README.md:\n%s", code)
		}
	}
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/rondo-mcp/rondo").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// goFiles returns the text of every Go file, white space folded line by line.
func goFiles(t *testing.T, root string) [][]string {
	t.Helper()
	var files [][]string
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		files = append(files, codeLines(string(text)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// codeLines returns the lines that hold code, without indentation, comments
// that explain to a reader of one place only, and blank lines.
func codeLines(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, " // ")
		line = strings.Join(strings.Fields(line), " ")
		if line != "" && !strings.HasPrefix(line, "//") {
			lines = append(lines, line)
		}
	}
	return lines
}

// containsInOrder reports whether the lines of code stand in file, in their
// order. Other lines may stand between them where the README says so with "…".
func containsInOrder(file []string, code string) bool {
	at, gap := 0, true
	for _, want := range codeLines(strings.ReplaceAll(code, "// …", "…")) {
		if want == "…" {
			gap = true
			continue
		}
		for gap && at < len(file) && file[at] != want {
			at++
		}
		if at >= len(file) || file[at] != want {
			return false
		}
		at++
		// declarations may stand apart
		gap = strings.HasSuffix(want, "}") || strings.HasSuffix(want, ")")
	}
	return true
}
