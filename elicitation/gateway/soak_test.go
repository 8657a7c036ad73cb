//go:build soak

package gateway_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A named is the argument of a tool that tells calls apart.
type named struct {
	Name string `json:"name"`
}

// echoNamed asks the caller for a word, and again with it.
func echoNamed(ctx context.Context, _ *server.ToolCall, in named) (outcome, error) {
	first, err := roundtrip.Ask[target](ctx, "first", "first of "+in.Name)
	if err != nil {
		return nil, err
	}
	second, err := roundtrip.Ask[target](ctx, "second", "second of "+in.Name+", "+first.Name)
	if err != nil {
		return nil, err
	}
	return server.Text(in.Name + " " + first.Name + " " + second.Name), nil
}

// startNamed serves echoNamed without limits that a thousand calls at once would reach.
func startNamed(t *testing.T) (url string) {
	t.Helper()
	srv := newServer(t, &server.Options{Roundtrip: unlimited()})
	server.AddTool(srv, server.Tool{Name: "echo"}, echoNamed)
	return serveHTTPWith(t, srv, &serverhttp.Options{Limits: manySessions()})
}

func startForTwo(t *testing.T, era protocol.Era, upstream string) (url string) {
	t.Helper()
	_, url = serveGateway(t, &gateway.Options{
		Log:      zaplog.New(zap.NewNop()),
		Server:   server.Options{Roundtrip: unlimited()},
		MaxCalls: -1, MaxCallsPerPrincipal: -1, MaxConnections: 5000,
		Upstreams: []gateway.Upstream{ops(upstream, era)},
	}, &serverhttp.Options{Limits: manySessions(), Authenticate: subjectOf})
	return url
}

// TestManyCallsOfTwoUsers: two users with 500 calls each, 90 of them at once, in every pairing. A
// client of this module takes 100 pushed questions at once.
func TestManyCallsOfTwoUsers(t *testing.T) {
	const calls = 500
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		url := startForTwo(t, upstreamEra, startNamed(t))
		var wg sync.WaitGroup
		began := time.Now()
		for _, user := range []string{"ann", "bob"} {
			c := clientOf(t, url, clientEra, user)
			slots := make(chan struct{}, 90)
			for i := range calls {
				wg.Go(func() {
					slots <- struct{}{}
					defer func() { <-slots }()
					name := fmt.Sprint(user, "-", i)
					result, err := c.CallTool(t.Context(), "ops_echo", named{name})
					if want := strings.Join([]string{name, user, user}, " "); err != nil ||
						textOf(result) != want {
						t.Errorf("got %q, %v, want %q", textOf(result), err, want)
					}
				})
			}
		}
		wg.Wait()
		t.Logf("%d calls with two questions each in %v", 2*calls, time.Since(began))
	})
}

// clientOf returns the client of a user, who answers every question with his name, and fails the
// test where one is somebody else's.
func clientOf(t *testing.T, url string, era protocol.Era, user string) *client.Client {
	t.Helper()
	p := &person{answer: func(_ context.Context, message string) *protocol.ElicitResult {
		if !strings.Contains(message, " of "+user+"-") {
			t.Errorf("%s was asked %q", user, message)
		}
		r, _ := client.Accept(target{user})
		return r
	}}
	return connectUser(t, url, user, client.Options{
		Era: era, Timeout: time.Minute, ElicitForm: p.fill}, "ops_echo")
}

// memoryVariable has [TestMemoryOfParkedCalls] measure one thing, in a process of its own.
const memoryVariable = "GATEWAY_TEST_MEMORY"

// TestMemoryOfParkedCalls compares what a parked call holds with an open call of the same client
// without a gateway. The upstream and its server are included. Each is measured in a process of its
// own: what was freed before would be used again.
func TestMemoryOfParkedCalls(t *testing.T) {
	const calls = 2000
	switch os.Getenv(memoryVariable) {
	case "parked":
		fmt.Println(memoryOfParkedCalls(t, calls))
		return
	case "floor":
		fmt.Println(memoryOfOpenCalls(t, startNamed(t), calls))
		return
	}
	var parked, floor memory
	for name, m := range map[string]*memory{"parked": &parked, "floor": &floor} {
		cmd := servertest.Self(t, memoryVariable+"="+name)
		cmd.Args = append(cmd.Args, "-test.run=^"+t.Name()+"$")
		line := servertest.StartProcess(t, cmd).Line()
		if _, err := fmt.Sscan(line, &m.heap, &m.stacks); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("bytes of each of %d calls, heap and stacks: %v parked, %v open without a gateway",
		calls, parked, floor)
	if over := parked.heap + parked.stacks - floor.heap - floor.stacks; over > 8<<10 {
		t.Errorf("%d bytes over the floor", over)
	}
}

// beginAtOnce is how many calls begin at once. The stacks of more would be free later, and count.
const beginAtOnce = 20

func memoryOfParkedCalls(t *testing.T, calls int) memory {
	t.Helper()
	url := startForTwo(t, protocol.Legacy, startNamed(t))
	c := byHand(t, url, "ops_echo")
	before := readMemory()
	var wg sync.WaitGroup
	slots := make(chan struct{}, beginAtOnce)
	for i := range calls {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			_, pending, err := c.Begin(t.Context(), &protocol.CallToolParams{
				Name: "ops_echo", Arguments: fmt.Appendf(nil, `{"name":"n-%d"}`, i),
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
	return readMemory().since(before, calls)
}

func memoryOfOpenCalls(t *testing.T, upstream string, calls int) memory {
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
			_, _ = c.CallTool(ctx, "echo", named{fmt.Sprint("n-", i)})
			_ = c.Close()
		})
	}
	asked.Wait()
	each := readMemory().since(before, calls)
	stop()
	wg.Wait()
	return each
}

// A memory is what is held, in bytes.
type memory struct{ heap, stacks int }

func (m memory) String() string { return fmt.Sprint(m.heap, " ", m.stacks) }

func (m memory) since(before memory, calls int) memory {
	return memory{(m.heap - before.heap) / calls, (m.stacks - before.stacks) / calls}
}

func readMemory() memory {
	for range 8 { // each halves the stacks that are mostly empty
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{int(m.HeapAlloc), int(m.StackInuse)}
}
