package natsbus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/rondo-mcp/rondo/elicitation"
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

const key = "q.1"

func newScene(t *testing.T, more ...func(*natsserver.Options)) *scene {
	t.Helper()
	url := natstest.Start(t, t.TempDir(), 0, more...).ClientURL()
	s := &scene{a: open(t, natstest.Connect(t, url), nil), b: open(t, natstest.Connect(t, url), nil), slow: make(chan struct{})}
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

// say sends frames to a and returns its answer, "" for none. The stranger
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
	m, err := sub.NextMsg(200 * time.Millisecond)
	if err != nil {
		return ""
	}
	return string(m.Data)
}

func TestHostileQuestions(t *testing.T) {
	s := newScene(t)
	refused, moved := string(natsbus.NewAnswer(4, 0, 1, nil)), string(natsbus.NewAnswer(2, 0, 1, nil))
	half := make([]byte, 1000<<10)
	for i, test := range []struct {
		name   string
		frames [][]byte
		want   string
	}{
		{"garbage", [][]byte{[]byte("garbage")}, refused},
		{"nothing", [][]byte{nil}, refused},
		{"an older revision", [][]byte{natsbus.NewQuestion(0, 1, 1, key, nil)}, moved},
		{"the second part first", [][]byte{natsbus.NewQuestion(1, 2, 1, key, nil)}, refused},
		{"a part twice", [][]byte{natsbus.NewQuestion(0, 3, 1, key, nil), natsbus.NewQuestion(0, 3, 1, key, nil)}, refused},
		{"another number of parts", [][]byte{natsbus.NewQuestion(0, 3, 1, key, nil), natsbus.NewQuestion(1, 2, 1, key, nil)}, refused},
		{"too long", [][]byte{natsbus.NewQuestion(0, 4, 1, key, half), natsbus.NewQuestion(1, 4, 1, key, half), natsbus.NewQuestion(2, 4, 1, key, half)}, refused},
	} {
		if got := s.say(t, i, test.frames...); got != test.want {
			t.Errorf("%s: answered %x, want %x", test.name, got, test.want)
		}
	}
	s.works(t)
}

// TestReplySubjects are not the sender's to choose: this replica may be allowed
// to publish where the sender is not.
func TestReplySubjects(t *testing.T) {
	s := newScene(t)
	sub, err := s.stranger.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	for _, reply := range []string{
		"elsewhere", "$JS.API.STREAM.DELETE.KV_rondo_bus", natsbus.DefaultPrefix + ".a.short", s.reply + "UPPER",
		s.reply + token(1) + ".more", s.reply + token(1)[1:], s.subject, natsbus.DefaultPrefix + "xa." + token(1) + "." + token(2),
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
		if m.Subject != s.subject && !strings.HasPrefix(m.Subject, s.reply) && !strings.HasPrefix(m.Subject, "$JS.API.DIRECT") &&
			!strings.HasPrefix(m.Subject, "$JS.API.STREAM.MSG.GET") && !strings.HasPrefix(m.Subject, "_INBOX.") &&
			!strings.HasPrefix(m.Subject, "$KV.") && !strings.HasPrefix(m.Subject, "$JS.EVENT.") {
			t.Errorf("something was published on %s", m.Subject)
		}
	}
}

// TestUnfinishedMessages do not fill the owner's memory: beyond a few it says
// that it is busy, and messages in one part go on.
func TestUnfinishedMessages(t *testing.T) {
	s := newScene(t)
	first := natsbus.NewQuestion(0, 2, 1, key, []byte("x"))
	for i := range natsbus.MaxPartial {
		if err := s.stranger.PublishRequest(s.subject, s.reply+token(i), first); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := s.say(t, 1000, first), string(natsbus.NewAnswer(3, 0, 1, nil)); got != want {
		t.Errorf("answered %x, want %x", got, want)
	}
	s.works(t)
}

// TestBusyOwner refuses what it cannot answer at the moment, and says so.
func TestBusyOwner(t *testing.T) {
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

// TestForgedAnswers need the token of a question that waits, which is not to be
// guessed; garbage under a true one is an error and not an answer.
func TestForgedAnswers(t *testing.T) {
	s := newScene(t)
	defer close(s.slow)
	forged := natsbus.NewAnswer(1, 0, 1, []byte("forged"))
	if err := s.stranger.Publish(s.reply+token(1), forged); err != nil {
		t.Fatal(err)
	}
	s.works(t)

	for name, frame := range map[string][]byte{"garbage": []byte("garbage"), "refusal": natsbus.NewAnswer(4, 0, 1, nil), "parts": natsbus.NewAnswer(1, 1, 2, nil)} {
		sub, err := s.stranger.SubscribeSync(s.subject)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.stranger.Flush(); err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		go func() {
			_, err := s.b.Send(t.Context(), key, []byte("slow"))
			failed <- err
		}()
		m, err := sub.NextMsg(natstest.Patience)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.stranger.Publish(m.Reply, frame); err != nil {
			t.Fatal(err)
		}
		if err := <-failed; err == nil || errors.Is(err, elicitation.ErrUnclaimed) || errors.Is(err, elicitation.ErrOwnerGone) {
			t.Errorf("%s: got %v, want an error that leaves open whether it was handled", name, err)
		}
		_ = sub.Unsubscribe()
	}
}

// TestMeddledDirectory gives errors, not answers.
func TestMeddledDirectory(t *testing.T) {
	s := newScene(t)
	js := natstest.Connect(t, s.stranger.ConnectedUrl())
	kv, err := js.KeyValue(t.Context(), natsbus.DefaultBucket)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := kv.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if strings.Contains(k, key) {
			t.Errorf("the directory shows key %q", k)
		}
		if !strings.HasPrefix(k, "c.") {
			continue
		}
		for _, value := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte{2}, 33), bytes.Repeat([]byte{1}, 34)} {
			if _, err := kv.Put(t.Context(), k, value); err != nil {
				t.Fatal(err)
			}
			if _, err := s.b.Send(t.Context(), key, nil); err == nil || errors.Is(err, elicitation.ErrUnclaimed) {
				t.Errorf("claim %x: %v", value, err)
			}
			if err := s.b.Claim(t.Context(), key, time.Hour); err == nil {
				t.Errorf("claim %x is taken over", value)
			}
		}
	}
}

// TestSmallPayload sends the longest messages over a server that takes short
// ones.
func TestSmallPayload(t *testing.T) {
	s := newScene(t, func(o *natsserver.Options) { o.MaxPayload = 8 << 10 })
	message := bytes.Repeat([]byte("0123456789abcdef"), (elicitation.MaxBusMessage-16)/16)
	got, err := s.b.Send(t.Context(), key, message)
	if err != nil || !bytes.Equal(got, append([]byte("got "), message...)) {
		t.Errorf("%d bytes come back as %d, %v", len(message), len(got), err)
	}
	// The answer is four bytes longer than the message.
	if _, err := s.b.Send(t.Context(), key, make([]byte, elicitation.MaxBusMessage)); err == nil {
		t.Error("too long an answer is sent")
	}
}
