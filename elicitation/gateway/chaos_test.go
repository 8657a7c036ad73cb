//go:build unix

package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
)

// takenLimit bounds the time until an answer is with the call's owner, or refused.
const takenLimit = 2 * time.Second

// A chaosFleet is three gateway and two upstream processes, their links, and the balancer.
type chaosFleet struct {
	t         *testing.T
	processes map[string]*servertest.Process // by name: a, b and c are gateways
	settings  map[string]processSettings
	links     map[string]map[string]*servertest.Link // from gateways, by gateway and destination
	file      string
	transport *http.Transport
	turn      atomic.Uint32
	work      time.Duration // how long every eighth call works after its last answer

	open    atomic.Int64
	slow    time.Duration // longest scheduling delay seen
	retries sync.Map      // when each retry was sent

	mu       sync.Mutex
	down     map[string]bool      // gateways that the balancer leaves out
	troubled map[string]time.Time // when a process last died, stopped or came back
	killed   map[string]time.Time
	counts   map[string]int
	replies  []time.Duration // time until an older client got its 202
	refusals []time.Duration // time until a retry was refused
	examples map[string]string
}

var chaosGateways = []string{"a", "b", "c"}

func startChaosFleet(t *testing.T) *chaosFleet {
	t.Helper()
	f := &chaosFleet{t: t, file: filepath.Join(t.TempDir(), "upstreams"),
		processes: map[string]*servertest.Process{}, settings: map[string]processSettings{},
		links: map[string]map[string]*servertest.Link{}, down: map[string]bool{},
		troubled: map[string]time.Time{}, killed: map[string]time.Time{},
		counts: map[string]int{}, examples: map[string]string{},
		transport: &http.Transport{MaxIdleConnsPerHost: 500}}
	t.Cleanup(f.transport.CloseIdleConnections)
	for _, from := range chaosGateways {
		s := processSettings{Name: from, Address: "127.0.0.1:0", Gateways: map[string]string{},
			Upstream: map[string]string{}}
		f.links[from] = map[string]*servertest.Link{}
		for _, to := range chaosGateways {
			f.links[from][to] = servertest.NewLink(t)
			s.Gateways[to] = f.links[from][to].URL()
		}
		for to := range upstreamEras {
			f.links[from][to] = servertest.NewLink(t)
			s.Upstream[to] = f.links[from][to].URL()
		}
		f.settings[from] = s
	}
	for name := range upstreamEras {
		f.settings[name] = processSettings{File: f.file, Address: "127.0.0.1:0"}
		f.start(name)
	}
	for _, name := range chaosGateways {
		f.start(name)
	}
	return f
}

// start starts or restarts a process, on the test's goroutine.
func (f *chaosFleet) start(name string) {
	s := f.settings[name]
	text, err := json.Marshal(s)
	noError(f.t, err)
	p := servertest.StartProcess(f.t, servertest.Self(f.t, chaosVariable+"="+string(text)))
	s.Address = p.Line()
	f.mu.Lock()
	f.settings[name], f.processes[name] = s, p
	f.mu.Unlock()
	for _, from := range chaosGateways {
		f.links[from][name].Open(s.Address)
	}
	if s.Name != "" {
		c := f.newClient(protocol.Modern, "ann", name, nil)
		awaitTool(f.t, c, "old_work")
		awaitTool(f.t, c, "new_work")
		_ = c.Close()
	}
	f.setDown(name, false)
}

func (f *chaosFleet) kill(name string) {
	f.setDown(name, true)
	f.mu.Lock()
	f.killed[name] = time.Now()
	f.mu.Unlock()
	f.processes[name].Kill()
	for _, from := range chaosGateways {
		f.links[from][name].Close()
	}
}

func (f *chaosFleet) setDown(name string, down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down[name] = down
	f.troubled[name] = time.Now()
}

func (f *chaosFleet) linksBetween(name string) (links []*servertest.Link) {
	for _, other := range chaosGateways {
		if other != name {
			links = append(links, f.links[name][other], f.links[other][name])
		}
	}
	return links
}

type fault struct {
	name       string
	begin, end func(f *chaosFleet, gateway string)
}

