package middleware_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server/middleware"
)

var (
	entryName = regexp.MustCompile(`^mcp\.[a-z_]+$`)
	entryRow  = regexp.MustCompile(`(?m)^\t(mcp\.[a-z_]+) +(?:debug|info|warn|error) +\S`)
)

// TestEveryLogEntryIsDocumented compares the names of entries in the code with the table of the
// package comment.
func TestEveryLogEntryIsDocumented(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*.go", "../../roundtrip/event/*.go"} {
		found, err := filepath.Glob(pattern)
		noError(t, err)
		files = append(files, found...)
	}
	written, documented := testkit.Names{}, testkit.Names{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, text := range testkit.StringsIn(t, file) {
			if entryName.MatchString(text) {
				written[text] = true
			}
		}
	}
	section := testkit.DocSection(t, "doc.go", "Log entries")
	for _, m := range entryRow.FindAllStringSubmatch(section, -1) {
		documented[m[1]] = true
	}
	testkit.WantSame(t, written, documented)
}

// TestEveryMetricIsDocumented compares names and labels of what NewMetrics registers with the
// comment of Metrics.
func TestEveryMetricIsDocumented(t *testing.T) {
	names := registered{}
	_, err := middleware.NewMetrics(names, nil)
	noError(t, err)
	comment := testkit.TypeComment(t, "metrics.go", "Metrics")
	testkit.WantSame(t, testkit.Names(names), testkit.DocumentedMetrics(comment))
}

// registered keeps the names of the metrics that are registered.
type registered testkit.Names

func (r registered) Register(table []event.Series) ([]event.Vector, error) {
	for _, s := range table {
		testkit.Names(r).AddMetric(s.Name, s.Labels)
	}
	return event.RegisterSeries(nil, table)
}
