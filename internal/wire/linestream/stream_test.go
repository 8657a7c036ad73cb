package linestream_test

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
	"github.com/rondo-mcp/rondo/internal/wire/linestream"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// A plainPeer answers the methods "ok", "no message" and "error" at once, and "wait" when
// the context of the request ends.
type plainPeer struct {
	mu            sync.Mutex
	notifications []string
	causes        []error
	closed        int
}

func (p *plainPeer) Handle(ctx context.Context, req *protocol.Request,
	_ protocol.Back) (*protocol.Response, error) {
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

func (p *plainPeer) Notify(_ context.Context, n *protocol.Notification) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notifications = append(p.notifications, n.Method)
	return nil
}

func (p *plainPeer) Close() error {
	p.closed++
	return nil
}

// A batchPeer is a plainPeer with a session of revision 2025-03-26.
type batchPeer struct {
	plainPeer
	admitted  []string // ids
	delivered []string
	failed    bool
}

func (p *batchPeer) Admit(req *protocol.Request, back protocol.Back) linestream.ServeFunc {
	p.admitted = append(p.admitted, req.ID.String())
	return func(ctx context.Context) (*protocol.Response, error) { return p.Handle(ctx, req, back) }
}

func (p *batchPeer) Deliver(r *protocol.Response) {
	p.delivered = append(p.delivered, r.ID.String())
}

func (p *batchPeer) AllowsBatches() bool { return true }
func (p *batchPeer) FailQuestions()      { p.failed = true }

// refusals records which requests are refused and why.
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

func options(r *refusals) linestream.Options {
	return linestream.Options{MaxLineBytes: 500, MaxInFlight: 100, Grace: time.Minute,
		Refused: r.add}
}

// serve has peer serve lines and returns what it writes, sorted.
func serve(t *testing.T, peer protocol.Peer, opts linestream.Options, lines ...string) []string {
	t.Helper()
	var out bytes.Buffer
	in := strings.NewReader(strings.Join(lines, "\n"))
	if err := linestream.New(in, &out, opts).Serve(t.Context(), peer); err != nil {
		t.Fatal(err)
	}
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

func TestRequestsOfAPlainPeer(t *testing.T) {
	var peer plainPeer
	var refused refusals
	got := serve(t, &peer, options(&refused),
		request(1, "wait"), request(2, "ok"), request(3, "no message"), request(4, "error"),
		`{"jsonrpc":"2.0","method":"notifications/x"}`, cancelFirst,
		`{"jsonrpc":"2.0","id":9,"result":{}}`)
	if want := []string{failure(3), failure(4), ok(2)}; !slices.Equal(got, sorted(want)) {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(peer.causes) != 1 || peer.causes[0] != inflight.ErrCancelled {
		t.Errorf("the cancelled request ended with %v", peer.causes)
	}
	if !slices.Equal(peer.notifications, []string{"notifications/x"}) {
		t.Errorf("the peer was notified of %q", peer.notifications)
	}
	if peer.closed != 1 {
		t.Errorf("the peer was closed %d times", peer.closed)
	}
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// TestRequestsAreAdmittedInOrder: the requests behind initialize find the session open.
func TestRequestsAreAdmittedInOrder(t *testing.T) {
	var peer batchPeer
	var lines, want []string
	for id := range 50 {
		lines = append(lines, request(id, "ok"))
		want = append(want, fmt.Sprint(id))
	}
	lines = append(lines, `{"jsonrpc":"2.0","id":9,"result":{}}`)
	serve(t, &peer, options(&refusals{}), lines...)
	if !slices.Equal(peer.admitted, want) {
		t.Errorf("admitted %q", peer.admitted)
	}
	if len(peer.delivered) != 1 || !peer.failed {
		t.Errorf("answers %q were delivered, questions failed: %t", peer.delivered, peer.failed)
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
	} {
		t.Run(test.name, func(t *testing.T) {
			got := serve(t, &batchPeer{}, options(&refusals{}), test.line)
			if len(got) != 1 || got[0] != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	answer := serve(t, &batchPeer{}, options(&refusals{}), "["+request(1, "ok")+"]")[0]
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
			got := serve(t, &batchPeer{}, opts, test.lines...)
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
	peer := &batchPeer{}
	ended := make(chan error, 1)
	go func() { ended <- linestream.New(inR, outW, options(&refusals{})).Serve(ctx, peer) }()
	defer inW.Close()
	defer outR.Close()
	stop := errors.New("the reason of a test")
	cancel(stop)
	if err := <-ended; err != stop {
		t.Errorf("ended with %v, want the cause of the context", err)
	}
	if peer.failed {
		t.Error("questions failed although answers could arrive")
	}
}
