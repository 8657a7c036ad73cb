package hostedtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server/hosted"
)

// A Tool of a hosted server returns a text.
type Tool func(ctx context.Context, c Call) (string, error)

// A Call is a tool's access to its SDK's features.
type Call interface {
	Elicit(ctx context.Context) (action string, err error) // a form that asks "Why?"
	ListRoots(ctx context.Context) error
	Progress(ctx context.Context, n int) error
	EndSession()
}

type SDK struct {
	// Peer returns a server with these tools, and a function that returns its session count.
	Peer     func(tools map[string]Tool) (p hosted.Peer, sessions func() int)
	Progress func(n int) string // notification that [Call].Progress causes
	Sessions int                // number of sessions of one client that asks in all ways
	Cause    error              // cause of the end of handlers when a session ends; nil: any
	EndWaits bool               // the end of a session waits for its handlers
}

func Run(t *testing.T, sdk SDK) {
	t.Run("end of a session", sdk.testEndOfASession)
	t.Run("end of a call", sdk.testEndOfACall)
	t.Run("handlers that stay", sdk.testHandlersThatStay)
	t.Run("end of a question", sdk.testEndOfAQuestion)
	t.Run("errors of the way back", sdk.testErrorsOfTheWayBack)
	t.Run("where a question is put", sdk.testWhereAQuestionIsPut)
	t.Run("no way back", func(t *testing.T) {
		p, _ := sdk.Peer(nil)
		if _, err := Open(t, p).Session.Handle(t.Context(), &protocol.Request{
			ID: protocol.IntID(1), Method: protocol.MethodPing}, nil); err == nil {
			t.Error("a request without a way back was handled")
		}
	})
	t.Run("many sessions", sdk.testManySessions)
}

// bothWays returns calls of a tool: with pushed questions, and with a state as for returned ones.
func bothWays(tool string) []string {
	return []string{fmt.Sprintf(`{"name":%q}`, tool),
		fmt.Sprintf(`{"name":%q,"requestState":"x"}`, tool)}
}

