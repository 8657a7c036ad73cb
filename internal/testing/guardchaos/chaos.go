package guardchaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/proctest"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Plan says what happens.
type Plan struct {
	Flows   int           // how many flows there are
	Copies  int           // how often the last request of each is sent at once
	Retries int           // how often it is sent again until it is served
	Store   string        // the address of the store for the replicas
	Trouble []func()      // failures of the store, made in turn with those of replicas
	Every   time.Duration // the time between two failures
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

func (r Report) String() string {
	return fmt.Sprintf("%d charged once, %d more than once, %d never; %d served, %d told that the "+
		"outcome is not known, %d neither; %d failures in %v", r.Charged, r.Double, r.Never, r.Served,
		r.Unknown, r.Open, r.Failures, r.Took.Round(time.Second))
}

const replicas = 3

// A fleet is replicas that are killed and started again.
type fleet struct {
	t       *testing.T
	plan    Plan
	charges string
	http    *http.Client

	mu        sync.Mutex
	hosts     [replicas]string
	processes [replicas]*proctest.Process
}

// Run runs the flows among the failures. It fails the test if a flow is served without a charge.
func Run(t *testing.T, plan Plan) Report {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 50}
	t.Cleanup(transport.CloseIdleConnections)
	f := &fleet{t: t, plan: plan, charges: filepath.Join(t.TempDir(), "charges"),
		http: &http.Client{Transport: transport, Timeout: 15 * time.Second}}
	for i := range replicas {
		f.startReplica(i)
	}
	began := time.Now()
	var report Report
	stop, flows := make(chan struct{}), make(chan []flow, 1)
	go func() {
		defer close(stop)
		flows <- f.runFlows()
	}()
	report.Failures = f.makeTrouble(stop) // here, where processes may be started
	all := <-flows
	if plan.ExpireLeases != nil {
		plan.ExpireLeases()
	}
	report.count(all, f)
	report.Took = time.Since(began)
	return report
}

// startReplica starts the process of a replica. It is called on the goroutine of the test.
func (f *fleet) startReplica(i int) {
	f.t.Helper()
	process := proctest.Start(f.t, proctest.Self(f.t, storeVar+"="+f.plan.Store,
		chargesVar+"="+f.charges))
	host := process.Line()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hosts[i], f.processes[i] = host, process
}

// makeTrouble makes one failure after the other until stop is closed.
func (f *fleet) makeTrouble(stop <-chan struct{}) (failures int) {
	for ; ; failures++ {
		select {
		case <-stop:
			return failures
		case <-time.After(f.plan.Every):
		}
		if n := len(f.plan.Trouble); n > 0 && failures%2 == 1 {
			f.plan.Trouble[failures/2%n]()
			continue
		}
		i := rand.IntN(replicas)
		f.processes[i].Kill()
		f.startReplica(i)
	}
}

// A flow is one call of the tool up to its last request, and what became of that.
type flow struct {
	id      string
	header  http.Header
	body    []byte
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
func (f *fleet) runFlows() []flow {
	all := make([]flow, f.plan.Flows)
	slots := make(chan struct{}, 50)
	var wg sync.WaitGroup
	for i := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			all[i].id = fmt.Sprint("flow-", i)
			f.runFlow(&all[i])
		})
	}
	wg.Wait()
	return all
}

func (f *fleet) runFlow(one *flow) {
	for range f.plan.Retries {
		if f.begin(one) == nil && one.body != nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	outcomes := make(chan outcome, f.plan.Copies)
	for range f.plan.Copies {
		go func() { outcomes <- f.send(one) }()
	}
	for range f.plan.Copies {
		one.note(<-outcomes)
	}
	for range f.plan.Retries {
		if one.outcome == served || one.outcome == unknown {
			return
		}
		time.Sleep(100 * time.Millisecond)
		one.note(f.send(one))
	}
}

// note keeps the best outcome.
func (one *flow) note(o outcome) {
	if one.outcome != served && (o != refused || one.outcome == "") {
		one.outcome = o
	}
}

// begin takes a flow up to its last request, which it keeps and does not send.
func (f *fleet) begin(one *flow) error {
	transport, err := clienthttp.New("http://127.0.0.1:1/", &clienthttp.Options{
		HTTPClient: &http.Client{Transport: &keeper{f, one}, Timeout: f.http.Timeout}})
	if err != nil {
		return err
	}
	c, err := client.New(transport, &client.Options{
		ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			return client.Accept(consent{"rent"})
		},
	})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(f.t.Context(), 20*time.Second)
	defer cancel()
	_, err = c.CallTool(ctx, "charge", order{one.id})
	if one.body != nil {
		return nil
	}
	return errors.Join(errors.New("the flow has no last request"), err)
}

// A keeper sends what a client sends to any replica, and keeps the request with the answers.
type keeper struct {
	fleet *fleet
	flow  *flow
}

func (k *keeper) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(body, []byte("inputResponses")) {
		k.flow.header, k.flow.body = req.Header.Clone(), body
		return nil, io.ErrUnexpectedEOF
	}
	return k.fleet.post(req.Context(), req.Header, body)
}

// post sends a request to any replica.
func (f *fleet) post(ctx context.Context, header http.Header, body []byte) (
	*http.Response, error) {
	f.mu.Lock()
	host := f.hosts[rand.IntN(replicas)]
	f.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+host+"/",
		bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = header.Clone()
	return f.http.Do(req)
}

// send sends the last request of a flow once.
func (f *fleet) send(one *flow) outcome {
	if one.body == nil {
		return refused
	}
	resp, err := f.post(f.t.Context(), one.header, one.body)
	if err != nil {
		return refused
	}
	defer func() { _ = resp.Body.Close() }()
	var reply struct {
		Result *struct {
			Content []struct{ Text string }
		}
		Error *protocol.Error
	}
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil {
		return refused
	}
	text := ""
	if reply.Error != nil {
		text = reply.Error.Message
	} else if reply.Result != nil && len(reply.Result.Content) == 1 {
		text = reply.Result.Content[0].Text
	}
	switch {
	case text == "charged":
		return served
	case strings.Contains(text, "the outcome is not known"):
		return unknown
	case reply.Error == nil || reply.Error.Code != protocol.CodeBusy:
		f.t.Errorf("%s: unexpected answer %q", one.id, text)
	}
	return refused
}

// count counts the charges, after each flow that has no outcome was asked for once more.
func (r *Report) count(all []flow, f *fleet) {
	f.t.Helper()
	for i := range all {
		if one := &all[i]; one.outcome == refused {
			one.note(f.send(one))
		}
	}
	data, err := os.ReadFile(f.charges)
	if err != nil {
		f.t.Fatal(err)
	}
	charges := map[string]int{}
	for _, id := range strings.Fields(string(data)) {
		charges[id]++
	}
	for _, one := range all {
		switch n := charges[one.id]; {
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
