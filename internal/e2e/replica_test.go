package e2e_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

const (
	// replicaVar makes the test binary a server instead of running tests.
	replicaVar = "RONDO_E2E_REPLICA"
	// keyVar holds the key that replicas share. Without it each has its own.
	keyVar = "RONDO_E2E_KEYS"
)

// runReplica serves the subject until its standard input ends, which is also what happens when the
// test dies. It prints its address, then a line for each state it refuses.
func runReplica(in io.Reader, out io.Writer) (code int) {
	opts := &server.Options{Observer: &rejectionLog{out: out}}
	if os.Getenv(keyVar) != "" {
		ring, err := keys.KeyringFromEnv(os.LookupEnv, keyVar)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		opts.Roundtrip = roundtrip.Options{Sealer: ring, RequireSharedKey: true}
	}
	srv, err := newSubject(opts)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	handler, err := serverhttp.New(srv, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintln(out, listener.Addr())
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	web := &http.Server{Handler: mux, ReadHeaderTimeout: patience}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		_ = web.Close()
	}()
	_ = web.Serve(listener)
	return 0
}

// rejectionLog prints why states were refused.
type rejectionLog struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *rejectionLog) Observe(_ context.Context, e event.Event) {
	if rejected, ok := e.(event.StateRejected); ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		fmt.Fprintf(l.out, "rejected %s %s\n", rejected.Reason, rejected.Reference)
	}
}

// startReplica starts a server in a process of its own. What it prints after its address is left to
// be read.
func startReplica(t *testing.T, names string) (host string, p *servertest.Process) {
	t.Helper()
	p = servertest.StartProcess(t, servertest.Self(t, replicaVar+"=1", keyVar+"="+names))
	return p.Line(), p
}

func sharedKeys() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	return "k1:" + base64.StdEncoding.EncodeToString(secret)
}

// rotating sends each request to the next host.
type rotating struct {
	base  http.RoundTripper
	mu    sync.Mutex
	hosts []string
	went  []string
}

func (r *rotating) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	host := r.hosts[len(r.went)%len(r.hosts)]
	r.went = append(r.went, host)
	r.mu.Unlock()
	req = req.Clone(req.Context())
	req.URL.Host, req.Host = host, host
	return r.base.RoundTrip(req)
}

// TestEveryLegOnAnotherProcess: nothing of a flow waits in a process, so that any replica with the
// key can go on with it.
func TestEveryLegOnAnotherProcess(t *testing.T) {
	names := sharedKeys()
	via := &rotating{base: transport(t)}
	for range 3 {
		host, _ := startReplica(t, names)
		via.hosts = append(via.hosts, host)
	}
	recorder := &wiretest.Recorder{Base: via}
	p := person{"region": `{"name":"eu"}`, "size": `{"cores":8}`,
		"contact": `{"email":"ada@example.com"}`}
	c := connect(t, "http://127.0.0.1:1/mcp",
		&clienthttp.Options{HTTPClient: &http.Client{Transport: recorder}}, p.options())
	got, err := tool("wizard", ``)(within(t, 2*patience), c)
	if want := "8 cores in eu for ada@example.com, round 4, saw eu"; err != nil || got != want {
		t.Fatalf("got %q, %v, want %q", got, err, want)
	}
	if legs := checkFlow(t, recorder.Messages()); legs != 4 {
		t.Errorf("took %d legs, want 4", legs)
	}
	wiretest.Conform(t, revision, recorder.Messages())
	if len(via.went) != 4 || via.went[0] == via.went[1] || via.went[1] == via.went[2] ||
		via.went[0] == via.went[2] {
		t.Errorf("the legs went to %q, want three different processes", via.went)
	}
}

// TestProcessesWithoutSharedKey: the client learns nothing but a reference, the log of the process
// that refused says why.
func TestProcessesWithoutSharedKey(t *testing.T) {
	via := &rotating{base: transport(t)}
	var replicas []*servertest.Process
	for range 3 {
		host, p := startReplica(t, "")
		replicas = append(replicas, p)
		via.hosts = append(via.hosts, host)
	}
	recorder := &wiretest.Recorder{Base: via}
	c := connect(t, "http://127.0.0.1:1/mcp",
		&clienthttp.Options{HTTPClient: &http.Client{Transport: recorder}},
		person{"region": `{"name":"eu"}`}.options())
	_, err := c.CallTool(within(t, 2*patience), "wizard", nil)
	e, ok := protocol.AsError(err)
	if !ok {
		t.Fatalf("got %v, want an error of the server", err)
	}
	reference := checkFrozen(t, e)
	if line, want := replicas[1].Line(), "rejected foreign_ephemeral "+reference; line != want {
		t.Errorf("the second process printed %q, want %q", line, want)
	}
	if len(via.went) != 2 {
		t.Errorf("the client sent %d requests, want 2", len(via.went))
	}
	messages := recorder.Messages()
	wiretest.Conform(t, revision, messages)
	if last := messages[len(messages)-1]; !strings.HasPrefix(last.HTTP, "200") {
		t.Errorf("got status %s, want 200", last.HTTP)
	}
}

// checkFrozen holds an error against the one that every refused state gets, and returns its
// reference.
func checkFrozen(t testing.TB, e *protocol.Error) (reference string) {
	t.Helper()
	var data map[string]string
	if err := json.Unmarshal(e.Data, &data); err != nil {
		t.Errorf("data %s: %v", e.Data, err)
	}
	if e.Code != protocol.CodeInvalidParams || e.Message != "Invalid or expired requestState" ||
		len(data) != 2 || data["reason"] != "invalid_request_state" || data["reference"] == "" {
		t.Errorf("got error %d %q %s, want the frozen one", e.Code, e.Message, e.Data)
	}
	return data["reference"]
}
