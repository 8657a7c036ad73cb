package chaos

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// A FlowPlan says what happens to flows.
type FlowPlan struct {
	Flows   int           // how many flows there are
	Copies  int           // how often the last request of each is sent at once
	Retries int           // how often it is sent again until it is served
	Store   string        // the address of the store for the replicas
	Trouble []func()      // failures of the store, made in turn with those of replicas
	Every   time.Duration // the time between two failures
	Length  time.Duration // over which the flows begin; 0: as soon as there is room
	// ExpireLeases has all leases in the store run out, after the failures.
	ExpireLeases func()
}

// A Report says how the flows ended.
type Report struct {
	Charged, Double, Never int // by how often the flow was charged
	Served                 int // got the result
	Unknown                int // were told that the outcome is not known
	Open                   int // neither
	Failures               int // how many failures were made
	Took                   time.Duration
}

// A flowFleet runs flows.
type flowFleet struct {
	*fleet
	plan FlowPlan
}

// RunFlows runs flows among failures and logs a report. No flow may be served without a charge.
func RunFlows(t *testing.T, plan FlowPlan) Report {
	t.Helper()
	f := &flowFleet{startFleet(t, charges, plan.Store, replicas), plan}
	began := time.Now()
	var report Report
	stop, flows := make(chan struct{}), make(chan []flow, 1)
	go func() {
		defer close(stop)
		flows <- f.runFlows()
	}()
	report.Failures = f.makeTrouble(stop, plan.Every, func(number int) func() {
		if n := len(plan.Trouble); n > 0 && number%2 == 1 {
			return plan.Trouble[number/2%n]
		}
		return nil
	})
	all := <-flows
	if plan.ExpireLeases != nil {
		plan.ExpireLeases()
	}
	report.count(all, f)
	report.Took = time.Since(began)
	t.Logf("%+v", report)
	return report
}

// A flow is one call of the tool up to its last request, and what became of that.
type flow struct {
	id      string
	last    string // the parameters of the last request, once there are any
	outcome outcome
}

// An outcome is what a client gets to the last request.
type outcome string

const (
	served  outcome = "served"
	unknown outcome = "the outcome is not known"
	refused outcome = "refused"
)

// runFlows runs all flows, some at a time.
func (f *flowFleet) runFlows() []flow {
	all := make([]flow, f.plan.Flows)
	slots := make(chan struct{}, 50)
	var wg sync.WaitGroup
	for i := range all {
		slots <- struct{}{}
		time.Sleep(f.plan.Length / time.Duration(len(all)))
		wg.Go(func() {
			defer func() { <-slots }()
			all[i].id = fmt.Sprint("flow-", i)
			f.runFlow(&all[i])
		})
	}
	wg.Wait()
	return all
}

func (f *flowFleet) runFlow(one *flow) {
	for range f.plan.Retries {
		if f.begin(one) == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	outcomes := make(chan outcome, f.plan.Copies)
	for range f.plan.Copies {
		go func() { outcomes <- f.finish(one) }()
	}
	for range f.plan.Copies {
		one.note(<-outcomes)
	}
	for range f.plan.Retries {
		if one.outcome == served || one.outcome == unknown {
			return
		}
		time.Sleep(100 * time.Millisecond)
		one.note(f.finish(one))
	}
}

// note keeps the best outcome.
func (one *flow) note(o outcome) {
	if one.outcome != served && (o != refused || one.outcome == "") {
		one.outcome = o
	}
}

// begin takes a flow up to its last request, which it does not send.
func (f *flowFleet) begin(one *flow) error {
	params := fmt.Sprintf(`"name":"charge","arguments":{"flow":%q}`, one.id)
	asked, err := f.send(f.t.Context(), protocol.MethodCallTool, "charge", params)
	if err != nil {
		return err
	}
	one.last, err = withAnswer(params, asked, "consent",
		`{"action":"accept","content":{"reason":"rent"}}`)
	return err
}

// finish sends the last request of a flow once.
func (f *flowFleet) finish(one *flow) outcome {
	if one.last == "" {
		return refused
	}
	raw, err := f.send(f.t.Context(), protocol.MethodCallTool, "charge", one.last)
	reply, sent := protocol.AsError(err)
	if err != nil && !sent {
		return refused
	}
	var result struct{ Content []struct{ Text string } }
	text := ""
	if sent {
		text = reply.Message
	} else if json.Unmarshal(raw, &result) == nil && len(result.Content) == 1 {
		text = result.Content[0].Text
	}
	switch {
	case text == "charged":
		return served
	case strings.Contains(text, "the outcome is not known"):
		return unknown
	case !sent || reply.Code != protocol.CodeBusy:
		f.t.Errorf("%s: unexpected answer %q", one.id, text)
	}
	return refused
}

// count counts the charges, after each flow that has no outcome was asked for once more.
func (r *Report) count(all []flow, f *flowFleet) {
	f.t.Helper()
	for i := range all {
		if one := &all[i]; one.outcome == refused {
			one.note(f.finish(one))
		}
	}
	charged := map[string]int{}
	f.eachNote(func(_, id, _ string) { charged[id]++ })
	for _, one := range all {
		switch n := charged[one.id]; {
		case n > 1:
			r.Double++
		case n == 1:
			r.Charged++
		default:
			r.Never++
			if one.outcome == served {
				f.t.Errorf("%s was served and not charged", one.id)
			}
		}
		switch one.outcome {
		case served:
			r.Served++
		case unknown:
			r.Unknown++
		default:
			r.Open++
		}
	}
}