func chaosFaults() []fault {
	restart := func(name string) fault {
		return fault{"upstream restarted: " + name,
			func(f *chaosFleet, _ string) { f.kill(name) },
			func(f *chaosFleet, _ string) { f.start(name) }}
	}
	signal := func(s syscall.Signal) func(*chaosFleet, string) {
		return func(f *chaosFleet, gateway string) {
			f.setDown(gateway, s == syscall.SIGSTOP)
			if err := f.processes[gateway].Cmd.Process.Signal(s); err != nil {
				f.t.Error(err)
			}
		}
	}
	return []fault{
		{"gateway killed", (*chaosFleet).kill, (*chaosFleet).start},
		{"gateway stopped", signal(syscall.SIGSTOP), signal(syscall.SIGCONT)},
		{"packets between gateways dropped", func(f *chaosFleet, gateway string) {
			for _, l := range f.linksBetween(gateway) {
				l.Cut()
			}
		}, func(f *chaosFleet, gateway string) {
			for _, l := range f.linksBetween(gateway) {
				l.Mend()
			}
		}},
		restart("old"),
		{"connections between gateways broken", func(f *chaosFleet, gateway string) {
			for range 20 {
				for _, l := range f.linksBetween(gateway) {
					l.Break()
				}
				time.Sleep(50 * time.Millisecond)
			}
		}, func(*chaosFleet, string) {}},
		restart("new"),
	}
}

// A route records which gateways got the requests of one call.
type route struct {
	mu       sync.Mutex
	gateways map[string]bool
	first    string // gateway that got the first request; for older clients, initialize
	last     string // gateway that got the last request
	opened   time.Time
}

func (w *route) note(gateway string, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gateways[gateway], w.last = true, gateway
	if first || w.first == "" {
		w.first = gateway
	}
}

// A balancer sends a client's requests to the gateways in turn, or all to one.
type balancer struct {
	fleet *chaosFleet
	only  string
	route *route // nil: routes are not recorded
}

// RoundTrip implements [http.RoundTripper].
func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	f, name := b.fleet, b.only
	f.mu.Lock()
	for range chaosGateways {
		if b.only != "" {
			break
		}
		if name = chaosGateways[f.turn.Add(1)%3]; !f.down[name] {
			break
		}
	}
	address := f.settings[name].Address
	f.mu.Unlock()
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	if b.route != nil && r.Method == http.MethodPost {
		b.route.note(name, bytes.Contains(body, []byte(`"initialize"`)))
	}
	to := r.Clone(r.Context())
	to.URL, to.Host = &url.URL{Scheme: "http", Host: address, Path: "/"}, address
	to.Body, to.GetBody = io.NopCloser(bytes.NewReader(body)), nil
	began := time.Now()
	response, err := f.transport.RoundTrip(to)
	message, _ := protocol.DecodeMessage(body)
	if _, reply := message.(*protocol.Response); reply && err == nil {
		took := time.Since(began)
		if !f.inTrouble(name, began) { // else the process is down
			f.count("reply answered with " + strconv.Itoa(response.StatusCode))
			f.mu.Lock()
			f.replies = append(f.replies, took)
			f.mu.Unlock()
		}
	}
	return response, err
}

func (f *chaosFleet) inTrouble(name string, since time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.down[name] || f.troubled[name].After(since)
}

func (f *chaosFleet) diedSince(name string, since time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.killed[name].After(since)
}

func (f *chaosFleet) count(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[what]++
}

// newClient returns a client. Older clients answer automatically, modern ones by hand.
func (f *chaosFleet) newClient(era protocol.Era, user, only string, w *route) *client.Client {
	transport, err := clienthttp.New("http://gateway.invalid/", &clienthttp.Options{
		Header:     http.Header{"Authorization": {user}},
		HTTPClient: &http.Client{Transport: &balancer{f, only, w}}})
	if err != nil {
		f.t.Error(err)
	}
	opts := &client.Options{Era: era}
	if era == protocol.Modern {
		opts.NoBusyRetry, opts.Manual = true, &asksForms
	} else {
		p := &person{answer: func(_ context.Context, message string) *protocol.ElicitResult {
			think()
			r, _ := client.Accept(target{f.answerTo(user, message)})
			return r
		}}
		opts.ElicitForm = p.fill
	}
	c, err := client.New(transport, opts)
	if err != nil {
		f.t.Error(err)
	}
	return c
}

func think() { time.Sleep(time.Duration(100+rand.IntN(1000)) * time.Millisecond) }

// answerTo returns a user's answer to a question, which names both.
func (f *chaosFleet) answerTo(user, question string) string {
	which, name, _ := strings.Cut(question, " of ")
	name, _, _ = strings.Cut(name, " of ")
	if !strings.HasPrefix(name, user+"-") {
		f.t.Errorf("wrong: %s is asked %q", user, question)
	}
	return which + " answer to " + name
}

