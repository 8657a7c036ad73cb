package server_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

const everyList = `"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true`

// The type listening is one subscription of an in-process client, in a synctest bubble.
type listening struct {
	h      *harness
	id     string        // JSON text
	hold   chan struct{} // nil: the client reads at once; else one value lets it read once
	broken error         // error of sending

	mu   sync.Mutex
	got  []string // what was read: short method names, then URIs
	raw  []string // parameters of these messages
	stop context.CancelFunc
	done chan reply
}

// listen opens a subscription and returns once it is idle.
func (h *harness) listen(ctx context.Context, id, filter string,
	set ...func(*listening)) *listening {
	h.Helper()
	l := &listening{h: h, id: id, done: make(chan reply, 1)}
	for _, f := range set {
		f(l)
	}
	key, err := protocol.ParseID([]byte(id))
	noError(h, err)
	ctx, l.stop = context.WithCancel(ctx)
	req := &protocol.Request{ID: key, Method: protocol.MethodListen,
		Params: json.RawMessage("{" + goodMeta + `,"notifications":{` + filter + `}}`)}
	go func() {
		l.done <- h.read(req, h.serveDelivered(ctx, req, l))
	}()
	synctest.Wait()
	return l
}

func slow(l *listening) { l.hold = make(chan struct{}) }

func (l *listening) Notify(ctx context.Context, n *protocol.Notification) error {
	if l.hold != nil {
		select {
		case l.hold <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return l.broken
	}
	var p struct{ URI string }
	if err := json.Unmarshal(n.Params, &p); err != nil {
		l.h.Errorf("parameters are %q: %v", n.Params, err)
	}
	want := `{"_meta":{"` + protocol.MetaSubscriptionID + `":` + l.id + `}`
	if !strings.HasPrefix(string(n.Params), want) {
		l.h.Errorf("parameters are %s, want %s first", n.Params, want)
	}
	l.got = append(l.got, strings.TrimSpace(strings.TrimPrefix(n.Method, "notifications/")+" "+
		p.URI))
	l.raw = append(l.raw, string(n.Params))
	return nil
}

// The method wants requires exactly these messages since the last call, without the acknowledgment.
func (l *listening) wants(want ...string) {
	l.h.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.got) > 0 && l.got[0] == "subscriptions/acknowledged" {
		l.got = l.got[1:]
	}
	if !slices.Equal(l.got, want) {
		l.h.Errorf("subscription %s was sent %q, want %q", l.id, l.got, want)
	}
	l.got = nil
}

func (l *listening) endsWell() {
	l.h.Helper()
	r := <-l.done
	if r.result["resultType"] != "complete" ||
		!strings.Contains(r.raw, `"`+protocol.MetaSubscriptionID+`":`+l.id) {
		l.h.Errorf("subscription %s ended with %s, want a result with its id", l.id, r.raw)
	}
}

func listens(t *testing.T, opts *server.Options, f func(t *testing.T, h *harness)) {
	synctest.Test(t, func(t *testing.T) {
		o := *cmp.Or(opts, &server.Options{})
		o.Capabilities = declaresAll()
		f(t, newHarness(t, &o))
	})
}

