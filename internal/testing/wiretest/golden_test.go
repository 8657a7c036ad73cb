package wiretest_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
)

func message(from wiretest.From, body string) wiretest.Message {
	return wiretest.Message{From: from, Body: []byte(body)}
}

func TestGolden(t *testing.T) {
	path := filepath.Join(t.TempDir(), "talk.txtar")
	said := []wiretest.Message{message(wiretest.Client, `{"b": 1.50, "id":1}`),
		message(wiretest.Server, `{"id":1,"requestState":"abc"}`),
		message(wiretest.Client, `{"id":2,"requestState":"abc"}`),
		message(wiretest.Server, `{"id":2,"requestState":"x"}`),
		message(wiretest.Server, `{"id":2,"requestState":""}`)}

	setUpdate(t, "false")
	f := &fake{}
	if wiretest.Golden(f, path, said); len(f.failures) == 0 {
		t.Error("a missing transcript was accepted")
	}

	text := `What this shows.
-- 1 client --
{"b": 1.50, "id":1}
-- 2 server --
{"id":1,"requestState":"<state 1>"}
-- 3 client --
{"id":2,"requestState":"<state 1>"}
-- 4 server --
{"id":2,"requestState":"<state 2>"}
-- 5 server --
{"id":2,"requestState":""}
`
	testkit.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	f = &fake{}
	if wiretest.Golden(f, path, said); len(f.failures) != 0 {
		t.Errorf("the same traffic was refused: %q", f.failures)
	}
	f = &fake{}
	wiretest.Golden(f, path, []wiretest.Message{said[0], message(wiretest.Server, `{"id":1}`)})
	if len(f.failures) != 1 || !strings.Contains(f.failures[0], "line 5") ||
		!strings.Contains(f.failures[0], `want: {"id":1,"requestState"`) {
		t.Errorf("failures %q, want one that shows the first difference", f.failures)
	}
	f = &fake{}
	if wiretest.Golden(f, path, said[:1]); len(f.failures) != 1 {
		t.Errorf("a message left out: failures %q, want one", f.failures)
	}

	setUpdate(t, "true")
	wiretest.Golden(t, path, said[:1])
	setUpdate(t, "false")
	wiretest.Golden(t, path, said[:1])
	if raw, err := os.ReadFile(path); err != nil ||
		!strings.HasPrefix(string(raw), "What this shows.\n") {
		t.Errorf("after -update the transcript is %q, want its comment kept", raw)
	}
}

func setUpdate(t *testing.T, value string) {
	t.Helper()
	before := flag.Lookup("update").Value.String()
	testkit.NoError(t, flag.Set("update", value))
	t.Cleanup(func() { flag.Set("update", before) })
}

func TestLines(t *testing.T) {
	var log wiretest.Log
	var out strings.Builder
	w := log.Lines(wiretest.Server, &out)
	for _, part := range []string{"{\"a\"", ":1}\n\n{\"b\":2}\r\n{\"c\"", ":3}"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	var got []string
	for _, m := range log.Messages() {
		got = append(got, string(m.Body))
	}
	if want := `{"a":1} {"b":2}`; strings.Join(got, " ") != want {
		t.Errorf("logged %q, want %q: complete lines and no others", got, want)
	}
	if want := "{\"a\":1}\n\n{\"b\":2}\r\n{\"c\":3}"; out.String() != want {
		t.Errorf("passed on %q, want %q", out.String(), want)
	}
}
