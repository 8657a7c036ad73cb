//go:build unix

package gosdk_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/fleettest"
	"github.com/rondo-mcp/rondo/internal/testing/gatewaytest"
	"github.com/rondo-mcp/rondo/internal/testing/proctest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

const (
	// fleetPatience is how long the result of a call may take after the trouble.
	fleetPatience = 30 * time.Second
	// replyLimit is how long a client may wait until its answer is taken.
	replyLimit = 2 * time.Second
)

// A fleet is three gateways, each a process of its own, and the links between them.
type fleet struct {
	t        *testing.T
	gateways [3]*proctest.Process
	urls     [3]string
	links    [3][3]*fleettest.Link // from, to
	killed   [3]bool
	reasons  atomic.Int32

	mu     sync.Mutex
	counts map[string]int
	took   []time.Duration // what clients waited until their answers were taken
	told   []time.Duration // what they waited until they were told that the owner is dead
}

var gatewayNames = [3]string{"a", "b", "c"}

func startFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, counts: map[string]int{}}
	for i := range f.gateways {
		settings := gatewaySettings{Name: gatewayNames[i], URLs: map[string]string{}}
		for j, name := range gatewayNames {
			l := fleettest.NewLink(t)
			f.links[i][j], settings.URLs[name] = l, l.URL()
		}
		text, err := json.Marshal(settings)
		if err != nil {
			t.Fatal(err)
		}
		f.gateways[i] = proctest.Start(t, proctest.Self(t, gatewayVariable+"="+string(text)))
		f.urls[i] = f.gateways[i].Line()
	}
	for i := range f.links {
		for j, l := range f.links[i] {
			l.Open(strings.TrimPrefix(f.urls[j], "http://"))
		}
	}
	return f
}

func (f *fleet) signal(i int, s syscall.Signal) {
	if err := f.gateways[i].Cmd.Process.Signal(s); err != nil {
		f.t.Error(err)
	}
}

// kill ends a gateway as kill -9 does.
func (f *fleet) kill(i int) {
	f.killed[i] = true
	f.gateways[i].Kill()
	for from := range f.links {
		f.links[from][i].Close()
	}
}

// linksOf are the links from and to a gateway.
func (f *fleet) linksOf(i int) (all []*fleettest.Link) {
	for j := range f.links {
		if j != i {
			all = append(all, f.links[i][j], f.links[j][i])
		}
	}
	return all
}

// A flow is a call at one gateway whose question is answered at another.
type flow struct {
	owner, by int
	client    *gatewaytest.Client
	question  gatewaytest.Envelope
	want      string
	result    chan string // "": the stream has ended
	status    int         // of the answer
}

// begin calls gatewaytest.ToolAsk at owner and waits for the question.
func (f *fleet) begin(owner, by int) *flow {
	f.t.Helper()
	w := &flow{owner: owner, by: by, result: make(chan string, 1),
		client: gatewaytest.Connect(f.t, f.urls[owner], forms, "", nil),
		want:   gatewaytest.AcceptReason(fmt.Sprint("reason ", f.reasons.Add(1)))}
	stream := w.client.StartCall(f.t, gatewaytest.ToolAsk, question)
	w.question = stream.WaitForQuestion(f.t)
	go func() {
		defer stream.Close()
		text := ""
		if m, ok := stream.Next(); ok {
			text = gatewaytest.ResultText(m)
		}
		w.result <- text
	}()
	return w
}

// answer answers the question of a flow.
func (f *fleet) answer(w *flow) {
	began := time.Now()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, w.question.ID, w.want)
	w.status = w.client.At(f.urls[w.by]).Post(f.t, body)
	took := time.Since(began)
	if took > replyLimit && !testkit.Race {
		f.t.Errorf("an answer of %d at %d took %v", w.owner, w.by, took)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.took = append(f.took, took); w.status == http.StatusNotFound {
		f.told = append(f.told, took)
	}
}

// A fate is what has to become of a flow.
type fate string

const (
	delivered    fate = "delivered"
	toldGone     fate = "told that the owner is gone"
	lostReported fate = "lost with the owner, reported by the other"
	lostWith     fate = "lost with the other, after 202"
)

// judge compares what became of a flow with its fate.
func (f *fleet) judge(w *flow, want fate) {
	got := ""
	patience := map[fate]time.Duration{delivered: fleetPatience, lostWith: time.Second}[want]
	if patience > 0 {
		select {
		case got = <-w.result:
		case <-time.After(patience):
		}
	}
	taken := w.status >= http.StatusOK && w.status < http.StatusMultipleChoices
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case got != "" && got != w.want:
		f.t.Errorf("wrong: %d answers %s, want %s", w.owner, got, w.want)
	case want == toldGone && w.status != http.StatusNotFound, want != toldGone && !taken:
		f.t.Errorf("%s: an answer of %d at %d is answered with status %d", want, w.owner, w.by,
			w.status)
	case want == delivered && got == "":
		f.t.Errorf("lost: an answer of %d at %d", w.owner, w.by)
	case want == lostWith && got != "":
		want = delivered // it had been sent
	}
	f.counts[string(want)]++
}

