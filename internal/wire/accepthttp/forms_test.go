package accepthttp_test

import (
	"fmt"
	"testing"

	"github.com/rondo-mcp/rondo/internal/wire/accepthttp"
)

// TestForms holds what Accept headers admit.
func TestForms(t *testing.T) {
	for header, want := range map[string]string{
		"*/*": "true true", "application/json": "true false", "text/*": "false true",
		"application/*;q=0.5, text/event-stream;q=0": "true false", "text/html": "false false",
		`application/json;p="a,b\",c"`: "true false",
		"text/event-stream;q=0, */*":   "true false", "application/json, */*;q=0": "true false",
		"*/*;q=0": "false false", "application/json;q=2": "false false", "": "false false",
	} {
		json, events := accepthttp.Forms([]string{header})
		if got := fmt.Sprint(json, " ", events); got != want {
			t.Errorf("%q: got %s, want %s", header, got, want)
		}
	}
}
