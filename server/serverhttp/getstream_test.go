package serverhttp_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/server/serverhttp"
)

const newTools = "notifications/tools/list_changed"

// TestGetStream holds that what relates to no request reaches the client once,
// on whichever GET stream is the newest that is open.
func TestGetStream(t *testing.T) {
	srv, _ := legacyServer(t, nil)
	ts, _ := serve(t, srv, nil)
	c := openSession(t, ts, "2025-11-25")
	f := c.listen("")
	addTool(srv, "a")
	f.expect(newTools)
	g := c.listen("")
	addTool(srv, "b")
	g.expect(newTools)
	g.drop()
	addTool(srv, "c") // whether the server knows by now that g is gone or not
	h := c.listen(g.LastEventID())
	addTool(srv, "d")
	h.expect(newTools)
}

// TestGetStreamKeeps holds that news wait for somebody to listen, once each.
func TestGetStreamKeeps(t *testing.T) {
	srv, _ := legacyServer(t, nil)
	ts, _ := serve(t, srv, nil)
	c := openSession(t, ts, "2025-11-25")
	for i := range 20 {
		addTool(srv, fmt.Sprint("a", i))
	}
	srv.ResourceUpdated("test://a") // not subscribed to
	f := c.listen("")
	f.expect(newTools)
	f.drop()
	if got := read(t, c.post(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"test://a"}}`)); got.Error != nil {
		t.Fatal(got.body)
	}
	srv.ResourceUpdated("test://a")
	g := c.listen(f.LastEventID())
	news := g.next()
	for strings.Contains(news.raw, newTools) { // of the last ones, which whoever tells the news saw only now
		news = g.next()
	}
	if !strings.Contains(news.raw, "test://a") {
		t.Errorf("got %s, want news of the resource", news.raw)
	}
}

// TestGetStreamMoves holds that news which a broken stream was never given go
// to the next that is opened anew.
func TestGetStreamMoves(t *testing.T) {
	log := serverhttp.NewLog(1<<20, 1<<20)
	first := log.Listen()
	log.Say("a")
	if got := first.Take(); got != "a" {
		t.Errorf("got %q", got)
	}
	first.Drop()
	log.Say("b")
	log.Say("c")
	second := log.Listen()
	if got := second.Take(); got != "b c" {
		t.Errorf("got %q", got)
	}
	log.Say("d")
	third := log.Listen()
	log.Say("e")
	if a, b := second.Take(), third.Take(); a != "d" || b != "e" {
		t.Errorf("got %q and %q, want the older to stay open and the newer to get the news", a, b)
	}
	third.Drop()
	log.Say("f")
	if got := second.Take(); got != "f" {
		t.Errorf("got %q, want the news on the one that is open", got)
	}
}

// TestGetStreams holds that there are only so many.
func TestGetStreams(t *testing.T) {
	srv, _ := legacyServer(t, nil)
	ts, _ := serve(t, srv, nil)
	c := openSession(t, ts, "2025-06-18")
	var flows []*flow
	for range 6 {
		flows = append(flows, c.listen(""))
	}
	flows[0].end()
	flows[1].end()
	addTool(srv, "x")
	flows[5].expect(newTools)
}

// TestGetStreamKeepAlive holds that a quiet stream gets comments, and that
// writing has a deadline.
func TestGetStreamKeepAlive(t *testing.T) {
	srv, steps := legacyServer(t, nil)
	ts, _ := serve(t, srv, &serverhttp.Options{KeepAlive: time.Millisecond})
	c := openSession(t, ts, "2025-06-18")
	for name, f := range map[string]*flow{"GET": c.listen(""), "POST": c.callFlow(1, "wait")} {
		buf := make([]byte, 64)
		for comments := 0; comments < 5; {
			n, err := f.response.Body.Read(buf)
			if err != nil || strings.Trim(string(buf[:n]), ":\n") != "" {
				t.Fatalf("%s: got %q, %v, want comments", name, buf[:n], err)
			}
			comments += strings.Count(string(buf[:n]), ":")
		}
	}
	<-steps.entered
	steps.allow <- struct{}{}
}

// TestLogBounds adds events in every state and holds the books against what is
// there.
func TestLogBounds(t *testing.T) {
	log := serverhttp.NewLog(3000, 1<<20)
	for i := range 100 {
		if err := log.Say(fmt.Sprintf("%0100d", i)); err != nil {
			t.Fatal(err)
		}
		if log.Used() > 3000 {
			t.Fatalf("%d bytes are kept, want at most 3000", log.Used())
		}
	}
	c := log.Listen()
	if got := strings.Fields(c.Take()); len(got) < 10 || !strings.HasSuffix(got[len(got)-1], "99") {
		t.Errorf("got %d events, want the last 10 or more", len(got))
	}
	log.End()
	if log.Used() != 0 {
		t.Errorf("%d bytes are kept after the end", log.Used())
	}
	if err := log.Say("late"); err == nil {
		t.Error("something is said after the end")
	}
}

// TestLogTotal has streams that have ended make room for others, unless they
// are being sent.
func TestLogTotal(t *testing.T) {
	log := serverhttp.NewLog(1<<20, 5000)
	slow := log.Post()
	if err := slow.Send(t.Context(), strings.Repeat("a", 1000)); err != nil {
		t.Fatal(err)
	}
	slow.Finish("response")
	for range 100 {
		c := log.Post()
		if err := c.Send(t.Context(), strings.Repeat("b", 1000)); err != nil {
			t.Fatal(err)
		}
		c.Take()
		c.Finish("response")
		c.Take()
		c.Drop()
		if log.Used() > 5000 {
			t.Fatalf("%d bytes are kept, want at most 5000", log.Used())
		}
	}
	if got := strings.Fields(slow.Take()); len(got) != 2 || got[1] != "response" {
		t.Errorf("got %d events on the stream that was open", len(got))
	}
	slow.Drop()
}

// TestLogKeepsUnsent holds that the bounds are not kept at the cost of a client
// that is there, and are of one that is not.
func TestLogKeepsUnsent(t *testing.T) {
	for name, log := range map[string]serverhttp.Log{
		"session": serverhttp.NewLog(2000, 1<<20), "total": serverhttp.NewLog(1<<20, 2000),
	} {
		c := log.Post()
		for range 10 {
			if err := c.Send(t.Context(), strings.Repeat("a", 500)); err != nil {
				t.Fatal(err)
			}
		}
		if got := len(strings.Fields(c.Take())); got != 10 {
			t.Errorf("%s: got %d events, want all 10", name, got)
		}
		c.Drop()
		for range 10 {
			if err := c.Send(t.Context(), strings.Repeat("a", 500)); err != nil {
				t.Fatal(err)
			}
			if log.Used() > 2000 {
				t.Errorf("%s: %d bytes are kept, want at most 2000", name, log.Used())
			}
		}
	}
}

// TestLogWaits holds that a handler waits for a client that is slow, and not
// for one that is gone.
func TestLogWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := serverhttp.NewLog(1<<30, 1<<30)
		c := log.Post()
		said := 0
		go func() {
			for range 30 {
				if err := c.Send(t.Context(), strings.Repeat("a", 10<<10)); err != nil {
					t.Error(err)
				}
				said++
			}
		}()
		synctest.Wait()
		if said != 7 {
			t.Errorf("%d events were said before any was taken, want 7", said)
		}
		c.Take()
		synctest.Wait()
		if said != 14 {
			t.Errorf("%d events were said, want 14", said)
		}
		c.Drop()
		synctest.Wait()
		if said != 30 {
			t.Errorf("%d events were said, want all", said)
		}
		ctx, cancel := context.WithCancel(t.Context())
		d := log.Post()
		if err := d.Send(ctx, strings.Repeat("a", 100<<10)); err != nil {
			t.Error(err)
		}
		cancel()
		if err := d.Send(ctx, "a"); err == nil {
			t.Error("a message is taken for a slow client although the request has ended")
		}
	})
}

// TestBatchMakesRoom: responses of a batch wait for the last of them. What would
// be said while a large one waits must not wait for what that makes: it makes
// events of both.
func TestBatchMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serverhttp.NewLog(1<<20, 1<<20).PostBatch(2)
		large := strings.Repeat("x", 1<<17)
		c.Finish(large)
		sent := make(chan error, 1)
		go func() { sent <- c.Send(t.Context(), "question") }()
		synctest.Wait()
		if got := c.Take(); got != large {
			t.Errorf("got %d bytes, want the response", len(got))
		}
		synctest.Wait()
		select {
		case err := <-sent:
			if got := c.Take(); got != "question" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		default:
			t.Error("the question waits for room")
		}
		c.Drop()
	})
}
