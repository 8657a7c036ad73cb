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

// The entries in the code are those of the package comment.
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

// The metrics of NewMetrics are those of its comment.
func TestEveryMetricIsDocumented(t *testing.T) {
	testkit.CheckMetrics(t, testkit.TypeComment(t, "metrics.go", "Metrics"),
		func(sink event.MetricSink) error {
			_, err := middleware.NewMetrics(sink, nil)
			return err
		})
}
