package replay_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/internal/wire/replay"
)

var (
	noError   = testkit.NoError
	wantIs    = testkit.WantIs
	wantEqual = testkit.WantEqual
)

func TestMain(m *testing.M) { testkit.Main(m) }

type testLog struct {
	*replay.Log
	account account
}

type account struct{ pool *quota.Pool[string] }

func (a account) ForceTake(n int64)         { a.pool.ForceTake("owner", n) }
func (a account) Give(n int64)              { a.pool.Give("owner", n) }
func (a account) FindExceeded() quota.Limit { return a.pool.FindExceeded("owner") }

func newLog(perLog, total int64) testLog {
	a := account{quota.New(quota.Options[string]{Total: total, Share: -1})}
	return testLog{replay.NewLog(replay.LogOptions{Shared: replay.NewShared(perLog, 5*time.Minute),
		Account: a, Tag: "t"}), a}
}

func (l testLog) used() int64              { return l.account.pool.Used() }
func (l testLog) say(message string) error { return l.SendUnrelated([]byte(message), false) }

// A testReader reads a stream and writes to it like a handler.
type testReader struct {
	*replay.Reader
	stream *replay.Stream // nil for a listener
}

func (l testLog) listen(t *testing.T) testReader {
	r := replay.NewReader()
	noError(t, l.Listen(r))
	return testReader{r, nil}
}

func (l testLog) openPost(requests int) testReader {
	r := replay.NewReader()
	return testReader{r, l.OpenStream(requests, r)}
}

// take returns the next events, separated by spaces.
func (r testReader) take() string { return string(bytes.Join(r.Next().Events, []byte(" "))) }

func (r testReader) send(ctx context.Context, message string) error {
	return r.stream.Send(ctx, []byte(message))
}

func (r testReader) respond(response string) { r.stream.Respond([]byte(response)) }

// Messages that a broken stream did not deliver go to the next new stream.
func TestUnsentMessagesMoveToTheNextListener(t *testing.T) {
	log := newLog(1<<20, 1<<20)
	first := log.listen(t)
	log.say("a")
	wantEqual(t, "the first is given", first.take(), "a")
	first.Detach()
	log.say("b")
	log.say("c")
	second := log.listen(t)
	wantEqual(t, "the second is given", second.take(), "b c")
	log.say("d")
	third := log.listen(t)
	log.say("e")
	if a, b := second.take(), third.take(); a != "d" || b != "e" {
		t.Errorf("got %q and %q, want the older to stay open and the newer to get the news", a, b)
	}
	third.Detach()
	log.say("f")
	wantEqual(t, "the one that is open is given", second.take(), "f")
}

// Events are added in every state, and the accounts compared with the memory.
func TestALogKeepsItsBound(t *testing.T) {
	log := newLog(3000, 1<<20)
	for i := range 100 {
		noError(t, log.say(fmt.Sprintf("%0100d", i)))
		if log.used() > 3000 {
			t.Fatalf("%d bytes are kept, want at most 3000", log.used())
		}
	}
	c := log.listen(t)
	if got := strings.Fields(c.take()); len(got) < 10 || !strings.HasSuffix(got[len(got)-1], "99") {
		t.Errorf("got %d events, want the last 10 or more", len(got))
	}
	log.End()
	wantEqual(t, "bytes kept after the end", log.used(), int64(0))
	if err := log.say("late"); err == nil {
		t.Error("something is said after the end")
	}
}

// Ended streams make room for others, unless they are being sent.
func TestEndedStreamsMakeRoomForOtherLogs(t *testing.T) {
	log := newLog(1<<20, 5000)
	slow := log.openPost(1)
	noError(t, slow.send(t.Context(), strings.Repeat("a", 1000)))
	slow.respond("response")
	for range 100 {
		c := log.openPost(1)
		noError(t, c.send(t.Context(), strings.Repeat("b", 1000)))
		c.take()
		c.respond("response")
		c.take()
		c.Detach()
		if log.used() > 5000 {
			t.Fatalf("%d bytes are kept, want at most 5000", log.used())
		}
	}
	if got := strings.Fields(slow.take()); len(got) != 2 || got[1] != "response" {
		t.Errorf("got %d events on the stream that was open", len(got))
	}
	slow.Detach()
}

