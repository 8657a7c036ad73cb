package event_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// TestEverySeriesIsRegistered: a series that an event drives is among those that a sink gets.
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
