//go:build slow || soak

package natsbus_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/natsbus"
	"github.com/rondo-mcp/rondo/internal/natstest"
	"github.com/rondo-mcp/rondo/internal/proctest"
	"github.com/rondo-mcp/rondo/internal/testmode"
)

// A gateway is a process with a router.
type gateway struct {
	*proctest.Process
	dead atomic.Bool // before it is killed

	mu      sync.Mutex
	waiting map[string]chan gatewayReport // by what is reported, and of which command
}

func startGateway(t *testing.T, urls []string) *gateway {
	t.Helper()
	g := &gateway{
		Process: proctest.Start(t, proctest.Self(t, gatewayVar+"="+strings.Join(urls, ","))),
		waiting: make(map[string]chan gatewayReport),
	}
	if line := g.Line(); !strings.Contains(line, "ready") {
		t.Fatalf("the gateway says %q", line)
	}
	go g.readReports(bufio.NewScanner(g.Out))
	return g
}

func (g *gateway) readReports(lines *bufio.Scanner) {
	for lines.Scan() {
		var r gatewayReport
		if json.Unmarshal(lines.Bytes(), &r) == nil {
			g.channel(r.Do, r.N) <- r
		}
	}
}

// channel is where a report arrives, once.
func (g *gateway) channel(do string, n int) chan gatewayReport {
	if do == "refused" {
		do = "asked"
	}
	name := fmt.Sprint(do, n)
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.waiting[name]
	if c == nil {
		c = make(chan gatewayReport, 1)
		g.waiting[name] = c
	}
	return c
}

// send gives the gateway a command. One that was killed does not read it.
func (g *gateway) send(c command) {
	line, _ := json.Marshal(c)
	g.mu.Lock()
	defer g.mu.Unlock()
	_, _ = g.In.Write(append(line, '\n'))
}

// A chaos is a fleet that something happens to.
type chaos struct {
	t        *testing.T
	cluster  *natstest.WiredCluster
	urls     []string
	gateways []*gateway
	random   *rand.Rand
	numbers  atomic.Int32

	asked, answered, orphaned, attempts, again atomic.Int32
	mu                                         sync.Mutex
	tookGone, took                             []time.Duration
}

// startGatewayAt starts a gateway that prefers one server.
func (c *chaos) startGatewayAt(i int) {
	c.gateways[i] = startGateway(c.t, append(slices.Clone(c.urls[i:]), c.urls[:i]...))
}

// flow asks at one gateway and answers at another when begin is closed. stop is closed when
// everything works again.
func (c *chaos) flow(owner, other *gateway, begin <-chan struct{}, opened *sync.WaitGroup) {
	n := int(c.numbers.Add(1))
	owner.send(command{Do: "ask", N: n})
	asked, ok := c.await(owner, "asked", n)
	opened.Done()
	switch {
	case !ok:
		c.orphaned.Add(1)
		return
	case asked.Do == "refused":
		c.t.Errorf("a question was refused: %s", asked.Text)
		return
	}
	c.asked.Add(1)
	<-begin
	reason := fmt.Sprint("reason ", n)
	for try := 0; ; try++ {
		attempt := int(c.numbers.Add(1))
		other.send(command{Do: "answer", N: attempt, ID: asked.ID, Session: asked.Session,
			Reason: reason})
		r, ok := c.await(other, "answered", attempt)
		if !ok { // the other gateway was killed: the client tries the next one
			if other = c.anotherThan(owner, other); other == nil {
				return
			}
			continue
		}
		if c.finish(owner, n, reason, r, try) {
			return
		}
	}
}

