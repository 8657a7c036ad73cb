package serverhttp_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

const newTools = "notifications/tools/list_changed"

// Messages that relate to no request reach the client once, on the newest open GET stream.
func TestGetStream(t *testing.T) {
	c, srv, _ := startSession(t, "2025-11-25")
	f := c.listen("")
	addTool(srv, "a", says("x"))
	f.expect(newTools)
	g := c.listen("")
	addTool(srv, "b", says("x"))
	g.expect(newTools)
	g.drop()
	addTool(srv, "c", says("x")) // whether or not the server has noticed g's disconnect
	h := c.listen(g.LastEventID())
	addTool(srv, "d", says("x"))
	h.expect(newTools)
}

// Messages are kept until a GET stream opens, once each.
func TestGetStreamKeeps(t *testing.T) {
	c, srv, _ := startSession(t, "2025-11-25")
	for i := range 20 {
		addTool(srv, fmt.Sprint("a", i), says("x"))
	}
	srv.ResourceUpdated("test://a") // without a subscription
	f := c.listen("")
	f.expect(newTools)
	f.drop()
	if got := read(t, c.post(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"test://a"}}`)); got.Error != nil {
		t.Fatal(got.body)
	}
	srv.ResourceUpdated("test://a")
	g := c.listen(f.LastEventID())
	news := g.next()
	// the notifier may still be delivering the last ones
	for strings.Contains(news.raw, newTools) {
		news = g.next()
	}
	wantPart(t, "the result", news.raw, "test://a")
}

// GET streams are limited.
func TestGetStreams(t *testing.T) {
	c, srv, _ := startSession(t, "2025-06-18")
	var flows []*flow
	for range 6 {
		flows = append(flows, c.listen(""))
	}
	flows[0].end()
	flows[1].end()
	addTool(srv, "x", says("x"))
	flows[5].expect(newTools)
}

// A quiet stream gets comments, and writes have a deadline.
func TestGetStreamKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, steps := legacyServer(t, nil)
		ts, _ := servePipes(t, srv, nil)
		c := openSession(t, ts, "2025-06-18")
		for name, open := range map[string]func() *flow{
			"GET":  func() *flow { return c.listen("") },
			"POST": func() *flow { return c.callFlow(1, "wait") },
		} {
			f := open()
			buf := make([]byte, 64)
			for comments := 0; comments < 5; {
				n, err := f.response.Body.Read(buf)
				if err != nil || strings.Trim(string(buf[:n]), ":\n") != "" {
					t.Fatalf("%s: got %q, %v, want comments", name, buf[:n], err)
				}
				comments += strings.Count(string(buf[:n]), ":")
			}
			f.drop()
		}
		<-steps.entered
		steps.allow <- struct{}{}
	})
}
