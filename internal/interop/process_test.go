//go:build node

package interop_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
)

// processAs returns the shell command that starts this program as another one (main_test.go).
func processAs(t *testing.T, as string) (command string) {
	t.Helper()
	program, err := os.Executable()
	noError(t, err)
	return as + " " + quote(program)
}

// recordProcess returns a program that runs a shell command and records its traffic, beginning with
// the client's. said waits until the program and its parts have ended.
func recordProcess(t *testing.T, command string) (recording string, _ said) {
	t.Helper()
	dir := t.TempDir()
	recording, running := filepath.Join(dir, "recorded"), filepath.Join(dir, "running")
	noError(t, syscall.Mkfifo(running, 0o600))
	// This is opened before the others, without waiting for them.
	parts, err := os.OpenFile(running, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	noError(t, err)
	t.Cleanup(func() { _ = parts.Close() })
	script := "#!/bin/sh\ncd " + quote(dir) + "\nexec 3> running\ntee client | " + command +
		" | tee server\n"
	noError(t, os.WriteFile(recording, []byte(script), 0o755))
	return recording, func() []wiretest.Message {
		// The read ends when the other end is closed everywhere.
		if _, err := io.Copy(io.Discard, parts); err != nil {
			t.Fatal(err)
		}
		var lines wiretest.Log
		for _, from := range []wiretest.From{wiretest.Client, wiretest.Server} {
			data, err := os.ReadFile(filepath.Join(dir, string(from)))
			noError(t, err)
			if _, err := lines.Lines(from, io.Discard).Write(data); err != nil {
				t.Fatal(err)
			}
		}
		return lines.Messages()
	}
}

// quote makes a text one word for the shell.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
