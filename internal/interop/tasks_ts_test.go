//go:build node

package interop_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
)

// TestTSTasksClient: the client of the tasks extension for TypeScript, and the SDK without it.
func TestTSTasksClient(t *testing.T) {
	endpoint, _ := listen(t, servertest.NewHandler(t, newTasks(t), nil))
	p := startNode(t, "tasks.mjs", endpoint)
	var got map[string]any
	if err := json.Unmarshal([]byte(p.Line()), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"greet":           "task completed hello Ada",
		"plain":           "immediate completed plain",
		"unwell":          "task completed error: unwell",
		"breaks":          "task failed -32603",
		"cancelled":       "cancelled",
		"answeredInParts": "found one+two two one and two",
		"asked":           1.0,
		"aloneGreet":      "hello Ada",
		"aloneUnwell":     "threw -32021",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}
