//go:build node

package interop_test

import (
	"encoding/json"
	"maps"
	"os"
	"testing"
)

// TestTSTasksClient uses the TypeScript client of the tasks extension, and the SDK without it.
func TestTSTasksClient(t *testing.T) {
	t.Run("http", func(t *testing.T) { tellTSTasks(t, nil, listenTasks(t)) })
	t.Run("process", func(t *testing.T) {
		program, err := os.Executable()
		noError(t, err)
		tellTSTasks(t, []string{asTasks + "=yes"}, "stdio", program)
	})
}

// tellTSTasks compares the client's results for the tools of newTasks.
func tellTSTasks(t *testing.T, env []string, where ...string) {
	t.Helper()
	p := startNodeWith(t, env, "tasks.mjs", where...)
	var got map[string]any
	noError(t, json.Unmarshal([]byte(p.Line()), &got))
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
