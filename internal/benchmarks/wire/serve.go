package wire

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"
)

// Serve serves h on a free port of the loopback interface, prints the address
// on a line of its own, and returns when in ends.
func Serve(h http.Handler, in io.Reader, out io.Writer) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", h)
	srv := &http.Server{Handler: mux}
	go func() { _ = srv.Serve(listener) }()
	defer srv.Close()
	if _, err := fmt.Fprintln(out, listener.Addr()); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// A Process is a server in a process of its own, which has one processor.
type Process struct {
	Addr string
	cmd  *exec.Cmd
	in   io.Closer
}

// Start starts this program with args, which make it call [Serve].
func Start(args ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, in: in}
	if _, err := fmt.Fscanln(out, &p.Addr); err != nil {
		_, _ = p.Stop()
		return nil, fmt.Errorf("the server says no address: %w", err)
	}
	return p, nil
}

// Stop ends the process and returns the CPU time that it has used.
func (p *Process) Stop() (time.Duration, error) {
	_ = p.in.Close()
	err := p.cmd.Wait()
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime(), err
}
