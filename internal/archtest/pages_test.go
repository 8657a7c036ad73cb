package archtest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// pages are what users read: each Markdown file but those for developers of rondo and the inputs of
// tests.
func pages(t *testing.T) []string {
	t.Helper()
	var pages []string
	for _, file := range written(t) {
		if strings.HasSuffix(file, ".md") && !strings.HasPrefix(file, "internal/design/") &&
			!strings.Contains(file, "/testdata/") {
			pages = append(pages, file)
		}
	}
	if !slices.Contains(pages, "README.md") {
		t.Fatal("there is no README.md")
	}
	return pages
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPagesCodeCompiles wants every line of Go on the pages, block by block and in order, in one Go
// file of the module: what is compiled and run there cannot be wrong here.
func TestPagesCodeCompiles(t *testing.T) {
	files := goFiles(t, root(t))
	blocks := 0
	for _, page := range pages(t) {
		for _, block := range goBlock.FindAllStringSubmatch(readPage(t, page), -1) {
			blocks++
			found := slices.ContainsFunc(files, func(file []string) bool {
				return containsInOrder(file, block[1])
			})
			if !found {
				t.Errorf("no file of the module contains this code of %s:\n%s", page, block[1])
			}
		}
	}
	if blocks == 0 {
		t.Fatal("the pages have no Go code")
	}
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
// order. Other lines may stand between them where the page says so with "…".
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
