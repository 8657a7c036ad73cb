package chaos

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

type Report struct {
	Charged, Double, Never int // flows by number of charges
	Served                 int // flows that got the result
	Unknown                int // flows that were told that the outcome is unknown
	Open                   int // flows with another outcome
	Failures               int // number of failures that were caused
	Took                   time.Duration
}

// RunFlows runs flows during failures and logs a report. A flow that is served must be charged.
func RunFlows(t *testing.T, plan Plan) Report {
	t.Helper()
	f := startFleet(t, charges, plan, replicas)
	began, all := time.Now(), make([]flow, plan.Flows)
	run := func(n int) {
		all[n].id = fmt.Sprint("flow-", n)
		f.runFlow(&all[n])
	}
	var report Report
	report.Failures = f.runAll(50, run, func(n int) func() {
		if kinds := len(plan.Trouble); kinds > 0 && n%2 == 1 {
			return plan.Trouble[n/2%kinds]
		}
		return nil
	})
	if plan.ExpireLeases != nil {
		plan.ExpireLeases()
	}
	report.countCharges(all, f)
	report.Took = time.Since(began)
	t.Logf("%+v", report)
	return report
}

type flow struct {
	id      string
	last    string // parameters of its last request
	outcome outcome
}

type outcome string

const (
	served  outcome = "served"
	unknown outcome = "the outcome is not known"
	refused outcome = "refused"
)

func (f *fleet) runFlow(one *flow) {
	for range f.plan.Retries {
		if f.beginFlow(one) == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	outcomes := make(chan outcome, f.plan.Copies)
	for range f.plan.Copies {
		go func() { outcomes <- f.finishFlow(one) }()
	}
	for range f.plan.Copies {
		one.note(<-outcomes)
	}
	for range f.plan.Retries {
		if one.outcome == served || one.outcome == unknown {
			return
		}
		time.Sleep(100 * time.Millisecond)
		one.note(f.finishFlow(one))
	}
}

// note keeps the best outcome so far.
func (one *flow) note(o outcome) {
	if one.outcome != served && (o != refused || one.outcome == "") {
		one.outcome = o
	}
}

// beginFlow plays a flow up to its last request, which it does not send.
func (f *fleet) beginFlow(one *flow) error {
	params := fmt.Sprintf(`"name":"charge","arguments":{"flow":%q}`, one.id)
	asked, err := f.send(f.t.Context(), protocol.MethodCallTool, "charge", params)
	if err != nil {
		return err
	}
	one.last, err = withAnswer(params, asked, "consent",
		`{"action":"accept","content":{"reason":"rent"}}`)
	return err
}

// finishFlow sends a flow's last request once.
func (f *fleet) finishFlow(one *flow) outcome {
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

// countCharges counts charges. First it retries each flow without an outcome once.
func (r *Report) countCharges(all []flow, f *fleet) {
	f.t.Helper()
	for i := range all {
		if one := &all[i]; one.outcome == refused {
			one.note(f.finishFlow(one))
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