func TestAcknowledgment(t *testing.T) {
	many := make([]string, 1000+1)
	for i := range many {
		many[i] = fmt.Sprintf(`"x:%d"`, i)
	}
	fits := strings.Join(many[:1000], ",")
	offersTools := protocol.ServerCapabilities{Tools: &protocol.ListCapability{}}
	tests := []struct {
		name, id, filter string
		offers           protocol.ServerCapabilities
		want             string // the filter that is acknowledged
	}{
		{"nothing", `1`, ``, declaresAll(), ``},
		{"string id", `"1"`, ``, declaresAll(), ``},
		{"large id", `9007199254740993`, ``, declaresAll(), ``},
		{"huge id", `-123456789012345678901234567890`, ``, declaresAll(), ``},
		{"id of quotes", `"a\"b\\ \u0001"`, ``, declaresAll(), ``},
		{"everything", `2`, everyList + `,"resourceSubscriptions":["x:a"]`, declaresAll(),
			everyList + `,"resourceSubscriptions":["x:a"]`},
		{"false", `2`, `"toolsListChanged":false,"promptsListChanged":true`, declaresAll(), `"promptsListChanged":true`},
		{"unknown type", `2`, `"tasksChanged":true,"toolsListChanged":true`, declaresAll(), `"toolsListChanged":true`},
		{"wrong case", `2`, `"ToolsListChanged":true`, declaresAll(), ``},
		{"what is not offered", `2`, everyList + `,"resourceSubscriptions":["x:a"]`, offersTools,
			`"toolsListChanged":true`},
		{"nothing is offered", `2`, everyList, protocol.ServerCapabilities{}, ``},
		{"twice", `2`, `"resourceSubscriptions":["x:b","x:a","x:b"]`, declaresAll(), `"resourceSubscriptions":["x:b","x:a"]`},
		{"resources that nobody knows", `2`, `"resourceSubscriptions":["","nowhere"]`, declaresAll(), `"resourceSubscriptions":["","nowhere"]`},
		{"as many as may be", `2`, `"resourceSubscriptions":[` + fits + `]`, declaresAll(),
			`"resourceSubscriptions":[` + fits + `]`},
		{"one more", `2`, `"resourceSubscriptions":[` + strings.Join(many, ",") + `]`,
			declaresAll(), `"resourceSubscriptions":[` + fits + `]`},
	}
	for _, tt := range tests {
		inBubble(t, tt.name, func(t *testing.T) {
			h := newHarness(t, &server.Options{Capabilities: tt.offers})
			l := h.listen(t.Context(), tt.id, tt.filter)
			want := `{"_meta":{"` + protocol.MetaSubscriptionID + `":` + tt.id +
				`},"notifications":{` + tt.want + `}}`
			if len(l.raw) != 1 || l.got[0] != "subscriptions/acknowledged" || l.raw[0] != want {
				t.Errorf("sent %q %.300s, want the acknowledgment %.300s", l.got, l.raw, want)
			}
			h.Close()
			l.endsWell()
		})
	}
}

func TestListenRefuses(t *testing.T) {
	tests := []struct {
		name, members string
		code          int64
		word          string
	}{
		{"no object", `"notifications":[]`, protocol.CodeInvalidParams, "notifications"},
		{"no boolean", `"notifications":{"toolsListChanged":"true"}`, protocol.CodeInvalidParams, "toolsListChanged"},
		{"no list", `"notifications":{"resourceSubscriptions":"x:a"}`, protocol.CodeInvalidParams, "resourceSubscriptions"},
		{"no URI", `"notifications":{"resourceSubscriptions":["x:a",5]}`, protocol.CodeInvalidParams, "resourceSubscriptions"},
		{"duplicate", `"notifications":{"toolsListChanged":true,"toolsListChanged":false}`, protocol.CodeParseError, ""},
		{"too long", `"notifications":{"resourceSubscriptions":["` + strings.Repeat("x", (256<<10)) + `"]}`, protocol.CodeInvalidParams, "longer than"},
		{"level that does not exist",
			`"_meta":{"` + protocol.MetaProtocolVersion + `":"2026-07-28","` +
				protocol.MetaClientCapabilities + `":{},"` +
				protocol.MetaLogLevel + `":"loud"}`, protocol.CodeInvalidParams, "loud"},
	}
	h := newHarness(t, &server.Options{Capabilities: declaresAll()})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			params := tt.members
			if !strings.HasPrefix(params, `"_meta"`) {
				params = goodMeta + "," + params
			}
			var way back
			req := messageOf(1, protocol.MethodListen, "{"+params+"}")
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // if it is accepted
			defer cancel()
			response, _ := h.Handle(ctx, req, &way)
			r := h.read(req, response)
			r.T = t
			r.refused(tt.code, tt.word)
			if len(way) > 0 {
				t.Errorf("a refused subscription was sent %v", way)
			}
		})
	}
	// Notifications need a way back.
	h.send(protocol.MethodListen, `"notifications":{}`).refused(protocol.CodeInvalidRequest,
		"notifications")
}

