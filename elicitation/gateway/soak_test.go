//go:build soak

package gateway_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
)

// memoryVariable makes [TestMemoryOfParkedCalls] measure one case, in its own process.
const memoryVariable = "GATEWAY_TEST_MEMORY"

// TestMemoryOfParkedCalls compares the memory of a parked call, including upstream and server, with
// that of an open call without a gateway. Each case has its own process, to reuse no freed memory.
func TestMemoryOfParkedCalls(t *testing.T) {
	const calls = 2000
	switch os.Getenv(memoryVariable) {
	case "parked":
		fmt.Println(memoryOfParkedCalls(t, calls))
		return
	case "floor":
		fmt.Println(memoryOfOpenCalls(t, startAskingTwice(t), calls))
		return
	}
	var parked, floor int
	for name, bytes := range map[string]*int{"parked": &parked, "floor": &floor} {
		cmd := servertest.Self(t, memoryVariable+"="+name)
		cmd.Args = append(cmd.Args, "-test.run=^"+t.Name()+"$")
		_, err := fmt.Sscan(servertest.StartProcess(t, cmd).Line(), bytes)
		noError(t, err)
	}
	t.Logf("bytes of each of %d calls: %v parked, %v open without a gateway", calls, parked, floor)
	if parked-floor > 8<<10 {
		t.Errorf("%d bytes over the floor", parked-floor)
	}
}

// beginAtOnce limits concurrent starts: with more, freed stacks would be measured, too.
const beginAtOnce = 20

func memoryOfParkedCalls(t *testing.T, calls int) int {
	t.Helper()
	url := startForTwo(t, protocol.Legacy, startAskingTwice(t))
	c := byHand(t, url, "ops_work")
	before := readMemory()
	var wg sync.WaitGroup
	slots := make(chan struct{}, beginAtOnce)
	for i := range calls {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			_, pending, err := c.Begin(t.Context(), &protocol.CallToolParams{
				Name: "ops_work", Arguments: fmt.Appendf(nil, `{"name":"n-%d","work":0}`, i),
			})
			if err != nil || pending == nil {
				t.Error(pending, err)
			}
		})
	}
	wg.Wait()
	if err := c.Close(); err != nil { // and its connections; the calls stay parked
		t.Error(err)
	}
	time.Sleep(time.Second) // the gateway closes its ends
	return (readMemory() - before) / calls
}

func memoryOfOpenCalls(t *testing.T, upstream string, calls int) int {
	t.Helper()
	before := readMemory()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var asked, wg sync.WaitGroup
	slots := make(chan struct{}, beginAtOnce)
	for i := range calls {
		slots <- struct{}{}
		asked.Add(1)
		p, _ := silent(func() { <-slots; asked.Done() })
		c := connect(t, upstream, protocol.Legacy, p)
		wg.Go(func() {
			_, _ = c.CallTool(ctx, "work", job{Name: fmt.Sprint("n-", i)})
			_ = c.Close()
		})
	}
	asked.Wait()
	each := (readMemory() - before) / calls
	stop()
	wg.Wait()
	return each
}

func readMemory() int {
	for range 8 { // each collection halves mostly empty stacks
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}
