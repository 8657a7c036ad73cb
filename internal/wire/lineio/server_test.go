package lineio_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/inflight"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/internal/wire/lineio"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// A peer answers "ok", "no message" and "error" at once, and "wait" when its context ends.
type peer struct {
	admitted, delivered []string // ids
	failed              bool
	closed              int

	mu            sync.Mutex
	notifications []string
	causes        []error
}

func (p *peer) Admit(req *protocol.Request, _ protocol.Back) lineio.ServeFunc {
	p.admitted = append(p.admitted, req.ID.String())
	return func(ctx context.Context) (*protocol.Response, error) {
		switch req.Method {
		case "no message":
			return &protocol.Response{ID: req.ID, Result: []byte(`5`)}, nil
		case "error":
			return nil, errors.New("secret of the peer")
		case "wait":
			<-ctx.Done()
			p.mu.Lock()
			defer p.mu.Unlock()
			p.causes = append(p.causes, context.Cause(ctx))
		}
		return &protocol.Response{ID: req.ID, Result: []byte(`{}`)}, nil
	}
}

func (p *peer) Notify(_ context.Context, n *protocol.Notification) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notifications = append(p.notifications, n.Method)
}

func (p *peer) Deliver(r *protocol.Response) { p.delivered = append(p.delivered, r.ID.String()) }
func (p *peer) AllowsBatches() bool          { return true }
func (p *peer) FailQuestions()               { p.failed = true }
func (p *peer) Close()                       { p.closed++ }

type refusals struct {
	mu   sync.Mutex
	list []event.RefusalReason
}

func (r *refusals) add(_ context.Context, why event.RefusalReason, _ protocol.ID,
	_ *protocol.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, why)
}

func options(r *refusals) lineio.ServerOptions {
	return lineio.ServerOptions{MaxLineBytes: 500, MaxInFlight: 100, Grace: time.Minute,
		Refused: r.add}
}

// serve serves lines and returns the sorted output.
func serve(t *testing.T, peer lineio.Peer, opts lineio.ServerOptions, lines ...string) []string {
	t.Helper()
	var out bytes.Buffer
	in := strings.NewReader(strings.Join(lines, "\n"))
	noError(t, lineio.NewServer(in, &out, opts).Serve(t.Context(), peer))
	written := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	slices.Sort(written)
	return written
}

func request(id int, method string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q}`, id, method)
}

const cancelFirst = `{"jsonrpc":"2.0","method":"notifications/cancelled",` +
	`"params":{"requestId":1}}`

func ok(id int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, id) }

func failure(id int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":`+
		`{"code":-32603,"message":"internal error"}}`, id)
}