// Everything changes under subscriptions to some things, everything and nothing.
func TestListenSendsWhatWasAskedFor(t *testing.T) {
	const tools, prompts, resources = "tools/list_changed", "prompts/list_changed",
		"resources/list_changed"
	listens(t, nil, func(t *testing.T, h *harness) {
		all := h.listen(t.Context(), `1`, everyList+`,"resourceSubscriptions":["x:b","x:a"]`)
		one := h.listen(t.Context(), `"1"`, `"promptsListChanged":true`)
		uri := h.listen(t.Context(), `2`, `"resourceSubscriptions":["x:a"]`)
		none := h.listen(t.Context(), `3`, ``)
		steps := []struct {
			name          string
			change        func()
			all, one, uri []string
		}{
			{"add a tool", func() { lists[0].add(h.Server, "a") }, []string{tools}, nil, nil},
			{"add a prompt", func() { lists[1].add(h.Server, "a") }, []string{prompts},
				[]string{prompts}, nil},
			{"add a resource", func() { lists[2].add(h.Server, "a") }, []string{resources}, nil,
				nil},
			{"add a template", func() { lists[3].add(h.Server, "a") }, []string{resources}, nil,
				nil},
			{"remove a tool", func() { lists[0].remove(h.Server, "a") }, []string{tools}, nil, nil},
			{"remove a prompt", func() { lists[1].remove(h.Server, "a") }, []string{prompts},
				[]string{prompts}, nil},
			{"remove a resource", func() { lists[2].remove(h.Server, "a") }, []string{resources},
				nil, nil},
			{"remove a template", func() { lists[3].remove(h.Server, "a") }, []string{resources},
				nil, nil},
			{"remove what is not there", func() { lists[0].remove(h.Server, "a") }, nil, nil, nil},
			{"update a resource", func() { h.ResourceUpdated("x:a") },
				[]string{"resources/updated x:a"}, nil, []string{"resources/updated x:a"}},
			{"update another", func() { h.ResourceUpdated("x:b") },
				[]string{"resources/updated x:b"}, nil, nil},
			{"update what nobody asked for",
				func() { h.ResourceUpdated("x:A"); h.ResourceUpdated("x:a/") }, nil, nil, nil},
		}
		for _, step := range steps {
			step.change()
			t.Log(step.name)
			all.wants(step.all...)
			one.wants(step.one...)
			uri.wants(step.uri...)
			none.wants()
		}
		h.Close()
		for _, l := range []*listening{all, one, uri, none} {
			l.endsWell()
		}
	})
}

// A slow client costs no more than a fast one.
func TestListenCoalesces(t *testing.T) {
	listens(t, nil, func(t *testing.T, h *harness) {
		l := h.listen(t.Context(), `1`, everyList+`,"resourceSubscriptions":["x:b","x:a"]`, slow)
		<-l.hold // the acknowledgment
		l.wants()
		h.ResourceUpdated("x:b")
		synctest.Wait() // it is being sent, and the client does not read
		for i := range 100 {
			lists[0].add(h.Server, fmt.Sprint(i))
			lists[3].add(h.Server, fmt.Sprint(i))
			h.ResourceUpdated("x:b")
			h.ResourceUpdated("x:a")
		}
		for range 5 {
			<-l.hold
			synctest.Wait()
		}
		l.wants("resources/updated x:b", "resources/list_changed", "tools/list_changed",
			"resources/updated x:a", "resources/updated x:b")
		// Changes during a send are not lost.
		h.ResourceUpdated("x:a")
		synctest.Wait()
		h.ResourceUpdated("x:a")
		<-l.hold
		<-l.hold
		l.wants("resources/updated x:a", "resources/updated x:a")
		l.stop()
		<-l.done
	})
}

