package serverhttp_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// cutMoments are the moments of a round at which to cut the connection, in order.
var cutMoments = []string{"middleware", "claim", "claimed", "handler", "first look", "hold",
	"second look", "third look", "finished", "commit"}

// A cutter cuts a request's connection once at one moment.
type cutter struct {
	store.Guard
	moment string
	once   sync.Once
	cancel atomic.Pointer[context.CancelFunc]
}

// reach cuts at the moment and waits until ctx, the server's context, has ended.
func (c *cutter) reach(ctx context.Context, moment string) {
	if cancel := c.cancel.Load(); moment == c.moment && cancel != nil {
		c.once.Do(func() {
			(*cancel)()
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Second):
			}
		})
	}
}

func (c *cutter) Claim(ctx context.Context, id, owner string, print [32]byte,
	until time.Time) (store.Claim, error) {
	c.reach(ctx, "claim")
	claim, err := c.Guard.Claim(ctx, id, owner, print, until)
	c.reach(ctx, "claimed")
	return cutClaim{claim, c}, err
}

type cutClaim struct {
	store.Claim
	cutter *cutter
}

func (c cutClaim) Commit(ctx context.Context, outcome []byte) error {
	if cancel := c.cutter.cancel.Load(); c.cutter.moment == "commit" && cancel != nil {
		c.cutter.once.Do(*cancel) // ctx outlives the call
	}
	return c.Claim.Commit(ctx, outcome)
}

// addLogin adds the tool "t", which waits for a visit, polling four times, and then has its effect.
func addLogin(srv *server.Server, reach func(ctx context.Context, moment string),
	effect func(context.Context) error) {
	var looks atomic.Int32
	addTool(srv, "t", func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
		reach(ctx, "handler")
		if err := roundtrip.AskURL(ctx, "login", "Sign in.", "https://id.example/"); err != nil {
			return nil, err
		}
		err := roundtrip.Await(ctx, "login", func(ctx context.Context) (bool, error) {
			n := looks.Add(1)
			reach(ctx, map[int32]string{1: "first look", 2: "second look", 3: "third look"}[n])
			if n == 1 {
				time.AfterFunc(100*time.Millisecond, func() { reach(ctx, "hold") })
			}
			return n >= 4, ctx.Err()
		})
		if err != nil {
			return nil, err
		}
		reach(ctx, "finished")
		return server.Text("signed in"), effect(ctx)
	})
}

// A retry after a cut at any moment of the round completes, and the effect happens once.
func TestFlowsSurviveACutConnection(t *testing.T) {
	for _, guarded := range []bool{false, true} {
		for _, moment := range cutMoments {
			t.Run(fmt.Sprintf("guarded %v/%s", guarded, moment), func(t *testing.T) {
				t.Parallel()
				testCutConnection(t, moment, guarded)
			})
		}
	}
}

func testCutConnection(t *testing.T, moment string, guarded bool) {
	c := &cutter{Guard: store.NewMemoryGuard(0), moment: moment}
	var effects sync.Map // by flow, like a bank's record
	var opts server.Options
	opts.Middleware = before(func(ctx context.Context, _ *server.Request) error {
		c.reach(ctx, "middleware")
		return nil
	})
	if guarded {
		opts.Roundtrip.Guard = c
	}
	srv, err := server.New(&opts)
	noError(t, err)
	addLogin(srv, c.reach, func(ctx context.Context) error {
		key, err := roundtrip.IdempotencyKey(ctx, "login")
		effects.Store(key, true)
		return err
	})
	h, err := serverhttp.New(srv, nil)
	noError(t, err)
	t.Cleanup(func() { _ = srv.Close() })
	web := serveHandler(t, h)

	state := c.post(t, web, t.Context(), "")["requestState"].(string)
	answer := fmt.Sprintf(`,"requestState":%q,"inputResponses":{"login":{"action":"accept"}}`, state)
	ctx, cancel := context.WithCancel(t.Context())
	c.cancel.Store(&cancel)
	c.post(t, web, ctx, answer)
	for range 100 {
		result := c.post(t, web, t.Context(), answer)
		if result == nil { // the cut request is ending
			time.Sleep(50 * time.Millisecond)
			continue
		}
		n := 0
		effects.Range(func(any, any) bool { n++; return true })
		if text := fmt.Sprint(result); !strings.Contains(text, "signed in") || n != 1 {
			t.Errorf("got %s, %d effects", text, n)
		}
		return
	}
	t.Error("the request is never served again")
}

