package event_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestEverySeriesIsRegistered: sinks get all series of events.
func TestEverySeriesIsRegistered(t *testing.T) {
	source, err := os.ReadFile("entry.go")
	if err != nil {
		t.Fatal(err)
	}
	driven, registered := testkit.Names{}, testkit.Names{}
	for _, m := range regexp.MustCompile(`row\{name: "([a-z_]+)"`).FindAllSubmatch(source, -1) {
		driven[string(m[1])] = true
	}
	for _, s := range event.NewCounters().Series() {
		registered[s.Name] = true
	}
	testkit.WantSame(t, driven, registered)
}

// TestEveryWordIsDocumentedAndCounted: each value of package words is in its type's comment, and
// has a series.
func TestEveryWordIsDocumentedAndCounted(t *testing.T) {
	source, err := os.ReadFile("../../internal/words/words.go")
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]testkit.Names{}
	var vectors []event.Vector
	counters := event.NewCounters()
	for _, s := range counters.Series() {
		counted[s.Name] = testkit.Names{}
		vectors = append(vectors, func(values ...string) event.Instrument {
			for _, value := range values {
				counted[s.Name][value] = true
			}
			return nil
		})
	}
	counters.Bind(vectors)
	for _, test := range []struct{ prefix, file, typ, series string }{
		{"Reason", "reason.go", "Reason", "state_rejections_total"},
		{"Drop", "reason.go", "DropReason", "dropped_answers_total"},
		{"End", "event.go", "FlowEnd", "flows_ended_total"},
		{"Way", "event.go", "Way", "form_answers_total"},
		{"Forward", "forwarded.go", "ForwardOutcome", "forwarded_requests_total"},
		{"Refused", "refused.go", "RefusalReason", "line_refusals_total"},
	} {
		want, documented := testkit.Names{"other": true}, testkit.Names{"other": true}
		for _, m := range regexp.MustCompile(`\t`+test.prefix+`\w+ += "(\w+)"`).
			FindAllStringSubmatch(string(source), -1) {
			want[m[1]] = true
		}
		for _, m := range regexp.MustCompile(`(?m)^  - ([a-z_, ]+)( \(.*?\))?(:|$)`).
			FindAllStringSubmatch(testkit.TypeComment(t, test.file, test.typ), -1) {
			for word := range strings.SplitSeq(m[1], ", ") {
				documented[word] = true
			}
		}
		testkit.WantSame(t, want, documented)
		testkit.WantSame(t, want, counted[test.series])
	}
}
