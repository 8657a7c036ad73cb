package archtest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// walkRow is a row of the page that leads through the code: a file, and functions that it declares,
// methods with their type.
var (
	walkRow  = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\|")
	codeSpan = regexp.MustCompile("`(?:(\\w+)\\.)?(\\w+)`")
)

// TestWalksNameWhatExists: in each row the functions are declared in the file.
func TestWalksNameWhatExists(t *testing.T) {
	rows := walkRow.FindAllStringSubmatch(readPage(t, "internal/design/call.md"), -1)
	if len(rows) < 25 {
		t.Errorf("%d rows can be read", len(rows))
	}
	for _, row := range rows {
		text, err := os.ReadFile(filepath.Join(root(t), filepath.FromSlash(row[1])))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, name := range codeSpan.FindAllStringSubmatch(row[2], -1) {
			declared := `(?m)^func ` + name[2] + `[(\[]`
			if name[1] != "" {
				declared = `(?m)^func \((\w+ )?\*?` + name[1] + `(\[.*\])?\) ` + name[2] + `\(`
			}
			if !regexp.MustCompile(declared).Match(text) {
				t.Errorf("%s does not declare %s", row[1], strings.Trim(name[0], "`"))
			}
		}
	}
}
