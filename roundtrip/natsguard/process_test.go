package natsguard_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/internal/natstest"
	"github.com/rondo-mcp/rondo/internal/proctest"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/natsguard"
)

// These make the test binary a till: they hold the address of NATS and the file
// in which each charge leaves a line.
const (
	tillVar    = "RONDO_NATSGUARD_TILL"
	chargesVar = "RONDO_NATSGUARD_CHARGES"
)

// serveTill is the test binary as a till, until its standard input ends.
func serveTill(url, charges string) {
	if err := till(url, charges); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func till(url, charges string) error {
	conn, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	guard, err := natsguard.New(context.Background(), js, nil)
	if err != nil {
		return err
	}
	srv, err := newTill(roundtrip.Options{RequireSharedKey: true, Guard: guard},
		func() (int, error) {
			file, err := os.OpenFile(charges, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return 0, err
			}
			defer file.Close()
			_, err = fmt.Fprintln(file, os.Getpid())
			return 1, err
		})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(listener, srv) }() // ends with the process
	fmt.Println(listener.Addr())
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	return nil
}

// startTill starts a till in a process of its own and returns its host.
func startTill(t *testing.T, url, charges string) (host string) {
	t.Helper()
	return proctest.Start(t, proctest.Self(t, tillVar+"="+url, chargesVar+"="+charges)).Line()
}

// TestProcessesChargeOnce: two processes that share a key and a guard, and the
// final leg of a flow a hundred times at once, to both in turn.
func TestProcessesChargeOnce(t *testing.T) {
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	charges := t.TempDir() + "/charges"
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	t.Cleanup(transport.CloseIdleConnections)
	hosts := []string{startTill(t, url, charges), startTill(t, url, charges)}
	f := &fleet{base: transport, hosts: hosts}
	f.finalLeg(t)
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if got := f.replay(t); got != "charge 1" && got != "23223" {
				t.Errorf("a replay gets %q", got)
			}
		})
	}
	wg.Wait()
	for range 2 { // each of them, afterwards
		if got := f.replay(t); got != "charge 1" {
			t.Errorf("a replay afterwards gets %q", got)
		}
	}
	lines, err := os.ReadFile(charges)
	if n := strings.Count(string(lines), "\n"); err != nil || n != 1 {
		t.Errorf("charged %d times, %v", n, err)
	}
}
