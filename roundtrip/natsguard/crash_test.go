package natsguard_test

import (
	"bufio"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/natstest"
	"github.com/rondo-mcp/rondo/internal/proctest"
	"github.com/rondo-mcp/rondo/roundtrip/natsguard"
)

// storeVar makes the test binary a NATS server that keeps its files there.
const storeVar = "RONDO_NATSGUARD_STORE"

// serveNATS is the test binary as a server, until its standard input ends,
// which is also what happens when the test dies.
func serveNATS(dir string) {
	srv, err := natstest.Serve(dir, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(srv.ClientURL())
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	natstest.Stop(srv)
	os.Exit(0)
}

// startProcess starts a server in a process of its own.
func startProcess(t *testing.T, dir string) (url string, p *proctest.Process) {
	t.Helper()
	p = proctest.Start(t, proctest.Self(t, storeVar+"="+dir))
	return p.Line(), p
}

// TestCrash kills the process of the server in the middle of its work. Whatever
// claim it acknowledged is still there when it starts again.
func TestCrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	url, process := startProcess(t, dir)
	g := newGuard(t, natstest.Connect(t, url), &natsguard.Options{Timeout: time.Second})
	claims := make(chan string, 100_000)
	failed := make(chan struct{})
	go func() {
		defer close(failed)
		defer close(claims)
		for i := 0; ; i++ {
			id := fmt.Sprint("state", i)
			if g.Claim(t.Context(), id, "", print1, inAnHour()) != nil {
				return
			}
			claims <- id
		}
	}()
	natstest.Eventually(t, "there are claims", func() bool { return len(claims) > 200 })
	process.Kill()
	<-failed

	url, _ = startProcess(t, dir)
	fresh := newGuard(t, natstest.Connect(t, url), nil)
	n := 0
	for id := range claims {
		spent(t, fresh.Claim(t.Context(), id, "", print1, inAnHour()))
		n++
	}
	if n < 200 {
		t.Errorf("%d claims were made, want more", n)
	}
}
