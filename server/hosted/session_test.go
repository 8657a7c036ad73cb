package hosted_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/hostedtest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/hosted"
)

// whoami answers with a handler's view of its caller.
func whoami() *fake {
	return &fake{answers: map[string]handler{
		"whoami": func(ctx context.Context, c *fakeCall) (string, error) {
			w := hosted.CallerFrom(ctx)
			if w.SessionID != c.session.caller.SessionID {
				return textResult("the session of another"), nil
			}
			return textResult("%s %s %s %v %s", w.SessionID, w.Principal.Subject,
				w.Header.Get("X-User"), w.Capabilities.Elicitation != nil, w.Client.Name), nil
		},
		"leaves": func(_ context.Context, c *fakeCall) (string, error) {
			_ = c.session.Close()
			return "", fmt.Errorf("gone: %w", protocol.ErrSessionGone)
		},
	}}
}

func named(name string) client.Options {
	opts := hostedtest.Answering(protocol.ActionAccept)
	opts.Info.Name = name
	return opts
}

func TestHandlersSeeTheirCaller(t *testing.T) {
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		h := host(t, whoami(), nil)
		ids := map[string]string{} // by caller
		for _, user := range []string{"ann", "bob", ""} {
			for n := range 2 {
				c := open(t, hostedtest.Dial(t, h, user), era, named("c"))
				for range 2 {
					id, rest, _ := strings.Cut(hostedtest.CallTool(t, c, "whoami"), " ")
					hostedtest.Want(t, era.String(), rest, user+" "+user+" true c")
					owner := user
					if era == protocol.Legacy || user == "" {
						owner = fmt.Sprint(user, n)
					}
					if ids[id] != "" && ids[id] != owner {
						t.Errorf("%v: session %s of %q serves %q", era, id, ids[id], owner)
					}
					ids[id] = owner
				}
			}
		}
		want := 6 // one for each session
		if era == protocol.Modern {
			want = 2 + 4 // one for each principal, and for each anonymous request
		}
		if len(ids) != want {
			t.Errorf("%v: %d sessions, want %d: %v", era, len(ids), want, ids)
		}
	}
}

func TestASessionThatTheHostedServerClosedIsOpenedAnew(t *testing.T) {
	eachWay(t, func(t *testing.T, r route, era protocol.Era) {
		h := host(t, whoami(), nil)
		c := open(t, r.open(t, h), era, named("c"))
		got := hostedtest.CallTool(t, c, "leaves")
		if !failed(got) || !strings.Contains(got, "is not known") {
			t.Errorf("got %q", got)
		}
		if got := hostedtest.CallTool(t, c, "whoami"); failed(got) ||
			!strings.HasSuffix(got, "true c") {
			t.Errorf("got %q", got)
		}
	})
}

func withPrincipal(t testing.TB, h *hosted.Server, user, name string) {
	t.Helper()
	ctx := server.WithPrincipal(t.Context(), protocol.Principal{Subject: user})
	c := open(t, h.Server(), protocol.Modern, named(name))
	if _, err := c.CallTool(ctx, "whoami", nil); err != nil {
		t.Fatal(err)
	}
}

func TestSessionsOfPrincipalsAreBoundedAndClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := whoami()
		h, err := hosted.New(hosted.One(f), &hosted.Options{MaxSessions: 10})
		noError(t, err)
		defer func() { _ = h.Close() }()
		check := func(want int, after string) {
			t.Helper()
			synctest.Wait()
			if got := f.openSessions(); got != want {
				t.Errorf("%d sessions are open %s, want %d", got, after, want)
			}
		}
		for i := range 20 {
			withPrincipal(t, h, "ann", fmt.Sprint("client ", i))
		}
		check(8, "of one principal with 20 clients")
		for i := range 20 {
			withPrincipal(t, h, fmt.Sprint("user ", i), "c")
		}
		check(10, "of 21 principals")
		time.Sleep(4 * time.Minute)
		withPrincipal(t, h, "user 19", "c")
		time.Sleep(2 * time.Minute)
		check(1, "five minutes later")
	})
}

