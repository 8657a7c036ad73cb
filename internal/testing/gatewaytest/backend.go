package gatewaytest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/testing/pipehttp"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Backend is a server behind a gateway, and how the adapter's Upstream is to reach it: over HTTP
// on one connection, unless it says otherwise.
type Backend struct {
	*Upstream
	// Lines has connections over lines, which serve one call at a time, and Child those of
	// processes; see [Backend.Command].
	Lines, Child bool
	// These are the options of the same names. Zero: the defaults.
	MaxConnections, MaxWaiting int
	IdleTimeout                time.Duration
	Key                        func(context.Context, protocol.Principal) (string, error)
	// Warn is that of the options of the upstream.
	Warn            func(error)
	ProtocolVersion string
	// Unprefixed is that of the options of the upstream.
	Unprefixed []string
	// Publish has the gateway publish what the upstream has, and Err is set to the error. Else it
	// has [Tools].
	Publish bool
	Err     error
	// OtherProgress gets the tokens of progress of clients that is not on a question. Nil: none
	// comes.
	OtherProgress chan string
}

// A Build returns the handler of a gateway, whose users are who the header [UserHeader] says, and
// that passes its calls on by an Upstream of the adapter for each backend. closeUpstreams closes
// these, which the end of the test does, too.
type Build func(t *testing.T, router *elicitation.Router, backends ...*Backend) (
	gateway http.Handler, closeUpstreams func())

// Tools are the names of the tools of an [Upstream] that publishes none.
func Tools() []string { return []string{ToolAsk, ToolPlain, ToolReport, ToolWait, ToolFault} }

// NameOf returns the name that the backend with an index has as an upstream.
func NameOf(i int) string { return [...]string{"up", "other", "third"}[i] }

// keyHeader is the credential of requests to a [Backend].
const keyHeader = "Gatewaytest-Key"

// ClientFor returns an HTTP client for the upstream with the credentials of a key.
func (b *Backend) ClientFor(key string) *http.Client {
	if key == "" {
		return b.HTTPClient
	}
	return &http.Client{Transport: addKey{b.HTTPClient.Transport, key}}
}

// addKey adds the credentials of a key to requests.
type addKey struct {
	next http.RoundTripper
	key  string
}

// RoundTrip implements [http.RoundTripper].
func (a addKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(keyHeader, a.key)
	return a.next.RoundTrip(r)
}

// DialLines opens a connection over lines.
func (b *Backend) DialLines(t testing.TB) (io.ReadCloser, io.WriteCloser) {
	return pipehttp.ServeLines(t, func(ctx context.Context, in io.Reader, out io.Writer) {
		b.Serve(ctx, in, out)
	})
}

// childVariable makes the process an upstream.
const childVariable = "RONDO_TEST_UPSTREAM"

// Command returns the program of a child process and its environment: the test binary, which must
// call [ServeProcess].
func (b *Backend) Command() (program string, env []string) {
	program, err := os.Executable()
	if err != nil {
		panic(err)
	}
	b.connections.Add(1)
	return program, append(os.Environ(), childVariable+"=yes")
}

// ServeProcess is called by TestMain. Where the process was started as an upstream it is one until
// its standard input ends, and then returns true.
func ServeProcess() bool {
	if os.Getenv(childVariable) == "" {
		return false
	}
	newUpstream().Serve(context.Background(), os.Stdin, os.Stdout)
	return true
}

// serve serves a gateway until the test ends.
func serve(t *testing.T, build Build, router *elicitation.Router, backends ...*Backend) (
	url string) {
	t.Helper()
	gateway, _ := build(t, router, backends...)
	served := httptest.NewServer(gateway)
	t.Cleanup(served.Close)
	return served.URL
}

// unlimited is for tests with more questions than one user may have.
var unlimited = elicitation.Limits{Pending: -1, PerPrincipal: -1, PerSession: -1, PerUpstream: -1}

// AcceptReason returns the answer with a reason, as an upstream reads it.
func AcceptReason(reason string) string {
	return fmt.Sprintf(`{"action":"accept","content":{"why":%q}}`, reason)
}

// askFor returns a question with a message.
func askFor(message string) string { return strings.Replace(plain, "Deploy?", message, 1) }

// checkDeclared checks that the gateway declared to its upstream what its client can do.
func (u *Upstream) checkDeclared(t *testing.T, want ...string) {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.declared) != len(want) {
		t.Fatalf("the gateway has declared %q, want %q", u.declared, want)
	}
	for i, got := range u.declared {
		if !matchesJSON(got, want[i]) {
			t.Errorf("the gateway has declared %s, want %s", got, want[i])
		}
	}
}

// AcceptModes holds that a connection declares the modes that the clients of its calls have.
func AcceptModes(t *testing.T, build Build) {
	up := NewUpstream(t)
	url := serve(t, build, newRouter(t, nil), &Backend{Upstream: up})
	declared := []string{forms, bothModes, `{}`}
	for _, d := range append(declared, declared...) {
		client := Connect(t, url, d, "", nil)
		client.Call(t, ToolPlain, plain)
	}
	up.checkDeclared(t, declared...)
}

// AcceptChain holds that the questions of a server behind two gateways reach the client whose call
// passes both. The users of the outer share its connection to the inner.
func AcceptChain(t *testing.T, build Build) {
	inner := serve(t, build, newRouter(t, nil), &Backend{Upstream: NewUpstream(t)})
	url := serve(t, build, newRouter(t, nil),
		&Backend{Upstream: &Upstream{URL: inner, HTTPClient: newHTTPClient(t)}})
	var users []*Client
	for _, name := range []string{"alice", "bob"} {
		users = append(users, Connect(t, url, forms,
			`"result":`+AcceptReason(name+" answers MESSAGE"), nil))
	}
	mute := Connect(t, url, `{}`, "", nil)
	var streams []*Stream
	for _, c := range users {
		streams = append(streams, c.StartCall(t, ToolAsk, plain))
	}
	for i, name := range []string{"alice", "bob"} {
		users[i].Answer(t, streams[i])
		if got, want := streams[i].Result(t), AcceptReason(name+" answers Deploy?"); got != want {
			t.Errorf("the upstream reads %s, want %s", got, want)
		}
		streams[i].Close()
	}
	const want = `{"code":-32601,"message":"Client does not support elicitation"}`
	if got := mute.Call(t, ToolAsk, plain); !matchesJSON(got, want) {
		t.Errorf("of who cannot be asked the upstream reads %s, want %s", got, want)
	}
}
