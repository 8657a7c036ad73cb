// Package chaos tests stores under failures: replica processes share one store and serve clients,
// while replicas and the store are killed and connections cut.
//
// [RunFlows] charges flows whose last request is sent repeatedly: each is charged at most once.
// [RunTasks] runs tasks: all must complete, without duplicate effects. [RunDeaths] runs one that
// kills each of its processes. [RunLinks] has people answer at links: each answer has at most one
// effect.
package chaos

import (
	"bufio"
	"context"
	"database/sql"
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

// These variables tell a replica what to serve, its store, and its notes folder.
const (
	servesVar = "RONDO_CHAOS_SERVES"
	storeVar  = "RONDO_CHAOS_STORE"
	dirVar    = "RONDO_CHAOS_DIR"
)

// Stores open the store at an address. A nil function is not needed.
type Stores struct {
	Guard func(ctx context.Context, address string) (store.Guard, error)
	Tasks func(ctx context.Context, address string) (store.TaskStore, error)
	Links func(ctx context.Context, address string) (LinkStore, *sql.DB, error)
}

// ServeReplica, which TestMain calls first, serves and returns true in a replica's process.
func ServeReplica(stores Stores) bool {
	newHandler := map[string]func(ctx context.Context, address string) (http.Handler, error){
		charges: func(ctx context.Context, address string) (http.Handler, error) {
			guard, err := stores.Guard(ctx, address)
			if err != nil {
				return nil, err
			}
			return newTill(guard)
		},
		work: func(ctx context.Context, address string) (http.Handler, error) {
			kept, err := stores.Tasks(ctx, address)
			if err != nil {
				return nil, err
			}
			return newWorker(kept)
		},
		approvals: func(ctx context.Context, address string) (http.Handler, error) {
			shared, db, err := stores.Links(ctx, address)
			if err != nil {
				return nil, err
			}
			return newApprover(shared, db)
		},
	}[os.Getenv(servesVar)]
	if newHandler == nil {
		return false
	}
	var handler http.Handler
	var err error
	for range 100 { // the store may be down at the start
		handler, err = newHandler(context.Background(), os.Getenv(storeVar))
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

func newKeyring() *keys.Keyring { return servertest.NewKeyring("k1") }

const replicas = 3

type fleet struct {
	t    *testing.T
	env  []string
	dir  string
	http *http.Client
	caps string // of the clients

	mu        sync.Mutex
	hosts     []string
	processes []*servertest.Process
}

// startFleet starts count replicas over a store.
func startFleet(t *testing.T, serves, store string, count int) *fleet {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 50}
	t.Cleanup(transport.CloseIdleConnections)
	f := &fleet{t: t, dir: t.TempDir(),
		http:  &http.Client{Transport: transport, Timeout: 15 * time.Second},
		caps:  `"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}`,
		hosts: make([]string, count), processes: make([]*servertest.Process, count)}
	f.env = []string{servesVar + "=" + serves, storeVar + "=" + store, dirVar + "=" + f.dir}
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

// makeTrouble runs the functions that next() returns (nil kills a replica) until stop is closed.
// Call it on the test's goroutine.
func (f *fleet) makeTrouble(stop <-chan struct{}, every time.Duration,
	next func(number int) func()) (failures int) {
	for ; ; failures++ {
		select {
		case <-stop:
			return failures
		case <-time.After(every):
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

const notesFile = "notes"

// note appends a line in one write, which survives a kill.
func note(what, which, value string) error {
	file, err := os.OpenFile(filepath.Join(os.Getenv(dirVar), notesFile),
		os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = fmt.Fprintln(file, what, which, value)
	return err
}

func (f *fleet) eachNote(do func(what, which, value string)) {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, notesFile))
	if err != nil {
		f.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var what, which, value string
		if _, err := fmt.Sscan(line, &what, &which, &value); err != nil {
			f.t.Fatalf("%v: %q", err, line)
		}
		do(what, which, value)
	}
}
