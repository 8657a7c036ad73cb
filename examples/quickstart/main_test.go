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
	const asked = `   asked: How many people? -> accept {"people":3}
   asked: Where, for 3? -> accept {"place":"window"}
result: Chez Ada: a table for 3, window

`
	const want = "== A client of revision 2026-07-28\n" + asked +
		"== A client of revision 2025-11-25\n" + asked + `== The person declines
   asked: How many people? -> decline
result: declined: party; the person does not want this: do not call again unless they ask for it

== Somebody changes the state on its way back
   asked: How many people? -> accept {"people":3}
refused: Invalid or expired requestState (code -32602)
`
	traffic := regexp.MustCompile(`(?m)^(->|<-) .*\n`)
	for show, messages := range map[bool]int{false: 0, true: 23} { // 6, 9, 4 and 4 in the calls
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
	testkit.NoError(t, err)
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