// A connected client loses nothing to the bounds, but a disconnected one may.
func TestWhatAnAttachedReaderHasYetToSendStays(t *testing.T) {
	for name, log := range map[string]testLog{
		"session": newLog(2000, 1<<20), "total": newLog(1<<20, 2000),
	} {
		t.Run(name, func(t *testing.T) {
			c := log.openPost(1)
			for range 10 {
				noError(t, c.send(t.Context(), strings.Repeat("a", 500)))
			}
			wantEqual(t, name+": events", len(strings.Fields(c.take())), 10)
			c.Detach()
			for range 10 {
				noError(t, c.send(t.Context(), strings.Repeat("a", 500)))
				if log.used() > 2000 {
					t.Errorf("%s: %d bytes are kept, want at most 2000", name, log.used())
				}
			}
		})
	}
}

// A handler waits for a slow client, not for a disconnected one.
func TestSendWaitsForASlowReaderOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog(1<<30, 1<<30)
		c := log.openPost(1)
		said := 0
		go func() {
			for range 30 {
				if err := c.send(t.Context(), strings.Repeat("a", 10<<10)); err != nil {
					t.Error(err)
				}
				said++
			}
		}()
		synctest.Wait()
		wantEqual(t, "events said before any was taken", said, 7)
		c.take()
		synctest.Wait()
		wantEqual(t, "events said", said, 14)
		c.Detach()
		synctest.Wait()
		wantEqual(t, "events said in the end", said, 30)
		ctx, cancel := context.WithCancel(t.Context())
		d := log.openPost(1)
		if err := d.send(ctx, strings.Repeat("a", 100<<10)); err != nil {
			t.Error(err)
		}
		cancel()
		if err := d.send(ctx, "a"); err == nil {
			t.Error("a message is taken for a slow client although the request has ended")
		}
	})
}

// Responses of a batch wait for the last one. A full queue must not block handlers: the response
// becomes a stream.
func TestABatchThatFillsTheQueueBecomesEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newLog(1<<20, 1<<20).openPost(2)
		large := strings.Repeat("x", 1<<17)
		c.respond(large)
		sent := make(chan error, 1)
		go func() { sent <- c.send(t.Context(), "question") }()
		synctest.Wait()
		if got := c.take(); got != large {
			t.Errorf("got %d bytes, want the response", len(got))
		}
		synctest.Wait()
		select {
		case err := <-sent:
			if got := c.take(); got != "question" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		default:
			t.Error("the question waits for room")
		}
		c.Detach()
	})
}

func TestAClientResumesAfterTheLastEventItReceived(t *testing.T) {
	log := newLog(1<<20, 1<<20)
	c := log.openPost(1)
	for _, message := range []string{"one", "two"} {
		noError(t, c.send(t.Context(), message))
	}
	batch := c.Next()
	want := "id: t-1-1\ndata: one\n\nid: t-1-2\ndata: two\n\n"
	wantEqual(t, "the batch", string(batch.AppendSSE(nil, false, false)), want)
	c.Detach()
	c.respond("response")
	for id, want := range map[string]string{
		"t-1-0": "one two response", "t-1-1": "two response", "t-1-2": "response", "t-1-3": "",
	} {
		r := testReader{Reader: replay.NewReader()}
		if err := log.Resume(id, r.Reader); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		wantEqual(t, "sent after "+id, r.take(), want)
		r.Detach()
	}
	for _, id := range []string{"", "t-1-4", "t-2-0", "u-1-1", "t-01-1", "t-1", "t-1-+1"} {
		wantIs(t, "resuming after "+id, log.Resume(id, replay.NewReader()), replay.ErrUnknownEvent)
	}
}

func TestAReaderThatIsReplacedSendsNothingMore(t *testing.T) {
	log := newLog(1<<20, 1<<20)
	first := log.openPost(1)
	noError(t, first.send(t.Context(), "one"))
	second := replay.NewReader()
	noError(t, log.Resume("t-1-0", second))
	if batch := first.Next(); !batch.Over || len(batch.Events) != 0 {
		t.Errorf("the first reader is given %q, over %t", batch.Events, batch.Over)
	}
	first.Detach()
	wantEqual(t, "the second reader is given", (testReader{Reader: second}).take(), "one")
	second.Detach()
}

func TestAStreamThatHasEndedIsForgottenAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog(1<<20, 1<<20)
		c := log.openPost(1)
		noError(t, c.send(t.Context(), "question"))
		c.Detach()
		c.respond("response")
		time.Sleep(4 * time.Minute)
		r := testReader{Reader: replay.NewReader()}
		noError(t, log.Resume("t-1-0", r.Reader))
		time.Sleep(2 * time.Minute) // due while being read
		wantEqual(t, "the reader is given", r.take(), "question response")
		r.Detach()
		wantIs(t, "resuming afterwards", log.Resume("t-1-0", replay.NewReader()),
			replay.ErrUnknownEvent)
		wantEqual(t, "bytes kept", log.used(), int64(0))
	})
}

// Time alone ends an unread stream.
func TestAStreamThatNobodyReadsIsForgottenWhenDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog(1<<20, 1<<20)
		c := log.openPost(1)
		noError(t, c.send(t.Context(), "question"))
		c.Detach()
		c.respond("response")
		time.Sleep(5*time.Minute - time.Nanosecond)
		synctest.Wait()
		if log.used() == 0 {
			t.Error("the stream was forgotten early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		wantEqual(t, "bytes kept", log.used(), int64(0))
		wantIs(t, "resuming afterwards", log.Resume("t-1-0", replay.NewReader()),
			replay.ErrUnknownEvent)
	})
}

// Shared must not keep the streams of an ended log.
func TestAnEndedLogLeavesNothingInItsStore(t *testing.T) {
	a := account{quota.New(quota.Options[string]{Total: 1 << 20, Share: -1})}
	store := replay.NewShared(1<<20, time.Hour)
	defer store.Stop()
	endLog := func() (kept weak.Pointer[replay.Stream]) {
		log := testLog{replay.NewLog(replay.LogOptions{Shared: store, Account: a, Tag: "t"}), a}
		c := log.openPost(1)
		noError(t, c.send(t.Context(), "question"))
		c.Detach()
		c.respond("response")
		log.End()
		return weak.Make(c.stream)
	}
	kept := endLog()
	if runtime.GC(); kept.Value() != nil {
		t.Error("the store keeps a stream of a log that has ended")
	}
	runtime.KeepAlive(store)
}

func TestATransientMessageGivesWayToAnEvent(t *testing.T) {
	log := newLog(1<<20, 1<<20)
	c := log.openPost(1)
	c.stream.SendTransient([]byte("beat 1"))
	c.stream.SendTransient([]byte("beat 2"))
	wantEqual(t, "the second alone and without an id",
		string(c.Next().AppendSSE(nil, false, false)), "data: beat 2\n\n")
	c.stream.SendTransient([]byte("beat 3"))
	c.respond("response")
	wantEqual(t, "the response alone", string(c.Next().AppendSSE(nil, false, false)),
		"id: t-1-1\ndata: response\n\n")
	c.Detach()
	c.stream.SendTransient([]byte("beat 4")) // without a reader it is dropped
}

func TestTheZeroLogKeepsNothing(t *testing.T) {
	log := testLog{Log: &replay.Log{}}
	c := log.openPost(1)
	noError(t, c.send(t.Context(), "one"))
	wantEqual(t, "without an id", string(c.Next().AppendSSE(nil, false, false)), "data: one\n\n")
	c.Detach()
	wantIs(t, "sending without a reader", c.send(t.Context(), "two"), replay.ErrUnreachable)
}

func FuzzResume(f *testing.F) {
	for _, seed := range []string{
		"t-1-0", "t-1-1", "t-01-1", "t-1", "t-1-18446744073709551615", "t-1-1-1", "-1-1", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, id string) {
		log := newLog(1<<20, 1<<20)
		c := log.openPost(1)
		noError(t, c.send(t.Context(), "one"))
		err := log.Resume(id, replay.NewReader())
		if known := id == "t-1-0" || id == "t-1-1"; known != (err == nil) {
			t.Errorf("%q: got %v", id, err)
		}
	})
}