func (f *chaosFleet) runClient(era protocol.Era, user string, number int, over <-chan struct{}) {
	var c *client.Client
	var w *route
	defer func() {
		if c != nil {
			_ = c.Close()
		}
	}()
	for i := 0; ; i++ {
		select {
		case <-over:
			return
		default:
		}
		if c == nil {
			w = &route{gateways: map[string]bool{}, opened: time.Now()}
			c = f.newClient(era, user, "", w)
		}
		in := job{Name: fmt.Sprintf("%s-%v-%d-%d", user, era, number, i)}
		if i%8 == 7 {
			in.Work = f.work
		}
		upstream := []string{"old", "new"}[(i+number)%2]
		if era == protocol.Modern {
			w.mu.Lock()
			w.gateways, w.first, w.opened = map[string]bool{}, "", time.Now()
			w.mu.Unlock()
		}
		began := time.Now()
		result, err := f.call(c, w, era, user, upstream, in)
		f.judge(w, era, upstream, in, result, err, began)
		if err != nil {
			_ = c.Close()
			c = nil
		}
	}
}

func (f *chaosFleet) call(
	c *client.Client, w *route, era protocol.Era, user, upstream string, in job,
) (*protocol.CallToolResult, error) {
	ctx, cancel := context.WithTimeout(f.t.Context(), 90*time.Second)
	defer cancel()
	f.open.Add(1)
	defer f.open.Add(-1)
	tool := upstream + "_work"
	if era == protocol.Legacy {
		return c.CallTool(ctx, tool, in)
	}
	arguments, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	result, pending, err := c.Begin(ctx, &protocol.CallToolParams{Name: tool, Arguments: arguments})
	for round := 1; err == nil && pending != nil; round++ {
		for _, q := range pending.Questions() {
			text := q.Request.(*protocol.ElicitForm).Message
			if !strings.Contains(text, " of "+in.Name) {
				f.t.Errorf("wrong: %s is asked %q", in.Name, text)
			}
			answer, _ := client.Accept(target{f.answerTo(user, text)})
			if err := pending.Answer(q.Key, answer); err != nil {
				return nil, err
			}
		}
		think()
		which := []string{"", "first ", "second "}[round] + in.Name
		result, pending, err = f.resume(ctx, c, w, pending, which)
	}
	if err != nil {
		return nil, err
	}
	return result.(*protocol.CallToolResult), nil
}

