package servertest

// This file runs the child processes of a test: the test binary again, as a server, or another
// program.
//
// A process writes a line to its standard output when it is ready, usually its address. It ends
// when its standard input does, which is also what happens when the test dies:
//
//	p := servertest.StartProcess(t, servertest.Self(t, "RONDO_REPLICA=1"))
//	address := p.Line()
//
// At the end of the test its input is closed and it is waited for. A process
// that hangs is killed. That, and an exit code other than 0, fail the test. Its
// standard error goes to the log of the test.

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// defaultPatience is for a line, and for the end. Only a process that hangs takes as long: a loaded
// machine must not fail a correct test.
const defaultPatience = time.Minute

// Self returns the command that starts the running test binary again, with variables ("KEY=value")
// in its environment that tell its TestMain not to run tests.
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
	// Cmd is the running command. The test may send signals to it, but must not wait for it.
	Cmd *exec.Cmd
	// In is its standard input. Closing it asks the process to end.
	In io.WriteCloser
	// Out is its standard output after the lines that Line has returned.
	Out io.ReadCloser
	// Quiet makes the test fail if the process has written to its standard error.
	Quiet bool

	t        testing.TB
	patience time.Duration // for a line, and for the end
	lines    *bufio.Reader // over pipe, for Line and Out
	pipe     io.ReadCloser
	stderr   *countingWriter
	killed   bool
	ended    bool
}

// StartProcess starts a command, whose standard streams must not be set, or fails the test at once.
// The process ends before functions run that were registered with t.Cleanup earlier.
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
	cmd.WaitDelay = limit // a child of the process may hold its standard error open
	noError(t, cmd.Start())
	lines := bufio.NewReader(out)
	p := &Process{
		Cmd: cmd, In: in, Out: outputPipe{lines, out},
		t: t, patience: limit, lines: lines, pipe: out, stderr: stderr,
	}
	t.Cleanup(p.awaitEnd)
	return p
}

// Line returns the next line of the process without its end, or fails the test
// at once when none comes. Call it on the goroutine of the test.
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

// Kill kills the process and returns when it has exited. Its exit code does not fail the test then.
func (p *Process) Kill() {
	p.t.Helper()
	p.killed = true
	_ = p.Cmd.Process.Kill()
	p.awaitEnd()
}

// awaitEnd asks the process to end and waits until it has.
func (p *Process) awaitEnd() {
	p.t.Helper()
	if p.ended {
		return
	}
	p.ended = true
	_ = p.In.Close()
	inTime := time.AfterFunc(p.patience, p.killAndClose).Stop
	_, _ = io.Copy(io.Discard, p.pipe) // the process may write more than a pipe holds
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

// killAndClose also closes the output, which a child of the process may hold open.
func (p *Process) killAndClose() {
	_ = p.Cmd.Process.Kill()
	_ = p.pipe.Close()
}

type outputPipe struct {
	io.Reader
	io.Closer
}

type countingWriter struct {
	next io.Writer
	n    int
}

func (c *countingWriter) Write(b []byte) (int, error) {
	c.n += len(b)
	return c.next.Write(b)
}
