package main

import (
	"context"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestRun checks the output. With -wire it also has the messages, which vary from run to run.
func TestRun(t *testing.T) {
	const want = `== The person accepts
   asked: Deploy to production? -> accept {"reason":"the fix is tested"}
result: deployed to production: the fix is tested

== The person declines
   asked: Deploy to production? -> decline
result: left production alone

== Somebody changes the state on its way back
   asked: Deploy to production? -> accept {"reason":"let me in"}
refused: Invalid or expired requestState (code -32602)
`
	traffic := regexp.MustCompile(`(?m)^(->|<-) .*\n`)
	for show, messages := range map[bool]int{false: 0, true: 18} { // 6 messages in each of 3 calls
		out := printed(t, func() error { return run(context.Background(), show) })
		if n := len(traffic.FindAllString(out, -1)); n != messages {
			t.Errorf("-wire=%t: %d messages, want %d", show, n, messages)
		}
		got := strings.ReplaceAll(traffic.ReplaceAllString(out, ""), " \n", "\n")
		if got != want {
			t.Errorf("-wire=%t: got\n%s\nwant\n%s", show, got, want)
		}
	}
}

func printed(t *testing.T, f func() error) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = w
	text := make(chan string, 1)
	go func() {
		raw, _ := io.ReadAll(r)
		text <- string(raw)
	}()
	err = f()
	os.Stdout = stdout
	if w.Close() != nil {
		t.Error("the pipe does not close")
	}
	if err != nil {
		t.Error(err)
	}
	return <-text
}