func (sdk SDK) testEndOfASession(t *testing.T) {
	for name, end := range map[string]func(*Core, Call){
		"by the core":   func(c *Core, _ Call) { _ = c.Session.Close() },
		"by the peer":   func(c *Core, _ Call) { _ = c.Peer.Close() },
		"by the server": func(_ *Core, c Call) { c.EndSession() },
	} {
		t.Run(name, func(t *testing.T) {
			calls, causes := make(chan Call, 2), make(chan error, 2)
			leave := make(chan struct{})
			p, sessions := sdk.Peer(map[string]Tool{"wait": func(
				ctx context.Context, c Call) (string, error) {
				calls <- c
				select {
				case <-ctx.Done():
				case <-leave:
				}
				causes <- context.Cause(ctx)
				return "done", nil
			}})
			c := Open(t, p)
			if err := c.Session.Err(); err != nil {
				t.Error("an open session has the error", err)
			}
			answered := make(chan error, 2)
			var call Call
			for i, params := range bothWays("wait") {
				go func() {
					_, err := c.Send(context.Background(), protocol.MethodCallTool, params, nil)
					answered <- err
				}()
				if running := <-calls; i == 0 {
					call = running
				}
			}
			if n := sessions(); n != sdk.Sessions {
				t.Errorf("%d sessions, want %d", n, sdk.Sessions)
			}
			go end(c, call)
			waits := sdk.EndWaits && name == "by the server"
			if waits { // handlers get an answer only if waits is set
				close(leave)
			}
			for range 2 {
				err, cause := <-answered, <-causes
				if waits && (err == nil || errors.Is(err, protocol.ErrSessionGone)) {
					continue
				}
				if !errors.Is(err, protocol.ErrSessionGone) || cause == nil ||
					sdk.Cause != nil && !errors.Is(cause, sdk.Cause) {
					t.Errorf("got %v, the handler %v", err, cause)
				}
			}
			<-c.Session.Done()
			_, later := c.Send(t.Context(), protocol.MethodCallTool, bothWays("wait")[1], nil)
			_, latest := c.Send(t.Context(), protocol.MethodListTools, `{}`, nil)
			for what, err := range map[string]error{"later": later, "latest": latest,
				"Err": c.Session.Err(),
				"a notification": c.Session.Notify(t.Context(),
					&protocol.Notification{Method: protocol.NotifyInitialized}),
				"another": c.Session.Notify(t.Context(), &protocol.Notification{Method: "x"}),
			} {
				if !errors.Is(err, protocol.ErrSessionGone) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if err := c.Session.Close(); err != nil || sessions() != 0 {
				t.Errorf("closed again: %v, %d sessions are left", err, sessions())
			}
			_, _, err := p.OpenSession(t.Context(), Initialize("{}"), &Back{})
			if errors.Is(err, protocol.ErrSessionGone) != (name == "by the peer") {
				t.Errorf("after the end: %v", err)
			}
			_ = p.Close()
		})
	}
}

var errLeft = errors.New("the client has left")

func (sdk SDK) testEndOfACall(t *testing.T) {
	for wantCause, want := range map[error]error{errLeft: context.Canceled,
		context.DeadlineExceeded: context.DeadlineExceeded} {
		for _, params := range bothWays("wait") {
			synctest.Test(t, func(t *testing.T) {
				began := make(chan struct{})
				var got, cause error
				p, _ := sdk.Peer(map[string]Tool{"wait": func(
					ctx context.Context, _ Call) (string, error) {
					close(began)
					child, cancel := context.WithCancel(ctx)
					defer cancel()
					<-child.Done()
					got, cause = child.Err(), context.Cause(child)
					return "", cause
				}})
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				ctx, leave := context.WithCancelCause(ctx)
				go func() {
					if <-began; wantCause == errLeft {
						leave(errLeft)
					}
				}()
				answer := TextOf(Open(t, p).Send(ctx, protocol.MethodCallTool, params, nil))
				if got != want || cause != wantCause ||
					!strings.HasSuffix(answer, wantCause.Error()) {
					t.Errorf("%s: %s; the handler got %v, because of %v", params, answer, got, cause)
				}
			})
		}
	}
}

// testHandlersThatStay checks that the wait for handlers that ignore their call's end is bounded.
func (sdk SDK) testHandlersThatStay(t *testing.T) {
	for _, test := range []struct {
		name  string
		stay  func(leave <-chan struct{}) string
		waits time.Duration
	}{
		{"answers late", func(<-chan struct{}) string {
			time.Sleep(4 * time.Second)
			return "late"
		}, 3 * time.Second},
		{"never returns", func(leave <-chan struct{}) string { <-leave; return "" },
			5 * time.Second},
		{"panics too late", func(leave <-chan struct{}) string { <-leave; panic("late") },
			5 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leave := make(chan struct{})
				var asked error
				p, sessions := sdk.Peer(map[string]Tool{
					"stay": func(ctx context.Context, c Call) (string, error) {
						_ = c.Progress(ctx, 1)
						text := test.stay(leave)
						_ = c.Progress(ctx, 2)
						asked = c.ListRoots(ctx)
						return text, nil
					},
					"other": func(context.Context, Call) (string, error) { return "other", nil },
				})
				c, back := Open(t, p), &Back{}
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(errLeft) })
				begun := time.Now()
				got := TextOf(c.Send(ctx, protocol.MethodCallTool, `{"name":"stay"}`, back))
				if waited := time.Since(begun) - time.Second; waited != test.waits {
					t.Errorf("the call has waited for %v after its end, want %v", waited, test.waits)
				}
				Want(t, "another call", c.Call("other", nil), "other")
				stays := test.waits == 5*time.Second
				if stays != strings.Contains(got, "goes on after its") ||
					stays != strings.Contains(got, errLeft.Error()) || !stays && got != "late" {
					t.Errorf("got %s", got)
				}
				before := back.List()
				close(leave)
				synctest.Wait()
				if stays { // later messages belong to no call
					Want(t, "of the call", back.List(), before)
				}
				if test.name == "never returns" {
					Want(t, "of the session", c.Back.List(), sdk.Progress(2))
					if asked == nil {
						t.Error("a question after the end of its call has no error")
					}
				}
				closing := time.Now()
				_ = c.Session.Close()
				took := time.Since(closing)
				synctest.Wait()
				if took != 0 || sessions() != 0 {
					t.Errorf("the session was closed after %v, %d are left", took, sessions())
				}
			})
		})
	}
}