func TestSessionsEndWithThoseOfTheFront(t *testing.T) {
	f := whoami()
	h := host(t, f, nil)
	c := open(t, hostedtest.Dial(t, h, "ann"), protocol.Legacy, named("c"))
	hostedtest.CallTool(t, c, "whoami")
	s := f.last()
	noError(t, c.Close())
	select {
	case <-s.done:
	case <-time.After(10 * time.Second):
		t.Error("the session goes on")
	}
}

func TestEachCallerHasAServerOfItsOwn(t *testing.T) {
	var made sync.Map
	var count atomic.Int32
	source := func(_ context.Context, caller *hosted.Caller) (hosted.Peer, error) {
		if caller.Principal.Subject == "" {
			return nil, errors.New("log in first")
		}
		count.Add(1)
		f := whoami()
		made.Store(f, caller.Principal.Subject)
		return f, nil
	}
	if _, err := hosted.New(source, nil); err == nil ||
		!strings.Contains(err.Error(), "Options.Server.Info") {
		t.Errorf("a source that cannot be asked: got %v", err)
	}
	for _, perRequest := range []bool{false, true} {
		count.Store(0)
		h, err := hosted.New(source, &hosted.Options{PerRequest: perRequest,
			Server: server.Options{Info: protocol.Implementation{Name: "each"}}})
		noError(t, err)
		for _, user := range []string{"ann", "bob", "ann"} {
			withPrincipal(t, h, user, "c")
		}
		want := int32(2)
		if perRequest {
			want = 3
		}
		if n := count.Load(); n != want {
			t.Errorf("%d servers were made, want %d", n, want)
		}
		if got := request(t, h, protocol.MethodListTools, ""); !strings.Contains(got, "error") {
			t.Errorf("a caller without a server: got %s", got)
		}
		_ = h.Close()
		made.Range(func(f, _ any) bool {
			if n := f.(*fake).openSessions(); n != 0 {
				t.Errorf("%d sessions are open", n)
			}
			return true
		})
	}
}

func TestAServerThatEndsItsSessionsAtOnce(t *testing.T) {
	eachWay(t, func(t *testing.T, r route, era protocol.Era) {
		f := whoami()
		h := host(t, f, nil)
		c := open(t, r.open(t, h), era, named("c"))
		f.refuses.Store(true)
		for range 3 {
			hostedtest.CallTool(t, c, "whoami") // the fake answers, or the call fails
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if n := len(f.sessions); n > 20 {
			t.Errorf("%d sessions were opened for 3 calls", n)
		}
	})
}

func TestASourceThatHangsEndsWithItsRequest(t *testing.T) {
	var calls atomic.Int32
	h, err := hosted.New(func(ctx context.Context, _ *hosted.Caller) (hosted.Peer, error) {
		if calls.Add(1) == 1 {
			return nil, errors.New("log in first")
		}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}, &hosted.Options{Server: server.Options{Info: protocol.Implementation{Name: "slow"}}})
	noError(t, err)
	c := open(t, h.Server(), protocol.Modern, named("c"))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.CallTool(ctx, "whoami", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	for _, p := range []protocol.Principal{{}, {Subject: "ann"}} { // both kept and not kept
		go func() { _, _ = c.CallTool(server.WithPrincipal(context.Background(), p), "a", nil) }()
	}
	for calls.Load() < 4 {
		time.Sleep(time.Millisecond)
	}
	_ = h.Close() // does not wait for the handlers
}

type tokenKey struct{}

// A server that makes an upstream client for each session uses the caller's values.
func TestASessionBeginsWithTheValuesOfItsRequest(t *testing.T) {
	var tokens []any
	f := whoami()
	f.answers["initialize"] = func(ctx context.Context, _ *fakeCall) (string, error) {
		tokens = append(tokens, ctx.Value(tokenKey{}))
		return "", nil
	}
	h := host(t, f, nil)
	c := open(t, h.Server(), protocol.Modern, named("c"))
	for _, user := range []string{"ann", "bob", "ann"} {
		ctx := context.WithValue(server.WithPrincipal(t.Context(),
			protocol.Principal{Subject: user}), tokenKey{}, user)
		if _, err := c.CallTool(ctx, "whoami", nil); err != nil {
			t.Fatal(err)
		}
	}
	if want := []any{nil, "ann", "bob"}; !slices.Equal(tokens, want) { // nil describes the server
		t.Errorf("got %v, want %v", tokens, want)
	}
}
