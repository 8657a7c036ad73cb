package servertest

// This file runs a test's child processes: the test binary as a server, or another program. A
// process writes a line when it is ready, usually its address. It ends with its standard input,
// which also ends when the test dies:
//
//	p := servertest.StartProcess(t, servertest.Self(t, "RONDO_REPLICA=1"))
//	address := p.Line()
//
// At the end of the test the process's input is closed and the test waits. It fails if it must kill
// a hanging process, or for an exit code other than 0. Standard error goes to the test's log.

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// defaultPatience is the wait for a line or the end. On loaded machines correct tests must pass.
const defaultPatience = time.Minute

// Self returns a command that runs the test binary, with env ("KEY=value") for its TestMain.
func Self(t testing.TB, env ...string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	noError(t, err)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

// A Process is a child that ends with its test. Its methods must not overlap.
type Process struct {
	// Cmd is the running command. The test may signal it, but not wait for it.
	Cmd *exec.Cmd
	// In is the process's standard input. Closing it asks the process to end.
	In  io.WriteCloser
	Out io.ReadCloser // standard output, without lines that Line has returned
	// Quiet makes any output on standard error fail the test.
	Quiet bool

	t        testing.TB
	patience time.Duration // wait for a line, and for the end
	lines    *bufio.Reader // reads pipe, for Line and Out
	pipe     io.ReadCloser
	stderr   *countingWriter
	killed   bool
	ended    bool
}

// StartProcess starts a command, whose standard streams must not be set. If it fails, the test
// fails at once. The process ends before cleanups run that were registered earlier with t.Cleanup.
func StartProcess(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	return startProcess(t, cmd, defaultPatience)
}

func startProcess(t testing.TB, cmd *exec.Cmd, limit time.Duration) *Process {
	t.Helper()
	in, err := cmd.StdinPipe()
	noError(t, err)
	out, err := cmd.StdoutPipe()
	noError(t, err)
	stderr := &countingWriter{next: t.Output()}
	cmd.Stderr = stderr
	cmd.WaitDelay = limit // a grandchild may hold its standard error open
	noError(t, cmd.Start())
	lines := bufio.NewReader(out)
	p := &Process{Cmd: cmd, In: in, t: t, patience: limit, lines: lines, pipe: out, stderr: stderr}
	p.Out = struct {
		io.Reader
		io.Closer
	}{lines, out}
	t.Cleanup(p.awaitEnd)
	return p
}

// Line returns the next line, or fails the test at once. Call it on the test's goroutine.
func (p *Process) Line() string {
	p.t.Helper()
	inTime := time.AfterFunc(p.patience, p.killAndClose).Stop
	line, err := p.lines.ReadString('\n')
	switch {
	case !inTime():
		p.t.Fatalf("%s says nothing within %s", p.Cmd, p.patience)
	case err != nil:
		p.t.Fatalf("%s says no line: %v after %q", p.Cmd, err, line)
	}
	return strings.TrimRight(line, "\r\n")
}

// Kill kills the process and waits for its exit. Its exit code then does not fail the test.
func (p *Process) Kill() {
	p.t.Helper()
	p.killed = true
	_ = p.Cmd.Process.Kill()
	p.awaitEnd()
}

func (p *Process) awaitEnd() {
	p.t.Helper()
	if p.ended {
		return
	}
	p.ended = true
	_ = p.In.Close()
	inTime := time.AfterFunc(p.patience, p.killAndClose).Stop
	_, _ = io.Copy(io.Discard, p.pipe) // unblocks a process that writes more than a pipe holds
	err := p.Cmd.Wait()
	switch {
	case !inTime():
		p.t.Errorf("%s does not end within %s of its standard input", p.Cmd, p.patience)
	case p.killed:
	case err != nil:
		p.t.Errorf("%s ended badly: %v", p.Cmd, err)
	case p.Quiet && p.stderr.n > 0:
		p.t.Errorf("%s wrote %d bytes to its standard error", p.Cmd, p.stderr.n)
	}
}

// killAndClose also closes the output, which a grandchild may hold open.
func (p *Process) killAndClose() {
	_ = p.Cmd.Process.Kill()
	_ = p.pipe.Close()
}

type countingWriter struct {
	next io.Writer
	n    int
}

func (c *countingWriter) Write(b []byte) (int, error) {
	c.n += len(b)
	return c.next.Write(b)
}