// finish judges what became of an attempt to answer. It reports false if the client tries
// again.
func (c *chaos) finish(owner *gateway, n int, reason string, r gatewayReport, try int) bool {
	c.attempts.Add(1)
	c.mu.Lock()
	if r.Gone {
		c.tookGone = append(c.tookGone, r.Took)
	} else {
		c.took = append(c.took, r.Took)
	}
	c.mu.Unlock()
	switch {
	case r.Gone && owner.dead.Load():
		c.orphaned.Add(1)
		return true
	case r.Gone:
		c.t.Error("the owner of a question lives and is said to be gone")
		return true
	case r.Failed:
		if owner.dead.Load() {
			c.orphaned.Add(1) // its server died as well: nobody can tell
			return true
		}
		c.again.Add(1)
		if try < 3 {
			return false
		}
		c.t.Errorf("an answer gets lost: %s", r.Text)
		return true
	case r.Disposition == elicitation.Duplicate && try > 0: // an attempt before has counted
	case r.Disposition != elicitation.Accepted:
		if !owner.dead.Load() {
			c.t.Errorf("an answer is %v", r.Disposition)
		}
		return true
	}
	outcome, ok := c.await(owner, "outcome", n)
	switch {
	case !ok:
		c.orphaned.Add(1)
	case outcome.Failed || outcome.Text != fmt.Sprintf(`{"reason":%q}`, reason):
		c.t.Errorf("the outcome is %q, want %q", outcome.Text, reason)
	default:
		c.answered.Add(1)
	}
	return true
}

// await waits for a report. It reports false when the gateway was killed.
func (c *chaos) await(g *gateway, do string, n int) (r gatewayReport, ok bool) {
	const hung = 2 * gatewayPatience
	for end := time.Now().Add(hung); ; {
		select {
		case r := <-g.channel(do, n):
			return r, true
		case <-time.After(100 * time.Millisecond):
		}
		if g.dead.Load() {
			select {
			case r := <-g.channel(do, n):
				return r, true
			case <-time.After(100 * time.Millisecond):
				return r, false
			}
		}
		if time.Now().After(end) {
			c.t.Errorf("%s %d: nothing within %v", do, n, hung)
			return r, false
		}
	}
}

func (c *chaos) anotherThan(these ...*gateway) *gateway {
	for _, g := range c.gateways {
		if !slices.Contains(these, g) && !g.dead.Load() {
			return g
		}
	}
	return nil
}

// leader returns the server that leads the directory.
func (c *chaos) leader() int {
	for i, s := range c.cluster.Servers {
		if s.JetStreamIsStreamLeader("$G", "KV_"+natsbus.DefaultBucket) {
			return i
		}
	}
	return c.random.IntN(3)
}

// A trouble is what happens in a round, and how it ends. Gateways that are killed are started
// again by the round.
type trouble struct {
	name string
	run  func(c *chaos) (end func())
	// calm says that the servers must have been well for some time before: whether an owner
	// is gone is known at once then.
	calm bool
}

// calmTime is for how long servers are not trusted after trouble, and the time in which they
// elect leaders.
const calmTime = 15 * time.Second

func (c *chaos) kill(i int) {
	g := c.gateways[i]
	g.dead.Store(true)
	g.Kill()
}

func crashLeader(c *chaos) func() {
	i := c.leader()
	c.cluster.Crash(i)
	<-time.After(6 * time.Second)
	return func() { c.cluster.Restart(c.t, i) }
}

func troubles() []trouble {
	isolate := func(i func(*chaos) int, length time.Duration) func(*chaos) func() {
		return func(c *chaos) func() {
			i := i(c)
			c.cluster.Isolate(i)
			<-time.After(length)
			return func() { c.cluster.Rejoin(i) }
		}
	}
	stall := func(length time.Duration) func(*chaos) func() {
		return func(c *chaos) func() {
			i := c.leader()
			c.cluster.Stall(i)
			<-time.After(length)
			return func() { c.cluster.Resume(i) }
		}
	}
	anyServer := func(c *chaos) int { return c.random.IntN(3) }
	return []trouble{
		{name: "owner killed", calm: true, run: func(c *chaos) func() {
			c.kill(c.random.IntN(3))
			return func() {}
		}},
		{name: "leader killed", run: crashLeader},
		{name: "leader isolated", run: isolate((*chaos).leader, 12*time.Second)},
		{name: "leader stalled", run: stall(5 * time.Second)},
		{name: "no quorum", run: func(c *chaos) func() {
			i := c.random.IntN(3)
			j := (i + 1) % 3
			c.cluster.Crash(i)
			c.cluster.Crash(j)
			<-time.After(6 * time.Second)
			return func() {
				c.cluster.Restart(c.t, i)
				c.cluster.Restart(c.t, j)
			}
		}},
		{name: "owner and leader killed", run: func(c *chaos) func() {
			c.kill(c.random.IntN(3))
			return crashLeader(c)
		}},
		{name: "a server isolated", run: isolate(anyServer, 8*time.Second)},
		{name: "a server loses its disk", run: func(c *chaos) func() {
			i := c.random.IntN(3)
			c.cluster.Crash(i)
			<-time.After(2 * time.Second)
			return func() { c.cluster.RestartEmpty(c.t, i) }
		}},
		{name: "quiet", run: func(*chaos) func() { return func() {} }},
		{name: "leader stalled for long", run: stall(12 * time.Second)},
	}
}

