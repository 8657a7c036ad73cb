package middleware_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/internal/testing/promtest"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/server/middleware"
)

var update = flag.Bool("update", false, "rewrite the transcript under testdata")

// A transcript records log and metrics, with variable parts replaced.
type transcript struct {
	bytes.Buffer
	names map[string]string
	count map[string]int
}

func newTranscript(intro string) *transcript {
	s := &transcript{names: map[string]string{}, count: map[string]int{}}
	fmt.Fprint(s, intro)
	return s
}

// compare compares the transcript with a file in testdata.
func (s *transcript) compare(t *testing.T, name string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	got := strings.TrimRight(s.String(), "\n") + "\n"
	if *update {
		noError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	noError(t, err)
	if got != string(want) {
		t.Errorf("%s is not what happens (rewrite it with -update):\n%s", path, got)
	}
}

// scene plays something and records the outcome.
func (s *transcript) scene(w *wire, title string, play func()) {
	before := promtest.Series(w, w.registry)
	w.logs.TakeAll()
	play()
	s.lines(w, title, before)
}

// The method lines records the log and, with before, the metrics that have grown.
func (s *transcript) lines(w *wire, title string, before map[string]float64) {
	fmt.Fprintf(s, "## %s\n\n```text\n", title)
	lines := w.logs.TakeAll()
	if len(lines) == 0 {
		fmt.Fprintln(s, "(no entry)")
	}
	for _, e := range lines {
		fmt.Fprintf(s, "%-5s %s", e.Level, e.Message)
		for _, f := range inOrder(w.TB, e) {
			fmt.Fprintf(s, " %s=%s", f[0], s.field(f[0], f[1]))
		}
		fmt.Fprintln(s)
	}
	if before == nil {
		fmt.Fprint(s, "```\n\n")
		return
	}
	fmt.Fprintln(s)
	var changes []string
	for name, after := range promtest.Series(w, w.registry) {
		if by := after - before[name]; by != 0 {
			changes = append(changes, fmt.Sprintf("%s +%v", name, by))
		}
	}
	slices.Sort(changes)
	if len(changes) == 0 {
		changes = []string{"(no series)"}
	}
	fmt.Fprintf(s, "%s\n```\n\n", strings.Join(changes, "\n"))
}

// inOrder returns the names and values of an entry's fields.
func inOrder(t testing.TB, e observer.LoggedEntry) (fields [][2]string) {
	t.Helper()
	text, err := zapcore.NewJSONEncoder(zapcore.EncoderConfig{}).EncodeEntry(zapcore.Entry{},
		e.Context)
	noError(t, err)
	values := e.ContextMap()
	err = jsonx.Members(bytes.TrimSpace(text.Bytes()), func(key, _ []byte) error {
		fields = append(fields, [2]string{string(key), fmt.Sprint(values[string(key)])})
		return nil
	})
	noError(t, err)
	return fields
}

// field writes one field. Ids are numbered in order of appearance.
func (s *transcript) field(key, text string) string {
	switch key {
	case "request", "flow", "reference", "question":
		return s.name(key, text)
	case "questions":
		question, digest, _ := strings.Cut(strings.Trim(text, "[]"), " ")
		return "[" + question + " " + s.name("question", digest) + "]"
	case "duration_ms", "waited_ms", "state_bytes", "remote_addr", "stack":
		return "…"
	}
	if strings.ContainsAny(text, " \\") {
		return fmt.Sprintf("%q", text)
	}
	return text
}

func (s *transcript) name(kind, id string) string {
	if s.names[id] == "" {
		s.count[kind]++
		s.names[id] = fmt.Sprint(kind, "-", s.count[kind])
	}
	return s.names[id]
}

// An operator's view matches testdata/operator.md, which the documentation cites. Use -update to
// rewrite the file, and review the difference.
func TestOperatorTranscript(t *testing.T) {
	names := func(id string) roundtrip.Options {
		key, err := keys.NewKey(id, bytes.Repeat([]byte(id), 16))
		noError(t, err)
		ring, err := keys.NewKeyring(key)
		noError(t, err)
		return roundtrip.Options{Sealer: ring, HideErrors: true}
	}
	log := middleware.Options{Subject: func(p protocol.Principal) string { return p.Subject },
		RemoteAddr: true}
	w := newWire(t, protocol.V20260728, wireOptions{log: log, funnel: names("k1")})
	s := newTranscript(intro)
	s.lines(w, "The server starts", nil)
	s.scene(w, "A good flow", func() { w.call("pay", answering(pays("5"))) })
	s.scene(w, "A wrong token", func() {
		discard(w.post(t.Context(), w.body(protocol.MethodCallTool, "pay", ""), "Authorization",
			"Bearer guessed"))
	})
	s.scene(w, "An invalid answer, and then a refusal",
		func() { w.call("pay", answering(pays("0"), `{"action":"decline"}`)) })
	s.scene(w, "A tool that fails", func() { w.call("charge", answering(pays("5"))) })

	later := newWire(t, protocol.V20260728, wireOptions{log: log, funnel: names("k2")})
	s.scene(later, "A lost key: the question was asked before a rollout that dropped k1", func() {
		w.call("pay", func(string) string {
			w.Server, w.watch = later.Server, later.watch
			return pays("5")
		})
	})
	s.scene(later, "An impatient client", func() {
		later.leaveSlow()
		later.await("mcp.request")
	})

	s.compare(t, "operator.md")
}

const intro = `# What an operator sees

Each section is something that happens to a server over HTTP, then what [Log] writes, then by how much the series of [Metrics]
grow. Ids are numbered, and times and sizes left out. The options are ` + "`middleware.Options{Subject, RemoteAddr}`" + ` and ` + "`roundtrip.Options{HideErrors}`" + `.
This file is checked by a test.

`