func TestListenEnds(t *testing.T) {
	gone := errors.New("the client is gone")
	tests := []struct {
		name string
		set  []func(*listening)
		end  func(t *testing.T, h *harness, l *listening)
		well bool
	}{
		{"close", nil, func(t *testing.T, h *harness, l *listening) { h.Close() }, true},
		{"shutdown", nil, func(t *testing.T, h *harness, l *listening) {
			noError(t, h.Shutdown(t.Context()))
		}, true},
		{"the client cancels", nil, func(t *testing.T, h *harness, l *listening) { l.stop() },
			false},
		{"sending fails", nil, func(t *testing.T, h *harness, l *listening) {
			l.mu.Lock()
			l.broken = gone
			l.mu.Unlock()
			h.ResourceUpdated("x:a")
		}, false},
		{"close while sending", []func(*listening){slow},
			func(t *testing.T, h *harness, l *listening) {
				<-l.hold
				h.ResourceUpdated("x:a")
				synctest.Wait()
				h.Close()
			}, true},
		{"shutdown while sending", []func(*listening){slow},
			func(t *testing.T, h *harness, l *listening) {
				<-l.hold
				h.ResourceUpdated("x:a")
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				wantIs(t, "Shutdown", h.Shutdown(ctx), context.DeadlineExceeded)
			}, true},
		{"close before the acknowledgment", []func(*listening){slow},
			func(t *testing.T, h *harness, l *listening) { h.Close() }, false},
		{"cancelled before the acknowledgment", []func(*listening){slow},
			func(t *testing.T, h *harness, l *listening) { l.stop() }, false},
		{"the acknowledgment fails", []func(*listening){func(l *listening) { l.broken = gone }},
			func(*testing.T, *harness, *listening) {}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			listens(t, nil, func(t *testing.T, h *harness) {
				l := h.listen(t.Context(), `7`, `"resourceSubscriptions":["x:a"]`, tt.set...)
				tt.end(t, h, l)
				if tt.well {
					l.endsWell()
				} else {
					(<-l.done).refused(protocol.CodeInternalError, "subscription")
				}
			})
		})
	}
}

// Every kind of end frees the slot.
func TestMaxSubscriptions(t *testing.T) {
	listens(t, &server.Options{MaxSubscriptions: 2}, func(t *testing.T, h *harness) {
		first := h.listen(t.Context(), `1`, everyList)
		second := h.listen(t.Context(), `2`, everyList)
		third := h.listen(t.Context(), `3`, everyList)
		(<-third.done).refused(protocol.CodeBusy, "subscriptions")
		if len(third.raw) > 0 {
			t.Errorf("a refused subscription was sent %v", third.raw)
		}
		first.stop()
		(<-first.done).refused(protocol.CodeInternalError)
		fourth := h.listen(t.Context(), `4`, everyList,
			func(l *listening) { l.broken = errors.New("gone") })
		(<-fourth.done).refused(protocol.CodeInternalError)
		fifth := h.listen(t.Context(), `5`, everyList)
		lists[0].add(h.Server, "a")
		second.wants("tools/list_changed")
		fifth.wants("tools/list_changed")
		h.Close()
		second.endsWell()
		fifth.endsWell()
		sixth := h.listen(t.Context(), `6`, everyList)
		(<-sixth.done).refused(protocol.CodeBusy, "closing")
	})
}

// Only changes are sent to a subscription, whatever its request asks for.
func TestListenKeepsSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, &server.Options{Capabilities: declaresAll()})
		h.tool("x", func(ctx context.Context, c *server.ToolCall) (toolOutcome, error) {
			return server.Text("x"), errors.Join(c.Log(ctx, protocol.LevelEmergency, "", 1),
				c.Progress(ctx, 1, 2, ""))
		})
		logsAndProgress := strings.TrimSuffix(goodMeta, "}") + `,"` + protocol.MetaLogLevel +
			`":"debug","progressToken":1}`
		l := &listening{h: h, id: `1`, done: make(chan reply, 1)}
		go func() {
			req := messageOf(1, protocol.MethodListen,
				"{"+logsAndProgress+`,"notifications":{`+everyList+`}}`)
			response, _ := h.Handle(t.Context(), req, l)
			l.done <- h.read(req, response)
		}()
		h.call("x", "").text("x")
		req := messageOf(2, protocol.MethodCallTool, "{"+logsAndProgress+`,"name":"x"}`)
		var way back
		if _, _ = h.Handle(t.Context(), req, &way); len(way) != 2 {
			t.Errorf("the call was sent %v, want a message and progress", way)
		}
		l.wants()
		h.Close()
		l.endsWell()
	})
}

