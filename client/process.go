package client

import (
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
	// defaultExitGrace is how long a process may take to exit after its
	// input has been closed, and again after SIGTERM. Servers exit
	// promptly, or after they have finished writing. Some do not notice the
	// end of their input, and the client should not wait long for those.
	defaultExitGrace = 2 * time.Second
	// maxStderrTail is how much of the end of standard error an [ExitError]
	// keeps: enough for the reason of a failure, little enough to log.
	maxStderrTail = 4 << 10
	// exitDelay is the longest time between the exit of a process and the
	// end of its output. If it takes longer, another process holds the
	// output open, such as a child of the server.
	exitDelay = time.Second
)

// CommandOptions configure a [Process]. The zero value works.
type CommandOptions struct {
	// Stream configures the stream of messages.
	Stream StreamOptions
	// Grace is how long [Process.Close] waits for the process to exit,
	// after closing its input and again after SIGTERM. 0:
	// 2 s, negative: not at all.
	Grace time.Duration
	// OwnGroup has the process begin a process group. Its children end with it then: what
	// [Process.Close] sends goes to all of them, and those that are left when it has exited are
	// killed. A terminal's interrupt does not reach the group. It has no effect where there are
	// no such groups, as on Windows.
	OwnGroup bool
}

// A Process is a server that runs as a child process and is spoken to over its
// standard input and output (basic/transports/stdio), as a [Stream] is. When it has exited,
// the error of its Handle is an [*ExitError].
type Process struct {
	*stream   // Close, Done and Err of the process are its own
	cmd       *exec.Cmd
	ownGroup  bool
	grace     time.Duration
	stderr    *stderrTail
	stdin     io.Closer
	stdout    io.Closer
	exited    chan struct{} // closed when the process has been waited for
	status    *ExitError    // set before exited is closed
	closeOnce sync.Once
	// signalled: Close has sent a signal, so the exit status says nothing
	// about the server.
	signalled atomic.Bool
}

type stream = Stream

// Command starts cmd and returns the server that it runs. Nil options mean
// defaults. Standard input and output of cmd must not be set. Standard error
// goes to cmd.Stderr if that is set; its end is kept for [ExitError], but it
// says nothing about success. When cmd was made with a context, the end of that
// context kills the process. A WaitDelay of zero is set to half a second, so
// that a process which inherited standard error cannot hide that the server has
// exited.
//
// The process is waited for as soon as it exits. [Process.Close] ends it.
func Command(cmd *exec.Cmd, opts *CommandOptions) (*Process, error) {
	var o CommandOptions
	if opts != nil {
		o = *opts
	}
	if o.Grace == 0 {
		o.Grace = defaultExitGrace
	}
	if cmd.Stdout != nil {
		return nil, errors.New("client: command: Stdout is already set")
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, errPrefix.Errorf("command: %w", err)
	}
	// Not a StdoutPipe: Wait would close that before all output has been read.
	stdout, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(errPrefix.Errorf("command: %w", err), stdin.Close())
	}
	p := &Process{
		cmd: cmd, ownGroup: o.OwnGroup, grace: max(o.Grace, 0),
		stderr: &stderrTail{next: cmd.Stderr},
		stdin:  stdin, stdout: stdout, exited: make(chan struct{}),
	}
	cmd.Stdout, cmd.Stderr = out, p.stderr
	if cmd.WaitDelay == 0 {
		// else Wait blocks while a child of the server holds stderr open
		cmd.WaitDelay = exitDelay / 2
	}
	if p.ownGroup {
		startOwnGroup(cmd)
	}
	err = cmd.Start()
	_ = out.Close() // the process has its own
	if err != nil {
		_ = stdout.Close()
		return nil, errPrefix.Errorf("command: %w", err)
	}
	p.stream = newStream(stdout, stdin, &o.Stream, p.explainEnd)
	go p.awaitExit()
	return p, nil
}

// Done returns a channel that is closed when the process has exited and been
// waited for.
func (p *Process) Done() <-chan struct{} { return p.exited }

// Err returns nil while the process runs, when it has exited with status 0, and
// when [Process.Close] had to signal it, else the [*ExitError].
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

// Close ends the process and waits until it has exited. Requests that run fail
// with [ErrClosed]. It closes the input of the process, which tells a server to
// exit. A process that does not is sent SIGTERM, and killed if it does not exit
// then either. Windows has no SIGTERM: there it is killed after the first wait.
//
// The error is an [*ExitError] if the process exited by itself with a status
// other than 0. A status after a signal of Close is no error. Concurrent calls
// all wait and return the same.
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

// exitsWithin reports whether the process exits within limit.
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

// awaitExit waits for the process. Output that it wrote before it exited is
// still read, but for no longer than exitDelay.
func (p *Process) awaitExit() {
	err := p.cmd.Wait()
	if p.ownGroup {
		_ = signalGroup(p.cmd.Process.Pid, syscall.SIGKILL) // what is left of it
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

// explainEnd returns the exit status if the stream has ended because the
// process has exited, else err.
func (p *Process) explainEnd(err error) error {
	if p.exitsWithin(exitDelay) {
		return p.status
	}
	return err
}

// A stderrTail passes on what is written to it and keeps the end.
type stderrTail struct {
	next io.Writer // nil: nowhere

	mu   sync.Mutex
	kept []byte
}

// Write never fails: a process must not die because its standard error cannot
// be passed on.
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
