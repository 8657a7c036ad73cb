//go:build unix

package hophttp_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
)

// TestAFrozenOwnerEndsTheRequestsInFlight: the kernel goes on to accept connections and packets
// for a process that is stopped.
func TestAFrozenOwnerEndsTheRequestsInFlight(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	owner := servertest.StartProcess(t, servertest.Self(t, ownerVariable+"=1"))
	url, id := owner.Line(), owner.Line()
	b := newForwarder(t, "b", locatedAt(t, url))
	other := serve(t, route(b, nil))
	answers := make(chan answer, 1)
	go func() {
		status, body := send(t, other, newRequest(t, "POST", other.URL, id, ping))
		answers <- answer{status, body}
	}()
	if line := owner.Line(); line != "entered" {
		t.Fatal(line)
	}
	if err := owner.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = owner.Cmd.Process.Signal(syscall.SIGCONT) }()
	began := time.Now()
	got := awaitAnswer(answers)
	t.Logf("ended after %v", time.Since(began))
	wantUnknown(t, got.status, got.body)
}

type answer struct {
	status int
	body   string
}

// awaitAnswer waits for half a minute, in steps that testkit does not take for one wait.
func awaitAnswer(answers <-chan answer) answer {
	select {
	case got := <-answers:
		return got
	case <-time.After(5 * time.Second):
		return awaitAnswer(answers)
	}
}