// Updates and acknowledgments do not reveal hidden resources.
func TestListenHidesResources(t *testing.T) {
	var mu sync.Mutex
	promoted := false
	visible := func(p protocol.Principal, _ server.Kind, name string) bool {
		mu.Lock()
		defer mu.Unlock()
		return p.Subject == "admin" || promoted || !strings.Contains(name, "secret")
	}
	listens(t, &server.Options{Visible: visible}, func(t *testing.T, h *harness) {
		for _, name := range []string{"open", "secret"} {
			lists[2].add(h.Server, name)
			lists[3].add(h.Server, name)
		}
		const filter = `"resourceSubscriptions":["x:open","x:secret","x:open/1","x:secret/1","x:unknown"]`
		as := func(name string) context.Context {
			return server.WithPrincipal(t.Context(), protocol.Principal{Issuer: "i", Subject: name})
		}
		admin, guest := h.listen(as("admin"), `1`, filter), h.listen(as("guest"), `2`, filter)
		g := strings.Replace(guest.raw[0], `:2}`, `:1}`, 1)
		wantEqual(t, "the guest's acknowledgment", g, admin.raw[0])
		update := func() {
			for _, uri := range []string{"x:open", "x:secret", "x:open/1", "x:secret/1",
				"x:unknown"} {
				h.ResourceUpdated(uri)
				synctest.Wait()
			}
		}
		update()
		all := []string{"resources/updated x:open", "resources/updated x:secret",
			"resources/updated x:open/1", "resources/updated x:secret/1"}
		admin.wants(all...)
		guest.wants(all[0], all[2])
		mu.Lock()
		promoted = true
		mu.Unlock()
		update()
		guest.wants(all...)
		h.Close()
		admin.endsWell()
		guest.endsWell()
	})
}

// Many clients and changes run at once until the last change has reached all.
func TestListenRaces(t *testing.T) {
	const clients, writers, changes = 20, 8, 50
	h := newHarness(t, &server.Options{Capabilities: declaresAll()})
	var open, done, changing sync.WaitGroup
	last := make(chan struct{}, clients)
	for i := range clients {
		open.Add(1)
		done.Go(func() {
			acknowledged, seen := false, false
			b := backFunc(func(_ context.Context, n *protocol.Notification) error {
				switch {
				case n.Method == protocol.NotifyAcknowledged:
					if acknowledged {
						t.Error("acknowledged twice")
					}
					acknowledged = true
					open.Done()
				case !acknowledged:
					t.Errorf("%s before the acknowledgment", n.Method)
				case strings.Contains(string(n.Params), `"x:last"`) && !seen:
					seen = true
					last <- struct{}{}
				}
				return nil
			})
			req := messageOf(int64(i), protocol.MethodListen, "{"+goodMeta+`,"notifications":{`+everyList+`,"resourceSubscriptions":["x:0","x:1","x:last"]}}`)
			r, _ := h.Handle(t.Context(), req, b)
			if r.Error != nil {
				t.Errorf("subscription %d ended with %v", i, r.Error)
			}
		})
	}
	for i := range writers {
		changing.Go(func() {
			for j := range changes {
				name := fmt.Sprintf("n%d-%d", i, j)
				l := lists[j%len(lists)]
				l.add(h.Server, name)
				h.ResourceUpdated(fmt.Sprintf("x:%d", j%3))
				l.remove(h.Server, name)
			}
		})
	}
	open.Wait()
	changing.Wait()
	h.ResourceUpdated("x:last")
	for range clients {
		<-last
	}
	h.Close()
	done.Wait()
}

type backFunc func(context.Context, *protocol.Notification) error

func (f backFunc) Notify(ctx context.Context, n *protocol.Notification) error { return f(ctx, n) }

func BenchmarkFanOut(b *testing.B) {
	srv, err := server.New(&server.Options{Capabilities: declaresAll()})
	noError(b, err)
	const clients = 1000
	var open, told, done sync.WaitGroup
	open.Add(clients)
	for i := range clients {
		done.Go(func() {
			_, _ = srv.Handle(b.Context(),
				messageOf(int64(i), protocol.MethodListen, "{"+goodMeta+`,"notifications":{"resourceSubscriptions":["x:a"]}}`),
				backFunc(func(_ context.Context, n *protocol.Notification) error {
					if n.Method == protocol.NotifyAcknowledged {
						open.Done()
					} else {
						told.Done()
					}
					return nil
				}))
		})
	}
	open.Wait()
	b.ReportAllocs()
	for b.Loop() {
		told.Add(clients)
		srv.ResourceUpdated("x:a")
		told.Wait()
	}
	err = cmp.Or(srv.Close(), err)
	done.Wait()
	if err != nil {
		b.Error(err)
	}
}
