package wiretest

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the wire transcripts under testdata")

// Golden fails t if messages differ from the transcript at path; -update writes its messages.
func Golden(t testing.TB, path string, got []Message) {
	t.Helper()
	old, readErr := os.ReadFile(path)
	archive := transcript(got)
	archive.Comment = txtar.Parse(old).Comment
	text := txtar.Format(archive)
	if *update {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777),
			os.WriteFile(path, text, 0o666)); err != nil {
			t.Fatal(err)
		}
		return
	}
	if readErr != nil {
		t.Fatalf("wiretest: no transcript to compare with (write it with -update): %v", readErr)
	}
	if !bytes.Equal(text, old) {
		t.Errorf("wiretest: the traffic differs from %s (accept it with -update)\n%s", path,
			difference(string(text), string(old)))
	}
}

// state matches a state, which varies by run. Empty values stay: they differ from absent ones.
var state = regexp.MustCompile(`"requestState":"[^"]+"`)

func transcript(messages []Message) *txtar.Archive {
	archive, states := new(txtar.Archive), make(map[string]string)
	for i, message := range messages {
		var text strings.Builder
		if message.HTTP != "" {
			fmt.Fprintln(&text, message.HTTP)
			for _, line := range message.Header {
				fmt.Fprintln(&text, line)
			}
			if len(message.Body) > 0 {
				fmt.Fprintln(&text)
			}
		}
		if body := strings.TrimSpace(string(message.Body)); body != "" {
			fmt.Fprintln(&text, state.ReplaceAllStringFunc(body, func(member string) string {
				if states[member] == "" {
					states[member] = fmt.Sprintf(`"requestState":"<state %d>"`, len(states)+1)
				}
				return states[member]
			}))
		}
		name := fmt.Sprintf("%d %s", i+1, message.From)
		archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(text.String())})
	}
	return archive
}

// difference returns the first differing line with its context, then all messages.
func difference(got, want string) string {
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(want, "\n")
	at := 0
	for at < len(gotLines) && at < len(wantLines) && gotLines[at] == wantLines[at] {
		at++
	}
	line := func(lines []string) string {
		if at < len(lines) {
			return lines[at]
		}
		return "(nothing more)"
	}
	return fmt.Sprintf("line %d:\n got: %s\nwant: %s\n\nall that was said:\n%s", at+1,
		line(gotLines), line(wantLines), got)
}