func TestRequestsAreServed(t *testing.T) {
	var p peer
	var refused refusals
	got := serve(t, &p, options(&refused),
		request(1, "wait"), request(2, "ok"), request(3, "no message"), request(4, "error"),
		`{"jsonrpc":"2.0","method":"notifications/x"}`, cancelFirst,
		`{"jsonrpc":"2.0","id":9,"result":{}}`)
	if want := []string{failure(3), failure(4), ok(2)}; !slices.Equal(got, sorted(want)) {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(p.causes) != 1 || p.causes[0] != inflight.ErrCancelled {
		t.Errorf("the cancelled request ended with %v", p.causes)
	}
	if !slices.Equal(p.notifications, []string{"notifications/x"}) {
		t.Errorf("the peer was notified of %q", p.notifications)
	}
	if p.closed != 1 {
		t.Errorf("the peer was closed %d times", p.closed)
	}
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// Requests after initialize find the session open.
func TestRequestsAreAdmittedInOrder(t *testing.T) {
	var p peer
	var lines, want []string
	for id := range 50 {
		lines = append(lines, request(id, "ok"))
		want = append(want, fmt.Sprint(id))
	}
	lines = append(lines, `{"jsonrpc":"2.0","id":9,"result":{}}`)
	serve(t, &p, options(&refusals{}), lines...)
	if !slices.Equal(p.admitted, want) {
		t.Errorf("admitted %q", p.admitted)
	}
	if len(p.delivered) != 1 || !p.failed {
		t.Errorf("answers %q were delivered, questions failed: %t", p.delivered, p.failed)
	}
}

func TestBatchesAreAnsweredTogether(t *testing.T) {
	for _, test := range []struct {
		name, line, want string
	}{
		{"nothing to answer", `[{"jsonrpc":"2.0","method":"notifications/x"}]`, ""},
		{"one cancelled", "[" + request(1, "wait") + "," + cancelFirst + "]", ""},
		{"one that cannot be written", "[" + request(2, "no message") + "]",
			"[" + failure(2) + "]"},
		{"one cancelled, one served", "[" + request(1, "wait") + "," + request(2, "ok") + "," +
			cancelFirst + "]", "[" + ok(2) + "]"},
		{"no message", `[{"jsonrpc":"2.0","id":3}]`, `[{"jsonrpc":"2.0","id":3,"error":{` +
			`"code":-32600,"message":` +
			`"invalid request: none of method, result and error is present"}}]`},
		{"no JSON", `[{"id":3,"method":NaN}]`, `[{"jsonrpc":"2.0","id":3,"error":{"code":-32700,` +
			`"message":"parse error: json: unexpected 'N' at byte 17"}}]`},
		{"cut", `[` + request(1, "ok"), `{"jsonrpc":"2.0","error":{"code":-32700,"message":` +
			`"parse error: json: unexpected end at byte 39"}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := serve(t, &peer{}, options(&refusals{}), test.line)
			if len(got) != 1 || got[0] != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	answer := serve(t, &peer{}, options(&refusals{}), "["+request(1, "ok")+"]")[0]
	wiretest.Validate(t, "2025-03-26", wiretest.Server, []byte(answer), protocol.MethodPing)
}

func TestRefusalsSayWhy(t *testing.T) {
	for _, test := range []struct {
		name  string
		lines []string
		limit int // requests in flight
		want  event.RefusalReason
	}{
		{"too long", []string{request(1, strings.Repeat("x", 500))}, 9, words.RefusedTooLarge},
		{"no message", []string{`{}`}, 9, words.RefusedMalformed},
		{"an id twice", []string{request(1, "wait"), request(1, "ok"), cancelFirst}, 9,
			words.RefusedDuplicateID},
		{"too many", []string{request(1, "wait"), request(2, "ok"), cancelFirst}, 1,
			words.RefusedRequests},
		{"initialize in a batch", []string{"[" + request(1, "initialize") + "]"}, 9,
			words.RefusedBatch},
	} {
		t.Run(test.name, func(t *testing.T) {
			var refused refusals
			opts := options(&refused)
			opts.MaxInFlight = test.limit
			got := serve(t, &peer{}, opts, test.lines...)
			if !slices.Equal(refused.list, []event.RefusalReason{test.want}) {
				t.Errorf("refused for %v, want %v", refused.list, test.want)
			}
			if len(got) != 1 || !strings.Contains(got[0], `"error"`) {
				t.Errorf("the client got %q, want one error", got)
			}
		})
	}
}

func TestEndOfTheContextEndsTheStream(t *testing.T) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ctx, cancel := context.WithCancelCause(t.Context())
	p := &peer{}
	ended := make(chan error, 1)
	go func() { ended <- lineio.NewServer(inR, outW, options(&refusals{})).Serve(ctx, p) }()
	defer inW.Close()
	defer outR.Close()
	stop := errors.New("the reason of a test")
	cancel(stop)
	if err := <-ended; err != stop {
		t.Errorf("ended with %v, want the cause of the context", err)
	}
	if p.failed {
		t.Error("questions failed although answers could arrive")
	}
}

var noError = testkit.NoError
