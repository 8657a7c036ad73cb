// Package chaos tests stores under failures: replica processes share one store and serve clients,
// while replicas and the store are killed and connections cut.
//
// [RunFlows] charges flows whose last request is sent repeatedly: each is charged at most once.
// [RunTasks] runs tasks: all must complete, without duplicate effects. [RunDeaths] runs one that
// kills each of its processes. [RunLinks] has people answer at links, each with at most one effect.
package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// These variables tell a replica what to serve, its store, and its notes file.
const (
	servesVar = "RONDO_CHAOS_SERVES"
	storeVar  = "RONDO_CHAOS_STORE"
	notesVar  = "RONDO_CHAOS_NOTES"
)

// Stores open the store at an address. A nil function is not needed.
type Stores struct {
	Guard func(ctx context.Context, address string) (store.Guard, error)
	Tasks func(ctx context.Context, address string) (store.TaskStore, error)
	Links func(ctx context.Context, address string) (LinkStore, error)
}

// ServeReplica, which TestMain calls first, serves and returns true in a replica's process.
func ServeReplica(stores Stores) bool {
	newHandler := map[string]func() (http.Handler, error){
		charges:   serve(stores.Guard, newTill),
		work:      serve(stores.Tasks, newWorker),
		approvals: serve(stores.Links, newApprover),
	}[os.Getenv(servesVar)]
	if newHandler == nil {
		return false
	}
	var handler http.Handler
	var err error
	for range 100 { // the store may be down at the start
		handler, err = newHandler()
		if err == nil {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	var listener net.Listener
	if err == nil {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(listener.Addr())
	go func() { _ = http.Serve(listener, handler) }() // the process ends it
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	return true
}

func serve[S any](open func(ctx context.Context, address string) (S, error),
	newHandler func(S) (http.Handler, error)) func() (http.Handler, error) {
	return func() (http.Handler, error) {
		opened, err := open(context.Background(), os.Getenv(storeVar))
		if err != nil {
			return nil, err
		}
		return newHandler(opened)
	}
}

func newKeyring() *keys.Keyring { return servertest.NewKeyring("k1") }

const replicas = 3

// A Plan says what runs. Not all fields are for all tests.
type Plan struct {
	Flows        int           // number of flows, or tasks
	Copies       int           // of each last request of RunFlows, sent at once
	Retries      int           // of each last request of RunFlows until it is served
	Questions    int           // per task
	Store        string        // address for the replicas
	Trouble      []func()      // store failures: alternating with deaths, of tasks over Length
	Every        time.Duration // between failures
	Length       time.Duration // time over which flows begin, or replicas of tasks die
	ExpireLeases func()        // ends all leases in the store after the failures of RunFlows
}

type fleet struct {
	t     *testing.T
	plan  Plan
	env   []string
	notes string // name of the file
	http  *http.Client
	caps  string // of the clients

	mu        sync.Mutex
	hosts     []string
	processes []*servertest.Process
}

// startFleet starts count replicas over the plan's store.
func startFleet(t *testing.T, serves string, plan Plan, count int) *fleet {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 50}
	t.Cleanup(transport.CloseIdleConnections)
	f := &fleet{t: t, plan: plan, notes: filepath.Join(t.TempDir(), "notes"),
		http:  &http.Client{Transport: transport, Timeout: 15 * time.Second},
		caps:  `"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}`,
		hosts: make([]string, count), processes: make([]*servertest.Process, count)}
	f.env = []string{servesVar + "=" + serves, storeVar + "=" + plan.Store,
		notesVar + "=" + f.notes}
	for i := range count {
		f.startReplica(i)
	}
	return f
}

// startReplica starts a replica's process, on the test's goroutine.
func (f *fleet) startReplica(i int) {
	f.t.Helper()
	process := servertest.StartProcess(f.t, servertest.Self(f.t, f.env...))
	host := process.Line()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hosts[i], f.processes[i] = host, process
}

// runAll runs the plan's flows during failures, slots of them at once.
func (f *fleet) runAll(slots int, run func(n int), next func(int) func()) (failures int) {
	began, stop := time.Now(), make(chan struct{})
	go func() {
		defer close(stop)
		free := make(chan struct{}, slots)
		var wg sync.WaitGroup
		each := f.plan.Length / time.Duration(f.plan.Flows)
		for n := range f.plan.Flows {
			free <- struct{}{}
			time.Sleep(time.Until(began.Add(each * time.Duration(n))))
			wg.Go(func() {
				defer func() { <-free }()
				run(n)
			})
		}
		wg.Wait()
	}()
	return f.makeTrouble(stop, next)
}

// makeTrouble runs next()'s functions, nil for a kill, until stop closes, on the test's goroutine.
func (f *fleet) makeTrouble(stop <-chan struct{}, next func(int) func()) (failures int) {
	for ; ; failures++ {
		select {
		case <-stop:
			return failures
		case <-time.After(f.plan.Every):
		}
		if trouble := next(failures); trouble != nil {
			trouble()
			continue
		}
		i := rand.IntN(len(f.hosts))
		f.processes[i].Kill()
		f.startReplica(i)
	}
}

// replaceDead restarts ended replicas, on the test's goroutine.
func (f *fleet) replaceDead() {
	f.t.Helper()
	for i, host := range f.hosts {
		conn, err := net.Dial("tcp", host)
		if err == nil {
			_ = conn.Close()
			continue
		}
		f.processes[i].Kill() // any exit code is accepted
		f.startReplica(i)
	}
}

// anyHost returns the address of a replica.
func (f *fleet) anyHost() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hosts[rand.IntN(len(f.hosts))]
}

// send sends a request to any replica, and returns the result or the replica's error.
func (f *fleet) send(ctx context.Context, method, name, params string) (json.RawMessage, error) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientCapabilities":{%s}}}}`, method, params, f.caps)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+f.anyHost()+"/",
		strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for key, value := range map[string]string{"Content-Type": "application/json",
		"Accept": "application/json, text/event-stream", "Mcp-Method": method, "Mcp-Name": name,
		"MCP-Protocol-Version": "2026-07-28"} {
		req.Header.Set(key, value)
	}
	resp, err := f.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	var r struct {
		Result json.RawMessage
		Error  *protocol.Error
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %q", resp.Status, text)
	}
	if r.Error != nil {
		return nil, r.Error
	}
	return r.Result, nil
}

// withAnswer returns a retry's parameters, with the result's state and one answer.
func withAnswer(params string, result json.RawMessage, key, answer string) (string, error) {
	var asks struct{ RequestState string }
	if err := json.Unmarshal(result, &asks); err != nil || asks.RequestState == "" {
		return "", fmt.Errorf("no state: %s", result)
	}
	return fmt.Sprintf(`%s,"requestState":%q,"inputResponses":{%q:%s}`, params, asks.RequestState,
		key, answer), nil
}

// note appends a line in one write, which survives a kill.
func note(what, which, value string) error {
	file, err := os.OpenFile(os.Getenv(notesVar), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = fmt.Fprintln(file, what, which, value)
	return err
}

// eachNote reads the notes until now. There may be none.
func (f *fleet) eachNote(do func(what, which, value string)) {
	f.t.Helper()
	text, err := os.ReadFile(f.notes)
	if err != nil && !os.IsNotExist(err) {
		f.t.Error(err)
	}
	for line := range strings.Lines(string(text)) {
		var what, which, value string
		if _, err := fmt.Sscan(line, &what, &which, &value); err != nil {
			f.t.Errorf("%v: %q", err, line)
		}
		do(what, which, value)
	}
}
