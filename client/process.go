package client

import (
	"cmp"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// defaultExitGrace is how long a process may take to exit after its input is closed, and again
	// after SIGTERM. Some servers do not notice the end of their input.
	defaultExitGrace = 2 * time.Second
	maxStderrTail    = 4 << 10 // size kept in an [ExitError]
	// exitDelay is the longest time between a process's exit and the end of its output. After that
	// time, another process, such as a child, must hold the output open.
	exitDelay = time.Second
)

// CommandOptions configure a [Process]. The zero value works.
type CommandOptions struct {
	Stream StreamOptions
	// Grace is how long [Process.Close] waits for the exit, after closing the input and again after
	// SIGTERM. 0: 2 s, negative: no wait.
	Grace time.Duration
	// OwnGroup starts the process in its own process group, so that its children end with it: they
	// get [Process.Close]'s signals, and children left after its exit are killed. A terminal's
	// interrupt does not reach the group. No effect on Windows.
	OwnGroup bool
}

// A Process is a server that runs as a child process: a [Stream] over its standard input and output
// (basic/transports/stdio). After the process's exit, Handle returns an [*ExitError].
type Process struct {
	*stream   // methods except Close, Done and Err
	cmd       *exec.Cmd
	ownGroup  bool
	grace     time.Duration
	stderr    *stderrTail
	stdin     io.Closer
	stdout    io.Closer
	exited    chan struct{} // closed after the process was waited for
	status    *ExitError    // set before exited is closed
	closeOnce sync.Once
	signalled atomic.Bool // Close sent a signal: the exit status does not matter
}

type stream = Stream

// Command starts cmd and returns the server that it runs. [Process.Close] ends it. opts may be nil.
// Standard input and output of cmd must not be set. Standard error goes to cmd.Stderr, if set, and
// its last part to [ExitError]. The end of cmd's context kills the process. A WaitDelay of zero
// becomes half a second: a child that inherited standard error must not hide the exit.
func Command(cmd *exec.Cmd, opts *CommandOptions) (*Process, error) {
	o := *cmp.Or(opts, &CommandOptions{})
	if cmd.Stdout != nil {
		return nil, errors.New("client: command: Stdout is already set")
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, errPrefix.Errorf("command: %w", err)
	}
	// A StdoutPipe would be closed by Wait before all output has been read.
	stdout, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(errPrefix.Errorf("command: %w", err), stdin.Close())
	}
	p := &Process{
		cmd: cmd, ownGroup: o.OwnGroup, grace: max(cmp.Or(o.Grace, defaultExitGrace), 0),
		stderr: &stderrTail{next: cmd.Stderr},
		stdin:  stdin, stdout: stdout, exited: make(chan struct{}),
	}
	cmd.Stdout, cmd.Stderr = out, p.stderr
	if cmd.WaitDelay == 0 {
		// Otherwise Wait blocks while a child of the server holds stderr open.
		cmd.WaitDelay = exitDelay / 2
	}
	if p.ownGroup {
		startOwnGroup(cmd)
	}
	err = cmd.Start()
	_ = out.Close() // the process has its own copy
	if err != nil {
		_ = stdout.Close()
		return nil, errPrefix.Errorf("command: %w", err)
	}
	p.stream = newStream(stdout, stdin, &o.Stream, p.explainEnd)
	go p.awaitExit()
	return p, nil
}

// Done is closed when the process has exited and been waited for.
func (p *Process) Done() <-chan struct{} { return p.exited }

// Err returns the [*ExitError]. Nil while the process runs, after status 0, or a signal of Close.
func (p *Process) Err() error {
	select {
	case <-p.exited:
	default:
		return nil
	}
	if p.signalled.Load() || p.status.State != nil && p.status.State.Success() {
		return nil
	}
	return p.status
}

// Close ends the process and waits for its exit. Running requests fail with [ErrClosed]. Close
// closes the process's input, which tells a server to exit, sends SIGTERM after Grace (not on
// Windows), and kills the process after another Grace. The error is an [*ExitError] if the process
// exited by itself with a status other than 0. Concurrent calls return the same error.
func (p *Process) Close() error {
	p.closeOnce.Do(func() {
		p.stream.endStream(ErrClosed)
		_ = p.stdin.Close()
		if !p.exitsWithin(p.grace) {
			p.signalled.Store(true)
			if err := p.signal(syscall.SIGTERM); err != nil || !p.exitsWithin(p.grace) {
				_ = p.signal(syscall.SIGKILL)
			}
		}
		<-p.exited
		_ = p.stdout.Close()
	})
	<-p.exited
	return p.Err()
}

func (p *Process) signal(s syscall.Signal) error {
	if p.ownGroup {
		if err := signalGroup(p.cmd.Process.Pid, s); !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	return p.cmd.Process.Signal(s)
}

func (p *Process) exitsWithin(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
		return false
	}
}

// awaitExit waits for the process, and then up to exitDelay until its output has been read.
func (p *Process) awaitExit() {
	err := p.cmd.Wait()
	if p.ownGroup {
		_ = signalGroup(p.cmd.Process.Pid, syscall.SIGKILL) // its remaining children
	}
	p.status = &ExitError{State: p.cmd.ProcessState, Stderr: p.stderr.String()}
	if p.status.State == nil {
		p.status.Err = err
	}
	close(p.exited)
	timer := time.NewTimer(exitDelay)
	defer timer.Stop()
	select {
	case <-p.stream.Done():
	case <-timer.C:
	}
	_ = p.stdout.Close()
}

// explainEnd returns the exit status if the exit ended the stream, else err.
func (p *Process) explainEnd(err error) error {
	if p.exitsWithin(exitDelay) {
		return p.status
	}
	return err
}

// A stderrTail is a writer that forwards its input and keeps the end of it.
type stderrTail struct {
	next io.Writer // may be nil

	mu   sync.Mutex
	kept []byte
}

// Write never fails: a process must not die because its standard error cannot be forwarded.
func (t *stderrTail) Write(b []byte) (int, error) {
	t.mu.Lock()
	t.kept = append(t.kept, b[max(0, len(b)-maxStderrTail):]...)
	t.kept = t.kept[max(0, len(t.kept)-maxStderrTail):]
	t.mu.Unlock()
	if t.next != nil {
		_, _ = t.next.Write(b)
	}
	return len(b), nil
}

func (t *stderrTail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}