// round has questions in flight while something happens, and asks more meanwhile.
func (c *chaos) round(what trouble) {
	const before, meanwhile = 200, 50
	began := time.Now()
	asked, orphaned, again := c.asked.Load(), c.orphaned.Load(), c.again.Load()
	c.tookGone, c.took = nil, nil
	var flows, opened sync.WaitGroup
	begin := make(chan struct{})
	start := func(n int) {
		opened.Add(n)
		for i := range n {
			owner := c.gateways[i%3]
			other := c.gateways[(i+1+i/3%2)%3]
			if owner.dead.Load() || other.dead.Load() {
				opened.Done()
				continue
			}
			flows.Go(func() { c.flow(owner, other, begin, &opened) })
		}
	}
	start(before)
	opened.Wait()
	ended := make(chan func())
	go func() { ended <- what.run(c) }()
	<-time.After(300 * time.Millisecond)
	close(begin)
	start(meanwhile)
	end := <-ended
	end()
	flows.Wait()
	c.cluster.AwaitConnected(c.t)
	for i, g := range c.gateways {
		if g.dead.Load() {
			c.startGatewayAt(i)
		}
	}
	slices.Sort(c.took)
	slices.Sort(c.tookGone)
	c.t.Logf("%s: %d asked, %d orphaned, %d tried again, answers %s, gone %s, %v in all",
		what.name, c.asked.Load()-asked, c.orphaned.Load()-orphaned, c.again.Load()-again,
		spread(c.took), spread(c.tookGone), time.Since(began).Round(time.Second))
	// Half a second on a machine that does nothing else.
	if n := len(c.tookGone); what.calm && n > 0 && c.tookGone[n-1] > natstest.Patience {
		c.t.Errorf("it took %v to tell that an owner is gone", c.tookGone[n-1])
	}
}

// spread describes sorted times.
func spread(times []time.Duration) string {
	if len(times) == 0 {
		return "-"
	}
	at := func(part float64) time.Duration {
		return times[int(part*float64(len(times)-1))].Round(time.Millisecond)
	}
	return fmt.Sprintf("p50 %v p99 %v max %v", at(0.5), at(0.99), at(1))
}

// TestChaos kills gateways, and kills, isolates and stalls servers of NATS, while questions
// are in flight. The owner of an answer that lives gets it, whatever JetStream does; nothing
// hangs; no question is refused.
func TestChaos(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := &chaos{
		t: t, cluster: natstest.StartWiredCluster(t, 3), random: rand.New(rand.NewPCG(seed, 0)),
		gateways: make([]*gateway, 3),
	}
	for i := range c.cluster.Servers {
		c.urls = append(c.urls, c.cluster.ClientURL(t, i))
	}
	for i := range c.gateways {
		c.startGatewayAt(i)
	}
	all := troubles()
	rounds := 2 // the death of an owner and that of the leader of the directory
	if testmode.Soak {
		rounds = 20 // each trouble twice
	}
	for i := range rounds {
		what := all[i%len(all)]
		if what.calm && i > 0 {
			<-time.After(calmTime)
		}
		c.round(what)
	}
	t.Logf("%d asked, %d answered, %d died with their owner, %d attempts, %d of them again",
		c.asked.Load(), c.answered.Load(), c.orphaned.Load(), c.attempts.Load(), c.again.Load())
	if c.again.Load()*100 >= c.attempts.Load() {
		t.Error("1 % of the answers or more needed a second try")
	}
}
