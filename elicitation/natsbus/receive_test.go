package natsbus_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/rondo-mcp/rondo/elicitation/natsbus"
	"github.com/rondo-mcp/rondo/internal/natstest"
)

// A scene is two replicas, a and b, and somebody else in the same account.
type scene struct {
	a, b     mortal
	stranger *nats.Conn
	subject  string // of questions to a
	reply    string // that b used last, without its last word
	slow     chan struct{}
}

func newScene(t *testing.T, more ...func(*natsserver.Options)) *scene {
	t.Helper()
	url := natstest.Start(t, t.TempDir(), 0, more...).ClientURL()
	s := &scene{
		a: open(t, natstest.Connect(t, url), nil), b: open(t, natstest.Connect(t, url), nil),
		slow: make(chan struct{}),
	}
	s.stranger = natstest.Connect(t, url).Conn()
	for _, bus := range []mortal{s.a, s.b} {
		err := bus.Listen(func(_ context.Context, _ string, message []byte) []byte {
			if string(message) == "slow" {
				<-s.slow
			}
			return append([]byte("got "), message...)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.a.Claim(t.Context(), key, time.Hour); err != nil {
		t.Fatal(err)
	}
	// One honest question shows the subjects.
	sub, err := s.stranger.SubscribeSync(natsbus.DefaultPrefix + ".q.*")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.stranger.Flush(); err != nil {
		t.Fatal(err)
	}
	s.works(t)
	m, err := sub.NextMsg(natstest.Patience)
	if err != nil {
		t.Fatal(err)
	}
	_ = sub.Unsubscribe()
	s.subject, s.reply = m.Subject, m.Reply[:strings.LastIndexByte(m.Reply, '.')+1]
	return s
}

// works wants b to reach a.
func (s *scene) works(t *testing.T) {
	t.Helper()
	got, err := s.b.Send(t.Context(), key, []byte("hello"))
	if err != nil || string(got) != "got hello" {
		t.Fatalf("got %q, %v", got, err)
	}
}

// token is a last word for a reply subject.
func token(i int) string { return fmt.Sprintf("%032x", i) }

// say sends frames to a and returns its answer. The stranger
// listens in on b's replies, which only its own account can.
func (s *scene) say(t *testing.T, i int, frames ...[]byte) string {
	t.Helper()
	sub, err := s.stranger.SubscribeSync(s.reply + token(i))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	for _, f := range frames {
		if err := s.stranger.PublishRequest(s.subject, s.reply+token(i), f); err != nil {
			t.Fatal(err)
		}
	}
	m, err := sub.NextMsg(natstest.Patience)
	if err != nil {
		t.Fatal(err)
	}
	return string(m.Data)
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	s := newScene(t)
	refused := string(natsbus.EncodeResponse(4, 0, 1, nil))
	moved := string(natsbus.EncodeResponse(2, 0, 1, nil))
	part := func(part, parts uint16, chunk []byte) []byte {
		return natsbus.EncodeRequest(part, parts, 1, key, chunk)
	}
	half := make([]byte, 1000<<10)
	for i, test := range []struct {
		name   string
		frames [][]byte
		want   string
	}{
		{"garbage", [][]byte{[]byte("garbage")}, refused},
		{"nothing", [][]byte{nil}, refused},
		{"an older revision", [][]byte{part(0, 1, nil)}, moved},
		{"the second part first", [][]byte{part(1, 2, nil)}, refused},
		{"a part twice", [][]byte{part(0, 3, nil), part(0, 3, nil)}, refused},
		{"a part about another key", [][]byte{
			part(0, 2, nil), natsbus.EncodeRequest(1, 2, 1, "q.2", nil),
		}, refused},
		{"a part for another claim", [][]byte{
			part(0, 2, nil), natsbus.EncodeRequest(1, 2, 2, key, nil),
		}, refused},
		{"another number of parts", [][]byte{part(0, 3, nil), part(1, 2, nil)}, refused},
		{"too long", [][]byte{part(0, 4, half), part(1, 4, half), part(2, 4, half)}, refused},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := s.say(t, i, test.frames...); got != test.want {
				t.Errorf("answered %x, want %x", got, test.want)
			}
		})
	}
	s.works(t)
}

// TestReplySubjectIsNotForTheSender's to choose: this replica may be allowed
// to publish where the sender is not.
func TestSenderCannotChooseReplySubject(t *testing.T) {
	s := newScene(t)
	sub, err := s.stranger.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	for _, reply := range []string{
		"elsewhere", "$JS.API.STREAM.DELETE.KV_rondo_bus", s.subject,
		natsbus.DefaultPrefix + ".a.short", s.reply + "UPPER",
		s.reply + token(1) + ".more", s.reply + token(1)[1:],
		natsbus.DefaultPrefix + "xa." + token(1) + "." + token(2),
		natsbus.DefaultPrefix + ".a." + token(1) + "." + strings.Repeat("X", 32),
		natsbus.DefaultPrefix + ".a." + strings.Repeat("/", 32) + "." + token(2),
		natsbus.DefaultPrefix + ".a." + token(1) + "." + strings.Repeat("g", 32),
		natsbus.DefaultPrefix + ".a." + token(1) + "x" + token(2),
	} {
		if err := s.stranger.PublishRequest(s.subject, reply, []byte("garbage")); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.stranger.Publish(s.subject, []byte("garbage")); err != nil {
		t.Fatal(err)
	}
	s.works(t) // after all of them, as questions are handled in order
	for {
		m, err := sub.NextMsg(100 * time.Millisecond)
		if err != nil {
			break
		}
		mayUse := func(prefix string) bool { return strings.HasPrefix(m.Subject, prefix) }
		if m.Subject != s.subject && !slices.ContainsFunc([]string{
			s.reply, "$JS.API.DIRECT", "$JS.API.STREAM.MSG.GET", "_INBOX.", "$KV.", "$JS.EVENT.",
		}, mayUse) {
			t.Errorf("something was published on %s", m.Subject)
		}
	}
}

// TestIncompleteMessagesAreBounded do not fill the owner's memory: beyond a few it says
// that it is busy, and messages in one part go on.
func TestIncompleteMessagesAreBounded(t *testing.T) {
	s := newScene(t)
	first := natsbus.EncodeRequest(0, 2, 1, key, []byte("x"))
	for i := range natsbus.MaxPartials {
		if err := s.stranger.PublishRequest(s.subject, s.reply+token(i), first); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := s.say(t, 1000,
		first), string(natsbus.EncodeResponse(3, 0, 1, nil)); got != want {
		t.Errorf("answered %x, want %x", got, want)
	}
	s.works(t)
}

// TestBusyOwnerRefuses refuses what it cannot answer at the moment, and says so.
func TestBusyOwnerRefuses(t *testing.T) {
	s := newScene(t)
	release := sync.OnceFunc(func() { close(s.slow) })
	t.Cleanup(release) // before the buses close
	const some = 20
	done := make(chan error, natsbus.MaxAnswering+some)
	for range natsbus.MaxAnswering + some {
		go func() {
			_, err := s.b.Send(t.Context(), key, []byte("slow"))
			done <- err
		}()
	}
	for i := range natsbus.MaxAnswering + some {
		err := <-done
		if i == some-1 { // all others are being answered
			release()
		}
		switch {
		case i < some && (err == nil || !strings.Contains(err.Error(), "too much to do")):
			t.Errorf("got %v, want that the owner is busy", err)
		case i >= some && err != nil:
			t.Error(err)
		}
	}
	natstest.Eventually(t, "the owner has time again", func() bool {
		_, err := s.b.Send(t.Context(), key, nil)
		return err == nil
	})
}
