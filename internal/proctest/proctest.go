// Package proctest runs the other processes of a test: the test binary again, as a server, or a program of somebody else.
//
// A process says something on its standard output when it is ready, mostly its address, and ends when its standard input does,
// which is also what happens when the test dies:
//
//	p := proctest.Start(t, proctest.Self(t, "RONDO_REPLICA=1"))
//	address := p.Line()
//
// At the end of the test its input is closed and it is waited for. One that hangs is killed; that, and an exit code other than
// 0, fail the test. What it writes to its standard error is in the log of the test.
package proctest

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// patience is how long a process may take to say a line, and how long to end. Generous, because it is only spent when something
// hangs, and a loaded machine must not fail a correct test.
const patience = time.Minute

// Self is the command that starts the running test binary again, with variables ("KEY=value") in its environment by which its
// TestMain knows that it is not to run tests.
func Self(t testing.TB, env ...string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

// A Process is a child that lives no longer than the test that started it. Its methods must not overlap.
type Process struct {
	// Cmd is the command that runs. It may be sent signals; to wait for it is not the caller's business.
	Cmd *exec.Cmd
	// In is its standard input. Closing it asks the process to end.
	In io.WriteCloser
	// Out is its standard output after the lines that Line has returned.
	Out io.ReadCloser
	// Quiet makes it a failure, too, that it has written anything to its standard error when it ends.
	Quiet bool

	t      testing.TB
	limit  time.Duration
	lines  *bufio.Reader // over pipe, for Line and Out alike
	pipe   io.ReadCloser
	stderr *counter
	killed bool
	ended  bool
}

// Start starts a command, whose standard streams must not be set, or fails the test at once. The process ends before what was
// registered with t.Cleanup earlier is run.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	return start(t, cmd, patience)
}

func start(t testing.TB, cmd *exec.Cmd, limit time.Duration) *Process {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := &counter{to: t.Output()}
	cmd.Stderr = stderr
	cmd.WaitDelay = limit // a child of its own may hold its standard error open
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	p := &Process{
		Cmd: cmd, In: in, Out: output{lines, out},
		t: t, limit: limit, lines: lines, pipe: out, stderr: stderr,
	}
	t.Cleanup(p.end)
	return p
}

// Line returns the next line of the process without its end, or fails the test at once when none comes. Call it on the
// goroutine of the test.
func (p *Process) Line() string {
	p.t.Helper()
	inTime := time.AfterFunc(p.limit, p.abandon).Stop
	line, err := p.lines.ReadString('\n')
	switch {
	case !inTime():
		p.t.Fatalf("%s says nothing within %s", p.Cmd, p.limit)
	case err != nil:
		p.t.Fatalf("%s says no line: %v after %q", p.Cmd, err, line)
	}
	return strings.TrimRight(line, "\r\n")
}

// Kill ends the process without warning, and returns when it is gone. How it ends is no failure then.
func (p *Process) Kill() {
	p.t.Helper()
	p.killed = true
	_ = p.Cmd.Process.Kill()
	p.end()
}

// end asks the process to end and waits until it has.
func (p *Process) end() {
	p.t.Helper()
	if p.ended {
		return
	}
	p.ended = true
	_ = p.In.Close()
	inTime := time.AfterFunc(p.limit, p.abandon).Stop
	_, _ = io.Copy(io.Discard, p.pipe) // it may have more to say than a pipe holds
	err := p.Cmd.Wait()
	switch {
	case !inTime():
		p.t.Errorf("%s does not end within %s of its standard input", p.Cmd, p.limit)
	case p.killed:
	case err != nil:
		p.t.Errorf("%s ended badly: %v", p.Cmd, err)
	case p.Quiet && p.stderr.n > 0:
		p.t.Errorf("%s wrote %d bytes to its standard error", p.Cmd, p.stderr.n)
	}
}

// abandon lets go of whoever waits for output. To kill is not enough: a child of the process may hold its end open.
func (p *Process) abandon() {
	_ = p.Cmd.Process.Kill()
	_ = p.pipe.Close()
}

// output is a pipe that something has been read from.
type output struct {
	io.Reader
	io.Closer
}

// counter counts what is written through it.
type counter struct {
	to io.Writer
	n  int
}

func (c *counter) Write(b []byte) (int, error) {
	c.n += len(b)
	return c.to.Write(b)
}
