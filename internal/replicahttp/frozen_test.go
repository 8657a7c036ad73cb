//go:build unix

package replicahttp_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/proctest"
	"github.com/rondo-mcp/rondo/internal/replicahttp"
)

// TestAFrozenOwnerEndsTheRequestsInFlight: the kernel goes on to accept connections and packets
// for a process that is stopped.
func TestAFrozenOwnerEndsTheRequestsInFlight(t *testing.T) {
	t.Parallel()
	owner := proctest.Start(t, proctest.Self(t, ownerVariable+"=1"))
	url, id := owner.Line(), owner.Line()
	b := newForwarder(t, "b", locatedAt(t, url))
	other := serve(t, b.Wrap(http.NotFoundHandler(), replicahttp.WrapOptions{}))
	type answer struct {
		status int
		body   string
	}
	answers := make(chan answer)
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
	b.HearNothingFor(20 * time.Second) // else the test takes as much longer
	got := <-answers
	t.Logf("ended after %v", time.Since(began))
	if got.status != 502 || !strings.Contains(got.body, "outcome unknown") {
		t.Errorf("got %d: %s", got.status, got.body)
	}
}
