package interop_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/roundtriptest"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/hosted"
)

// replicaKey is the key, and all that the replicas of a hosted server share.
const replicaKey = "a:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

// newReplica opens the kit's server on an SDK. It pushes its questions.
func newReplica(sdk string) (*hosted.Server, error) {
	ring, err := keys.KeyringFromEnv(func(string) (string, bool) { return replicaKey, true }, "K")
	if err != nil {
		return nil, err
	}
	opts := hosted.Options{Server: server.Options{
		Info: protocol.Implementation{Name: "replica", Version: "1.0.0"},
		Roundtrip: roundtrip.Options{Sealer: ring, Audience: "replica",
			MinHumanTime: -1}, // a test answers at once
	}}
	if sdk == "official" {
		return kitOfficial(true, &roundtriptest.Effects{}, opts)
	}
	return kitMCPGo(true, &roundtriptest.Effects{}, opts)
}

// serveReplica serves a replica until its standard input ends. It prints the replica's address.
func serveReplica(sdk string, in io.Reader, out io.Writer) error {
	front, err := newReplica(sdk)
	if err != nil {
		return err
	}
	handler, err := front.Handler(nil)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, listener.Addr())
	web := &http.Server{Handler: handler, ReadHeaderTimeout: patience}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		_ = web.Close()
	}()
	_ = web.Serve(listener)
	return nil
}

// The type alternating sends requests to the replicas in turn, and skips a replica that is gone.
type alternating struct {
	hosts []string
	next  atomic.Int64
	tries atomic.Int64 // failed attempts
}

func (a *alternating) RoundTrip(r *http.Request) (*http.Response, error) {
	at := a.next.Add(1)
	var failed error
	for i := range int64(len(a.hosts)) {
		to := r.Clone(r.Context())
		to.URL.Host = a.hosts[(at+i)%int64(len(a.hosts))]
		if body, err := r.GetBody(); err == nil {
			to.Body = body
		}
		response, err := http.DefaultTransport.RoundTrip(to)
		if err == nil {
			return response, nil
		}
		a.tries.Add(1)
		failed = err
	}
	return nil, failed
}

// Replicas of a hosted server that share only a key serve the rounds of each flow in turn. One is
// killed with rounds in flight, and no flow is lost.
func TestHostedReplicas(t *testing.T) {
	flows := 40
	if testkit.Soak {
		flows = 1000
	}
	for _, sdk := range []string{"official", "mcp-go"} {
		t.Run(sdk, func(t *testing.T) {
			steady, victim := startReplica(t, sdk), startReplica(t, sdk)
			way := &alternating{hosts: []string{steady.addr, victim.addr}}
			over, err := clienthttp.New("http://localhost/mcp",
				&clienthttp.Options{HTTPClient: &http.Client{Transport: way}})
			noError(t, err)
			c, err := client.New(over, &client.Options{Era: protocol.Modern, ElicitForm: func(
				_ context.Context, q *client.FormQuestion) (*protocol.ElicitResult, error) {
				if strings.HasPrefix(q.Message, "Which") {
					return client.Accept(map[string]string{"name": "eu"})
				}
				return client.Accept(map[string]string{"reason": "it is tested"})
			}})
			noError(t, err)
			defer c.Close()
			var done atomic.Int64
			var calls sync.WaitGroup
			for worker := range 8 {
				calls.Go(func() {
					for i := worker; i < flows; i += 8 {
						name := fmt.Sprint("book ", i)
						result, err := c.CallTool(within(t, time.Minute), "provision",
							map[string]string{"name": name})
						if err != nil {
							t.Errorf("%s: %v", name, err)
							return
						}
						got := result.Content[0].(*protocol.TextContent).Text
						if got != name+" in eu: it is tested" {
							t.Errorf("%s: got %q", name, got)
						}
						if n := done.Add(1); n == int64(flows/3) {
							victim.kill() // with rounds in flight
						}
					}
				})
			}
			calls.Wait()
			t.Logf("%d flows, %d requests found their replica gone", done.Load(), way.tries.Load())
			if way.tries.Load() == 0 {
				t.Error("no request met the end of the replica")
			}
		})
	}
}

type replicaProcess struct {
	addr string
	kill func()
}

func startReplica(t *testing.T, sdk string) *replicaProcess {
	t.Helper()
	cmd := servertest.Self(t, asReplica+"="+sdk)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	noError(t, err)
	out, err := cmd.StdoutPipe()
	noError(t, err)
	noError(t, cmd.Start())
	kill := sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(func() { _ = in.Close(); kill() })
	var addr string
	if _, err := fmt.Fscanln(out, &addr); err != nil {
		t.Fatal(err)
	}
	return &replicaProcess{addr, kill}
}
