package upstream_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/naming"
	"github.com/rondo-mcp/rondo/internal/upstream"
	"github.com/rondo-mcp/rondo/protocol"
)

// A stubConn is a connection that may have ended from the start.
type stubConn struct {
	ended  bool
	closed chan struct{} // gets a value with Close
}

func (c *stubConn) HasEnded() bool             { return c.ended }
func (*stubConn) IsAlive(context.Context) bool { return true }
func (c *stubConn) Close()                     { c.closed <- struct{}{} }

// TestSharedConnectionsThatCannotBeHad: the call gets an error, and the upstream is not asked for
// ever.
func TestSharedConnectionsThatCannotBeHad(t *testing.T) {
	opened := 0
	for name, test := range map[string]struct {
		open func() *stubConn
		want string
		most int // connections
	}{
		"ended at once": {func() *stubConn {
			return &stubConn{ended: true, closed: make(chan struct{}, 8)}
		}, "end as soon as", 2},
		"panics":        {func() *stubConn { panic("no transport") }, "panicked: no transport", 1},
		"panics, alone": {func() *stubConn { panic("no transport") }, "panicked: no transport", 1},
	} {
		t.Run(name, func(t *testing.T) {
			opened = 0
			conns, err := upstream.NewConns(upstream.ConnOptions[*stubConn]{
				Name: "up", Claims: new(naming.Claims),
				Shared: name != "panics, alone",
				Open: func(context.Context, upstream.Modes, string) (*stubConn, error) {
					opened++
					return test.open(), nil
				}})
			if err != nil {
				t.Fatal(err)
			}
			defer conns.Close()
			_, _, err = conns.Acquire(t.Context(), upstream.Modes{}, protocol.Principal{})
			if err == nil || !strings.Contains(err.Error(), test.want) || opened > test.most {
				t.Errorf("got %v after %d connections", err, opened)
			}
		})
	}
	if _, err := upstream.NewConns(upstream.ConnOptions[*stubConn]{MaxWaiting: -1}); err == nil {
		t.Error("a negative limit is taken")
	}
}

// TestASharedConnectionIsReplaced: calls share one until it has ended, which the last of its calls
// closes.
func TestASharedConnectionIsReplaced(t *testing.T) {
	var opened []*stubConn
	lost := 0
	conns, err := upstream.NewConns(upstream.ConnOptions[*stubConn]{
		Name: "up", Claims: new(naming.Claims), Shared: true,
		Open: func(context.Context, upstream.Modes, string) (*stubConn, error) {
			opened = append(opened, &stubConn{closed: make(chan struct{}, 8)})
			return opened[len(opened)-1], nil
		}, Lost: func() { lost++ }})
	if err != nil {
		t.Fatal(err)
	}
	defer conns.Close()
	acquire := func() (*stubConn, func(bool)) {
		conn, release, err := conns.Acquire(t.Context(), upstream.Modes{}, protocol.Principal{})
		if err != nil {
			t.Fatal(err)
		}
		return conn, release
	}
	first, releaseFirst := acquire()
	second, releaseSecond := acquire()
	if first != second || len(opened) != 1 {
		t.Fatalf("%d connections for two calls", len(opened))
	}
	first.ended = true
	releaseFirst(true)
	if third, release := acquire(); third == first || len(opened) != 2 || lost != 0 {
		t.Errorf("%d connections, %d lost, before the last call has ended", len(opened), lost)
	} else {
		release(true)
	}
	if releaseSecond(true); lost != 1 {
		t.Errorf("lost %d, want 1", lost)
	}
	<-first.closed // and is forgotten: the end of all closes the others alone
	conns.Close()
	if len(first.closed) != 0 || len(opened[1].closed) != 1 {
		t.Errorf("the lost connection is closed once more, or the other is not")
	}
}

// TestConnectionsAreSharedUnderOneKey alone. One that nobody uses makes room for another key, but
// that on which lists are read.
func TestConnectionsAreSharedUnderOneKey(t *testing.T) {
	var opened []string
	denied := errors.New("denied")
	conns, err := upstream.NewConns(upstream.ConnOptions[*stubConn]{
		Name: "up", Claims: new(naming.Claims), Shared: true, MaxConnections: 3,
		Key: func(_ context.Context, who protocol.Principal) (string, error) {
			if who.Subject == "mallory" {
				return "", denied
			}
			return who.Subject, nil
		},
		Open: func(_ context.Context, _ upstream.Modes, key string) (*stubConn, error) {
			opened = append(opened, key)
			return &stubConn{closed: make(chan struct{}, 8)}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer conns.Close()
	lists, err := conns.Standing(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	acquire := func(subject string) (*stubConn, func(bool), error) {
		return conns.Acquire(t.Context(), upstream.Modes{}, protocol.Principal{Subject: subject})
	}
	ann, releaseAnn, _ := acquire("ann")
	again, releaseAgain, _ := acquire("ann")
	bob, releaseBob, _ := acquire("bob")
	if ann != again || ann == bob || ann == lists || bob == lists {
		t.Errorf("opened %q", opened)
	}
	releaseAgain(true)
	_, _, err = acquire("carol")
	wire, ok := protocol.AsError(err)
	if !ok || wire.Code != protocol.CodeBusy || len(opened) != 3 {
		t.Errorf("without room: got %v, opened %q", err, opened)
	}
	releaseAnn(true)
	if _, release, err := acquire("carol"); err != nil {
		t.Error(err)
	} else {
		release(true)
	}
	<-ann.closed
	releaseBob(true)
	if same, err := conns.Standing(t.Context()); err != nil || same != lists {
		t.Errorf("the connection of the lists was closed: %v", err)
	}
	if _, _, err := acquire("mallory"); !errors.Is(err, denied) || len(opened) != 4 {
		t.Errorf("without a key: got %v, opened %q", err, opened)
	}
}
