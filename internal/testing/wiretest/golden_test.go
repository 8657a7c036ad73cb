package wiretest_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
)

const (
	uuidA = "6f1c0a52-7b1e-4f5e-9d37-0f6f7e7f0a11"
	uuidB = "0d9a1c7e-2222-4333-8444-5b5b5b5b5b5b"
)

func message(from wiretest.From, body string) wiretest.Message {
	return wiretest.Message{From: from, Body: []byte(body)}
}

func TestTranscript(t *testing.T) {
	for _, test := range []struct {
		name     string
		messages []wiretest.Message
		volatile []string
		want     []string // one file's text a message
	}{
		{"members keep their order and numbers their spelling",
			[]wiretest.Message{message(wiretest.Client, `{"b": 1.50, "a": 9007199254740993, "c": [ 1e3, {} , [] ], "d":null,"e":true}`)}, nil,
			[]string{`{"b":1.50,"a":9007199254740993,"c":[1e3,{},[]],"d":null,"e":true}`}},
		{"strings keep their spelling",
			[]wiretest.Message{message(wiretest.Client, `{"a":"\u00e9\/<é>"}`)}, nil,
			[]string{`{"a":"\u00e9\/<é>"}`}},
		{"duplicates stay visible",
			[]wiretest.Message{message(wiretest.Client, `{"a":1,"a":2}`)}, nil,
			[]string{`{"a":1,"a":2}`}},
		{"an echoed state has the number of the state",
			[]wiretest.Message{
				message(wiretest.Server, `{"requestState":"x1"}`),
				message(wiretest.Client, `{"requestState":"x1"}`),
				message(wiretest.Server, `{"requestState":"x2"}`),
				message(wiretest.Client, `{"requestState":"x1"}`)}, nil,
			[]string{`{"requestState":"<state 1>"}`, `{"requestState":"<state 1>"}`,
				`{"requestState":"<state 2>"}`, `{"requestState":"<state 1>"}`}},
		{"an empty state stays empty, and a state of another type as it is",
			[]wiretest.Message{message(wiretest.Server, `{"requestState":""}`),
				message(wiretest.Server, `{"requestState":null}`),
				message(wiretest.Server, `{"requestState":{"requestState":7}}`)}, nil,
			[]string{`{"requestState":""}`, `{"requestState":null}`,
				`{"requestState":{"requestState":7}}`}},
		{"uuids inside strings",
			[]wiretest.Message{message(wiretest.Server,
				`{"url":"https://e.com/`+uuidA+`","b":"`+uuidB+`","c":["`+uuidA+`"]}`)}, nil,
			[]string{`{"url":"https://e.com/<uuid 1>","b":"<uuid 2>","c":["<uuid 1>"]}`}},
		{"volatile members",
			[]wiretest.Message{message(wiretest.Server, `{"now":"12:00","then":"12:00","a":["now","x"]}`)}, []string{"now"},
			[]string{`{"now":"<now 1>","then":"12:00","a":["now","x"]}`}},
		{"an element after a volatile member is no member",
			[]wiretest.Message{message(wiretest.Server, `{"requestState":["x"],"a":"x"}`)}, nil,
			[]string{`{"requestState":["x"],"a":"x"}`}},
		{"what is not JSON is quoted",
			[]wiretest.Message{message(wiretest.Server, "{\"a\":\n"),
				message(wiretest.Server, "two\nlines")}, nil,
			[]string{`not JSON: "{\"a\":\n"`, `not JSON: "two\nlines"`}},
		{"head without body, and session ids",
			[]wiretest.Message{{From: wiretest.Server, HTTP: "202 Accepted",
				Header: []string{"Mcp-Session-Id: abc"}}}, nil,
			[]string{"202 Accepted\nMcp-Session-Id: <session 1>"}},
		{"head and body",
			[]wiretest.Message{{From: wiretest.Client, HTTP: "POST /mcp",
				Header: []string{"Mcp-Method: tools/call"}, Body: []byte(`{}`)}}, nil,
			[]string{"POST /mcp\nMcp-Method: tools/call\n\n{}"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := wiretest.Transcript(test.messages, test.volatile...)
			if len(got.Files) != len(test.want) {
				t.Fatalf("%d files, want %d", len(got.Files), len(test.want))
			}
			for i, file := range got.Files {
				if want := test.want[i] + "\n"; string(file.Data) != want {
					t.Errorf("message %d:\n got %s\nwant %s", i+1, file.Data, want)
				}
			}
			if back := txtar.Parse(txtar.Format(got)); len(back.Files) != len(got.Files) {
				t.Errorf("the archive reads back as %d files, want %d", len(back.Files),
					len(got.Files))
			}
		})
	}
}

func TestGolden(t *testing.T) {
	path := filepath.Join(t.TempDir(), "talk.txtar")
	said := []wiretest.Message{message(wiretest.Client, `{"id":1}`),
		message(wiretest.Server, `{"id":1,"requestState":"abc"}`)}

	setUpdate(t, "false")
	f := &fake{}
	if wiretest.Golden(f, path, said); len(f.failures) == 0 {
		t.Error("a missing transcript was accepted")
	}

	text := "What this shows.\n-- 1 client --\n{\"id\":1}\n-- 2 server " +
		"--\n{\"id\":1,\"requestState\":\"<state 1>\"}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
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

// setUpdate sets the flag for the rest of the test.
func setUpdate(t *testing.T, value string) {
	t.Helper()
	before := flag.Lookup("update").Value.String()
	if err := flag.Set("update", value); err != nil {
		t.Fatal(err)
	}
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