func (f *chaosFleet) resume(ctx context.Context, c *client.Client, w *route,
	pending *client.Pending, which string,
) (protocol.Result, *client.Pending, error) {
	for {
		began := time.Now()
		f.retries.Store(which, began)
		result, next, err := c.Resume(ctx, pending)
		said, isError := protocol.AsError(err)
		w.mu.Lock()
		last := w.last
		w.mu.Unlock()
		if f.inTrouble(last, began) { // the client cannot be told
			f.retries.Delete(which)
		}
		switch {
		case err == nil || ctx.Err() != nil:
			return result, next, err
		case isError && said.Code == protocol.CodeBusy:
			f.count("retry: " + said.Message)
			if !f.inTrouble(last, began) {
				f.mu.Lock()
				f.refusals = append(f.refusals, time.Since(began))
				f.mu.Unlock()
			}
		case isError:
			return nil, nil, err
		default:
			f.count("retry: connection broken")
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// judge checks the outcome of a call.
func (f *chaosFleet) judge(w *route, era protocol.Era, upstream string, in job,
	result *protocol.CallToolResult, err error, began time.Time,
) {
	want := fmt.Sprintf("%s: first answer to %s, second answer to %s", in.Name, in.Name, in.Name)
	text := textOf(result)
	if err == nil && text == want {
		f.count("served")
		return
	}
	if err == nil && !result.IsError {
		f.t.Errorf("wrong: %s got %q", in.Name, text)
		return
	}
	if err != nil {
		text = err.Error()
	}
	w.mu.Lock()
	owner, gateways := w.first, slices.Collect(maps.Keys(w.gateways))
	w.mu.Unlock()
	said, isError := protocol.AsError(err)
	kind := "lost with a living owner"
	switch {
	case isError && said.Code == protocol.CodeBusy:
		kind = "refused before it began"
	case isError && strings.HasPrefix(said.Message, "outcome unknown:"):
		kind = "told that the outcome is not known" // a connection broke while sending
	case f.diedSince(owner, w.opened):
		kind = "lost with its owner"
	case f.inTrouble(upstream, began):
		kind = "lost with its upstream"
	case slices.ContainsFunc(gateways, func(g string) bool { return f.diedSince(g, began) }):
		kind = "lost with the gateway that its client was connected to"
	default:
		f.t.Errorf("lost: %v client, %s: %s by %s: %s, after %v", era, in.Name, upstream, owner,
			text, time.Since(began))
	}
	f.count(kind)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.examples[kind] = text
}

// TestChaos runs clients of both eras against upstreams of both eras through three gateways while
// gateways are killed, stopped and partitioned, and upstreams restarted. No answer reaches another
// call, no call of a living gateway is lost, and no older upstream runs a call twice.
func TestChaos(t *testing.T) {
	t.Parallel()
	clients, rounds, length, pause := 16, 3, 1800*time.Millisecond, 200*time.Millisecond
	if testkit.Soak {
		clients, rounds, length, pause = 200, 20, 6*time.Second, 6*time.Second
	}
	f := startChaosFleet(t)
	f.work = length * 2 / 3
	over := make(chan struct{})
	var wg sync.WaitGroup
	for i := range clients {
		era := []protocol.Era{protocol.Modern, protocol.Legacy}[i%2]
		user := []string{"ann", "bob"}[i/2%2]
		wg.Go(func() { f.runClient(era, user, i, over) })
	}
	wg.Go(func() { // measures scheduling delays
		for began := time.Now(); ; began = time.Now() {
			select {
			case <-over:
				return
			case <-time.After(10 * time.Millisecond):
				f.slow = max(f.slow, time.Since(began)-10*time.Millisecond)
			}
		}
	})
	faults := chaosFaults()
	time.Sleep(pause)
	for i := range rounds {
		fault, gateway := faults[i%len(faults)], chaosGateways[i/2%3]
		t.Logf("%d calls in flight: %s (%s)", f.open.Load(), fault.name, gateway)
		fault.begin(f, gateway)
		time.Sleep(length)
		fault.end(f, gateway)
		time.Sleep(pause)
	}
	close(over)
	wg.Wait()
	f.report()
}

// report logs the measurements and checks the limits.
func (f *chaosFleet) report() {
	starts, old, noted := f.readNotes()
	for name, runs := range starts {
		if runs > 1 && old[name] {
			f.t.Errorf("second run: %s was started %d times", name, runs)
		}
	}
	var taken []time.Duration
	for which, began := range f.retries.Range {
		if at, ok := noted[which.(string)]; ok {
			taken = append(taken, max(at.Sub(began.(time.Time)), 0))
		}
	}
	for _, what := range slices.Sorted(maps.Keys(f.counts)) {
		f.t.Logf("%6d %s", f.counts[what], what)
	}
	for kind, text := range f.examples {
		f.t.Logf("%s: %s", kind, text)
	}
	f.t.Logf("the machine has let a process wait for %v", f.slow)
	for what, took := range map[string][]time.Duration{
		"an older client's reply was answered": f.replies,
		"a modern retry was refused":           f.refusals,
		"a modern retry was with its owner":    taken,
	} {
		slices.Sort(took)
		if n := len(took); n > 0 {
			f.t.Logf("%s after %v, p99 %v, max %v, of %d", what, took[n/2], took[n*99/100],
				took[n-1], n)
			if took[n-1] > takenLimit+f.slow && !testkit.Race {
				f.t.Errorf("%s after %v", what, took[n-1])
			}
		}
	}
}

// readNotes returns each call's starts and era, and the time of each answer.
func (f *chaosFleet) readNotes() (starts map[string]int, old map[string]bool,
	taken map[string]time.Time) {
	starts, old, taken = map[string]int{}, map[string]bool{}, map[string]time.Time{}
	data, err := os.ReadFile(f.file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		f.t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			f.t.Fatalf("a note reads %q", line)
		}
		nanos, err := strconv.ParseInt(fields[2], 10, 64)
		noError(f.t, err)
		which := fields[0] + " " + fields[1]
		if fields[0] == "start" {
			starts[fields[1]]++
			parts := strings.Split(fields[1], "-")
			number, _ := strconv.Atoi(parts[2])
			i, _ := strconv.Atoi(parts[3])
			old[fields[1]] = (number+i)%2 == 0
		} else if _, ok := taken[which]; !ok {
			taken[which] = time.Unix(0, nanos)
		}
	}
	return starts, old, taken
}