// post calls the tool and returns the result; may be nil.
func (c *cutter) post(t *testing.T, ts *httptest.Server, ctx context.Context,
	more string) map[string]any {
	t.Helper()
	r := newRequest(t, ts, "POST", headers("tools/call", "t"), strings.Replace(
		body("tools/call", `"name":"t","arguments":{}`+more), `Capabilities":{}`,
		`Capabilities":{"elicitation":{"url":{}}}`, 1))
	r.Close = true
	res, err := ts.Client().Do(r.WithContext(ctx))
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return nil
	}
	if i := bytes.Index(data, []byte("{")); i > 0 { // an event
		data = data[i:]
	}
	var message struct{ Result map[string]any }
	if json.NewDecoder(bytes.NewReader(data)).Decode(&message) != nil {
		return nil
	}
	return message.Result
}

// sessionMoments are the moments of a call in a session at which to cut its stream.
var sessionMoments = []string{"middleware", "handler", "asked", "answered", "first look", "hold",
	"second look", "third look", "finished", "never"}

// A stopper blocks a call at one moment until its stream is cut.
type stopper struct {
	moment  string
	once    sync.Once
	reached chan struct{}
	cut     chan struct{}
}

func (s *stopper) reach(moment string) {
	if moment == s.moment {
		s.once.Do(func() { close(s.reached); <-s.cut })
	}
}

// After a cut at any moment the client resumes and gets the missed events and the result, and the
// effect happens once. After a cut before the stream has begun, it must call again, and the first
// call is never answered.
func TestSessionsSurviveACutConnection(t *testing.T) {
	for _, guarded := range []bool{false, true} {
		for _, moment := range sessionMoments {
			bubble(t, fmt.Sprintf("guarded %v/%s", guarded, moment), func(t *testing.T) {
				testCutSession(t, moment, guarded)
			})
		}
	}
}

func testCutSession(t *testing.T, moment string, guarded bool) {
	s := &stopper{moment: moment, reached: make(chan struct{}), cut: make(chan struct{})}
	opts := &server.Options{}
	opts.Middleware = before(func(_ context.Context, r *server.Request) error {
		if r.Message.Method == protocol.MethodCallTool {
			s.reach("middleware")
		}
		return nil
	})
	opts.Roundtrip.MinHumanTime = -1 // tests answer at once
	if guarded {
		opts.Roundtrip.Guard = store.NewMemoryGuard(0)
	}
	srv := newServer(t, opts)
	var effects atomic.Int32
	addLogin(srv, func(_ context.Context, moment string) { s.reach(moment) },
		func(context.Context) error { effects.Add(1); return nil })
	c := openSession(t, servertest.StartPipe(t, servertest.NewHandler(t, srv, nil)), "2025-11-25")
	id := 1
	if moment == "middleware" || moment == "handler" {
		leave := c.startCall(id, "t")
		<-s.reached
		wantIs(t, "the call that was left ended with", leave(), context.Canceled)
		close(s.cut)
		id++
	}
	f := c.callFlow(id, "t")
	last := f.readFirstID() // the client can always resume there
	cut := func() {
		f.drop()
		f = c.listen(cmp.Or(f.LastEventID(), last))
	}
	if moment == "asked" { // missed events come after each resumption
		cut()
		cut()
	}
	question := f.expect("elicitation/create")
	c.answer(question.ID, `{"action":"accept"}`)
	switch moment {
	case "answered":
		cut()
	case "first look", "second look", "third look", "hold", "finished":
		<-s.reached
		cut()
		close(s.cut)
	}
	for {
		m := f.next()
		if m.Method != "" { // a notification
			continue
		}
		if n := effects.Load(); string(m.ID) != fmt.Sprint(id) || n != 1 ||
			!strings.Contains(m.raw, "signed in") {
			t.Errorf("got %s, %d effects", m.raw, n)
		}
		break
	}
	read(t, c.do(t.Context(), "DELETE", "")) // ends the first call
	wantEqual(t, "effects after the end of the session", effects.Load(), int32(1))
}

// readFirstID reads the empty event that begins a stream and returns its id.
func (f *flow) readFirstID() string {
	f.Helper()
	var text []byte
	for one := make([]byte, 1); !bytes.HasSuffix(text, []byte("\n\n")); {
		if _, err := io.ReadFull(f.response.Body, one); err != nil {
			f.Fatalf("the stream begins with %q, %v", text, err)
		}
		text = append(text, one...)
	}
	id, _, ok := strings.Cut(strings.TrimPrefix(string(text), "id: "), "\ndata: \n")
	if !ok {
		f.Fatalf("the stream begins with %q", text)
	}
	return id
}
