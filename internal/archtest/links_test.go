package archtest_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link        = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading     = regexp.MustCompile(`(?m)^#+ (.+)$`)
	code        = regexp.MustCompile("(?s)```.*?```|`[^`]*`")
	notInAnchor = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// TestPagesLinksLead wants a file at the end of each link between pages, and a heading where the
// link names one.
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

// withoutCode returns a page without code, in which brackets are no links. Links around code stay.
func withoutCode(page string) string { return code.ReplaceAllString(page, "") }

// anchors returns the names by which links reach the headings of a page.
func anchors(page string) map[string]bool {
	names := make(map[string]bool)
	for _, found := range heading.FindAllStringSubmatch(page, -1) {
		name := notInAnchor.ReplaceAllString(strings.ToLower(found[1]), "")
		names[strings.ReplaceAll(name, " ", "-")] = true
	}
	return names
}
