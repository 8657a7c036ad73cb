package archtest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// walksFile is the page that leads through the code.
const walksFile = "internal/design/call.md"

// minWalkRows is how many rows a walk has at least: a table that the test cannot read fails.
const minWalkRows = 5

var (
	codeSpan = regexp.MustCompile("`([^`]+)`")

	// pathName is the name of a method with its type, as it stands in the drawing and in the text.
	pathName = regexp.MustCompile(`\b[A-Za-z]+\.[A-Za-z]+\b`)
)

// A walkRow is a row of the page: a file and names that it declares.
type walkRow struct {
	file  string
	names []string
}

// TestWalksNameWhatExists holds the files and functions that the page names against the code: in
// each row every function is declared in the file of the row, and what the drawing and the text
// name stands in a row.
func TestWalksNameWhatExists(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root(t), walksFile))
	if err != nil {
		t.Fatal(err)
	}
	intro, walks := splitWalks(string(raw))
	if len(walks) != 5 {
		t.Errorf("%s has %d walks, want 5", walksFile, len(walks))
	}
	declared, named := make(map[string]map[string]bool), make(map[string]bool)
	for title, walk := range walks {
		rows := walkRows(walk)
		if len(rows) < minWalkRows {
			t.Errorf("walk %q: %d rows can be read, want %d at least", title, len(rows),
				minWalkRows)
		}
		for _, row := range rows {
			if declared[row.file] == nil {
				declared[row.file] = declarationsOf(t, row.file)
			}
			for _, name := range row.names {
				if named[name] = true; !declared[row.file][name] {
					t.Errorf("walk %q: %s does not declare %s", title, row.file, name)
				}
			}
		}
	}
	for _, name := range pathName.FindAllString(intro, -1) {
		if !named[name] {
			t.Errorf("the drawing or the text above the walks names %s, and no walk does", name)
		}
	}
}

// splitWalks cuts the page at its headings.
func splitWalks(page string) (intro string, walks map[string]string) {
	parts := strings.Split(page, "\n## ")
	walks = make(map[string]string)
	for _, part := range parts[1:] {
		title, body, _ := strings.Cut(part, "\n")
		walks[title] = body
	}
	return parts[0], walks
}

// walkRows returns the rows of the tables in a walk.
func walkRows(walk string) (rows []walkRow) {
	for _, line := range strings.Split(walk, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		file := codeSpan.FindStringSubmatch(cells[1])
		if file == nil {
			continue // the head of the table
		}
		row := walkRow{file: file[1]}
		for _, name := range codeSpan.FindAllStringSubmatch(cells[2], -1) {
			row.names = append(row.names, name[1])
		}
		rows = append(rows, row)
	}
	return rows
}

// declarationsOf returns the functions that a file declares, methods with the name of their type.
func declarationsOf(t *testing.T, file string) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	name := filepath.Join(root(t), file)
	parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Errorf("%s names a file that cannot be read: %v", walksFile, err)
		return names
	}
	for _, decl := range parsed.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if f.Recv == nil {
			names[f.Name.Name] = true
			continue
		}
		names[receiverType(f.Recv.List[0].Type)+"."+f.Name.Name] = true
	}
	return names
}

// receiverType returns the name of the type of a receiver, without pointer and type parameters.
func receiverType(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.StarExpr:
		return receiverType(e.X)
	case *ast.IndexExpr:
		return receiverType(e.X)
	case *ast.IndexListExpr:
		return receiverType(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