// countLost returns how many answers the living gateways have lost.
func (f *fleet) countLost() (sum int) {
	for i, url := range f.urls {
		if f.killed[i] {
			continue
		}
		response, err := http.Get(url + "/lost")
		if err != nil {
			f.t.Error(err)
			continue
		}
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		n, err := strconv.Atoi(string(text))
		if err != nil {
			f.t.Error(err)
		}
		sum += n
	}
	return sum
}

// A trouble is what happens to gateway 0 between questions and answers, and how it goes on when
// the answers have been sent.
type trouble struct {
	name   string
	begin  func(f *fleet)
	end    func(f *fleet)
	reach  bool // clients can go on to answer at gateway 0
	fateOf func(w *flow) fate
}

func nothing(*fleet) {}

func allDelivered(*flow) fate { return delivered }

func ofOwner(want fate) func(*flow) fate {
	return func(w *flow) fate {
		if w.owner == 0 {
			return want
		}
		return delivered
	}
}

func stopOwner(f *fleet)   { f.signal(0, syscall.SIGSTOP) }
func resumeOwner(f *fleet) { f.signal(0, syscall.SIGCONT) }
func killOwner(f *fleet)   { f.kill(0) }

func troubles() []trouble {
	return []trouble{
		{"quiet", nothing, nothing, true, allDelivered},
		{"owner killed", killOwner, nothing, false, ofOwner(toldGone)},
		{"owner stopped", stopOwner, resumeOwner, false, allDelivered},
		{"partition", func(f *fleet) {
			for _, l := range f.linksOf(0) {
				l.Cut()
			}
		}, func(f *fleet) {
			for _, l := range f.linksOf(0) {
				l.Mend()
			}
		}, true, allDelivered},
		{"owner stopped, then killed", stopOwner, killOwner, false, ofOwner(lostReported)},
		{"owner stopped, other killed", stopOwner, func(f *fleet) {
			f.kill(1)
			resumeOwner(f)
		}, false, func(w *flow) fate {
			if w.owner == 0 && w.by == 1 {
				return lostWith
			}
			return delivered
		}},
	}
}

// TestFleet has gateways in three processes ask, and their clients answer at another gateway than
// asked, while gateways are killed, stopped and cut off. No answer reaches another question, none
// is lost whose owner lives, and no client waits for longer than two seconds.
func TestFleet(t *testing.T) {
	flows, length := 12, 1500*time.Millisecond
	if testkit.Soak {
		flows, length = 200, 12*time.Second
	}
	for _, what := range troubles() {
		t.Run(what.name, func(t *testing.T) {
			if !testkit.Soak {
				t.Parallel()
			}
			runTrouble(startFleet(t), what, flows, length)
		})
	}
}

func runTrouble(f *fleet, what trouble, flows int, length time.Duration) {
	var all []*flow
	for i := range flows {
		owner := i % 3
		by := (owner + 1 + i/3%2) % 3
		if by == 0 && !what.reach {
			by = 3 - owner
		}
		all = append(all, f.begin(owner, by))
	}
	what.begin(f)
	ended := time.After(length)
	for i := range flows / 4 { // some more, asked while it lasts
		all = append(all, f.begin(1+i%2, 2-i%2))
	}
	var answers sync.WaitGroup
	for _, w := range all {
		answers.Go(func() { f.answer(w) })
		time.Sleep(4 * time.Millisecond) // else what is measured is this machine
	}
	answers.Wait()
	<-ended
	// What is no concern of the trouble has been answered by now.
	all = slices.DeleteFunc(all, func(w *flow) bool {
		other := w.owner != 0 && w.by != 0
		if other {
			f.judge(w, delivered)
		}
		return other
	})
	what.end(f)
	var judged sync.WaitGroup
	for _, w := range all {
		judged.Go(func() { f.judge(w, what.fateOf(w)) })
	}
	judged.Wait()
	for deadline := time.Now().Add(fleetPatience); f.countLost() < f.counts[string(lostReported)]; {
		if time.Now().After(deadline) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if lost := f.countLost(); lost != f.counts[string(lostReported)] {
		f.t.Errorf("%d answers are reported as lost, want %d", lost, f.counts[string(lostReported)])
	}
	f.t.Logf("%v; answers were taken within %v", f.counts, slices.Max(f.took))
	if len(f.told) > 0 {
		f.t.Logf("that the owner is gone was told within %v", slices.Max(f.told))
	}
}
