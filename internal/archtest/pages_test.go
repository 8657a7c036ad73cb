package archtest_test

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// pages returns the users' Markdown files: no test inputs, and none for developers of rondo.
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
	noError(t, err)
	return string(text)
}

// Each page's Go blocks must occur, in order, in one Go file, where they are compiled and run.
func TestPagesCodeCompiles(t *testing.T) {
	var files [][]string // white space folded line by line
	eachGoFile(t, func(_ string, src []byte, _ *ast.File) {
		files = append(files, codeLines(string(src)))
	})
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

// TestPagesNameTestsThatExist checks the tests that pages and design records name as evidence.
func TestPagesNameTestsThatExist(t *testing.T) {
	declared := map[string]bool{}
	eachGoFile(t, func(_ string, _ []byte, f *ast.File) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				declared[fn.Name.Name] = true
			}
		}
	})
	named := 0
	for _, page := range written(t) {
		if !strings.HasSuffix(page, ".md") || page == "CHANGELOG.md" {
			continue
		}
		for _, m := range testName.FindAllStringSubmatch(readPage(t, page), -1) {
			if named++; !declared[m[1]] {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
	}
	if named < 20 {
		t.Errorf("found %d names only", named)
	}
}

var testName = regexp.MustCompile("`((?:Test|Benchmark|Fuzz)[A-Z]\\w*)[`/]")

// codeLines returns code lines without indentation and local comments.
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

// containsInOrder reports whether file has the lines of code in order; "…" marks gaps.
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
		// Declarations may be apart.
		gap = strings.HasSuffix(want, "}") || strings.HasSuffix(want, ")")
	}
	return true
}

var (
	link        = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading     = regexp.MustCompile(`(?m)^#+ (.+)$`)
	code        = regexp.MustCompile("(?s)```.*?```|`[^`]*`")
	notInAnchor = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// TestPagesLinksLead checks the files and headings that pages link to.
func TestPagesLinksLead(t *testing.T) {
	links := 0
	for _, page := range pages(t) {
		for _, found := range link.FindAllStringSubmatch(withoutCode(readPage(t, page)), -1) {
			target, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			links++
			file := page
			if target != "" {
				file = path.Join(path.Dir(page), target)
			}
			if _, err := os.Stat(filepath.Join(root(t), filepath.FromSlash(file))); err != nil {
				t.Errorf("%s: the link %s leads nowhere", page, found[1])
			} else if anchor != "" && !anchors(readPage(t, file))[anchor] {
				t.Errorf("%s: the link %s names no heading", page, found[1])
			}
		}
	}
	if links == 0 {
		t.Error("the pages have no links")
	}
}

// withoutCode removes code, in which brackets are no links. Links around code stay.
func withoutCode(page string) string { return code.ReplaceAllString(page, "") }

// anchors returns the link names of a page's headings.
func anchors(page string) map[string]bool {
	names := make(map[string]bool)
	for _, found := range heading.FindAllStringSubmatch(page, -1) {
		name := notInAnchor.ReplaceAllString(strings.ToLower(found[1]), "")
		names[strings.ReplaceAll(name, " ", "-")] = true
	}
	return names
}

// The variable quoted lists the files that pages show whole. Tests use or write these files.
var quoted = []struct{ file, page, block string }{
	{"internal/interop/testdata/comparison.md", "README.md", "\n\n%\n"},
	{"examples/first/ask.sh", "examples/README.md", "```\n%```\n"},
}

func TestPagesShowTestedFiles(t *testing.T) {
	for _, q := range quoted {
		want := strings.Replace(q.block, "%", readPage(t, q.file), 1)
		if !strings.Contains(readPage(t, q.page), want) {
			t.Errorf("%s does not show %s as it is", q.page, q.file)
		}
	}
}

// walkRow is a row of the page that leads through the code: a file and functions in it.
var (
	walkRow  = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\|")
	codeSpan = regexp.MustCompile("`(?:(\\w+)\\.)?(\\w+)`")
)

func TestWalksNameWhatExists(t *testing.T) {
	rows := walkRow.FindAllStringSubmatch(readPage(t, "internal/design/call.md"), -1)
	if len(rows) < 25 {
		t.Errorf("%d rows can be read", len(rows))
	}
	for _, row := range rows {
		text := readPage(t, row[1])
		for _, name := range codeSpan.FindAllStringSubmatch(row[2], -1) {
			declared := `(?m)^func ` + name[2] + `[(\[]`
			if name[1] != "" {
				declared = `(?m)^func \((\w+ )?\*?` + name[1] + `(\[.*\])?\) ` + name[2] + `\(`
			}
			if !regexp.MustCompile(declared).MatchString(text) {
				t.Errorf("%s does not declare %s", row[1], strings.Trim(name[0], "`"))
			}
		}
	}
}