// testEndOfAQuestion checks that a question ends with its call, whatever its context.
func (sdk SDK) testEndOfAQuestion(t *testing.T) {
	for name, detach := range map[string]func(context.Context) context.Context{
		"own":   func(ctx context.Context) context.Context { return ctx },
		"other": func(context.Context) context.Context { return context.Background() },
	} {
		p, _ := sdk.Peer(map[string]Tool{"ask": func(ctx context.Context, c Call) (string, error) {
			return "", c.ListRoots(detach(ctx))
		}})
		ctx, cancel := context.WithCancelCause(t.Context())
		var cause error
		_, _ = Open(t, p).Send(ctx, protocol.MethodCallTool, `{"name":"ask"}`,
			&Back{Answer: func(ctx context.Context, _ *protocol.Request) (string, error) {
				cancel(errLeft)
				<-ctx.Done()
				cause = context.Cause(ctx)
				return "", cause
			}})
		if cause != errLeft {
			t.Errorf("%s: the question ended because of %v", name, cause)
		}
	}
}

func (sdk SDK) testErrorsOfTheWayBack(t *testing.T) {
	var got error
	p, _ := sdk.Peer(map[string]Tool{"ask": func(ctx context.Context, c Call) (string, error) {
		_, got = c.Elicit(ctx)
		return "", got
	}})
	c := Open(t, p)
	pending := fmt.Errorf("%w: why", roundtrip.ErrPending)
	text := c.Call("ask", &Back{Answer: func(context.Context, *protocol.Request) (string, error) {
		return "", pending
	}})
	if !errors.Is(got, roundtrip.ErrPending) || !strings.HasSuffix(text, pending.Error()) {
		t.Errorf("the handler got %v, and the client %s", got, text)
	}
	if text = c.Call("ask", nil); !strings.HasSuffix(text, "nobody to ask") {
		t.Errorf("refused: the client got %s", text)
	}
}

type markKey struct{}

// testWhereAQuestionIsPut checks that a question is put on the asking goroutine, with its context,
// until that context ends.
func (sdk SDK) testWhereAQuestionIsPut(t *testing.T) {
	p, _ := sdk.Peer(map[string]Tool{
		"ask": func(ctx context.Context, c Call) (string, error) {
			return c.Elicit(context.WithValue(ctx, markKey{}, "mine"))
		},
		"ended": func(ctx context.Context, c Call) (string, error) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return c.Elicit(ctx)
		},
	})
	c := Open(t, p)
	for _, action := range []string{"accept", "decline", "cancel"} {
		Want(t, action, c.Call("ask", &Back{Answer: func(ctx context.Context,
			_ *protocol.Request) (string, error) {
			if ctx.Value(markKey{}) != "mine" || !roundtrip.CalledByHandler() {
				t.Errorf("the question has the value %v, and is put by the handler: %v",
					ctx.Value(markKey{}), roundtrip.CalledByHandler())
			}
			return fmt.Sprintf(`{"action":%q}`, action), nil
		}}), action)
	}
	got := c.Call("ended", &Back{Answer: func(ctx context.Context, _ *protocol.Request) (
		string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}})
	if !strings.Contains(got, "context canceled") {
		t.Errorf("a question of a context that has ended: %s", got)
	}
}

func (sdk SDK) testManySessions(t *testing.T) {
	testkit.CheckLeaks(t)
	p, sessions := sdk.Peer(map[string]Tool{"x": func(ctx context.Context, c Call) (string, error) {
		if _, err := c.Elicit(ctx); err != nil {
			return "", err
		}
		return "x", c.Progress(ctx, 1)
	}})
	var users sync.WaitGroup
	for user := range 4 {
		users.Go(func() {
			for i := range 250 {
				c := OpenAs(t, p, &hosted.Caller{SessionID: fmt.Sprint(user, " ", i)}, "{}")
				Want(t, "call", c.Call("x", Says(`{"action":"accept"}`)), "x")
				_, _ = c.Send(t.Context(), protocol.MethodCallTool, bothWays("x")[i%2], nil)
				_ = c.Session.Close()
			}
		})
	}
	users.Wait()
	if n := sessions(); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

// WantSame compares responses to requests (method, parameters) with the responses of the SDK alone.
func (c *Core) WantSame(alone func(method, params string) string, requests ...[2]string) {
	c.Helper()
	for _, r := range requests {
		Want(c.TB, r[0]+" "+r[1], c.Do(nil, r[0], r[1]), alone(r[0], r[1]))
	}
}

// WantPanic checks that a request panics with a value, or with one that prints as that text.
func (c *Core) WantPanic(method, params string, want any) {
	c.Helper()
	defer func() {
		c.Helper()
		v := recover()
		if text, ok := want.(string); v != want && (!ok || fmt.Sprint(v) != text) {
			c.Errorf("%s %s: panic with %v, want %v", method, params, v, want)
		}
	}()
	c.Do(nil, method, params)
}
