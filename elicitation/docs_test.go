package elicitation_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

var eventName = regexp.MustCompile(`\belicitation\.[a-z]+\b`)

// TestEveryLogEntryIsDocumented compares event kinds and entry fields with the package comment.
func TestEveryLogEntryIsDocumented(t *testing.T) {
	section := testkit.DocSection(t, "doc.go", "Events")
	kinds, documented := testkit.Names{}, testkit.Names{}
	for _, name := range eventName.FindAllString(section, -1) {
		documented[name] = true
	}
	for _, text := range testkit.StringsIn(t, "event.go") {
		if eventName.FindString(text) == text {
			kinds[text] = true
		}
	}
	testkit.WantSame(t, kinds, documented)
	for _, field := range testkit.StringsIn(t, "log.go") {
		if !regexp.MustCompile(`\b` + field + `\b`).MatchString(section) {
			t.Errorf("the field %s is not documented", field)
		}
	}
}

func TestEveryMetricIsDocumented(t *testing.T) {
	testkit.CheckMetrics(t, testkit.DocSection(t, "doc.go", "Metrics"),
		func(sink event.MetricSink) error {
			_, err := elicitation.New(&elicitation.Options{Metrics: sink})
			return err
		})
}

func TestREADMENamesEventsAndMetrics(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	noError(t, err)
	sections := testkit.DocSection(t, "doc.go", "Events") +
		testkit.DocSection(t, "doc.go", "Metrics")
	names := regexp.MustCompile(`\belicitation[._][a-z_]+\b`).FindAllString(sections, -1)
	if len(names) == 0 {
		t.Fatal("found no names")
	}
	for _, name := range names {
		want := regexp.MustCompile("`" + name + "[`{]")
		if !want.Match(readme) {
			t.Errorf("README.md does not name %s", name)
		}
	}
}
