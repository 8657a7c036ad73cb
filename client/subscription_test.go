package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

func everything() protocol.SubscriptionFilter {
	return protocol.SubscriptionFilter{
		ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true,
		ResourceSubscriptions: []string{"u:1", "u:2"},
	}
}

// A frame is one scripted notification. In its params the word ID becomes the request's id.
type frame struct{ method, params string }

func (f frame) send(ctx context.Context, back protocol.Back) error {
	n := &protocol.Notification{Method: f.method}
	if f.params != "" {
		n.Params = json.RawMessage(f.params)
	}
	return back.Notify(ctx, n)
}

const (
	own    = `"_meta":{"io.modelcontextprotocol/subscriptionId":ID}`
	ackAll = `{` + own + `,"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["u:1","u:2"]}}`
	bare   = `{` + own + `}`
)

// The function listening sends a subscription's frames, then calls end, or if nil ends gracefully.
func listening(end func(ctx context.Context, req *protocol.Request) (response, error),
	frames ...frame) *fakePeer {
	return &fakePeer{handle: func(ctx context.Context, req *protocol.Request,
		back protocol.Back) (response, error) {
		for _, f := range frames {
			f.params = strings.ReplaceAll(f.params, "ID", req.ID.String())
			_ = f.send(ctx, back) // the client may no longer listen
		}
		if end != nil {
			return end(ctx, req)
		}
		return reply(req, `{"resultType":"complete"}`)
	}}
}

func listen(t *testing.T, peer protocol.Peer, opts *client.Options) ([]client.ListenEvent, error) {
	t.Helper()
	var got []client.ListenEvent
	err := newClient(t, peer, opts).Listen(t.Context(), everything(),
		func(_ context.Context, e client.ListenEvent) { got = append(got, e) })
	return got, err
}

func TestListenEvents(t *testing.T) {
	all := client.Acknowledged{Filter: everything()}
	cases := []struct {
		name   string
		frames []frame
		want   []client.ListenEvent
	}{
		{"every kind", []frame{
			{protocol.NotifyAcknowledged, ackAll},
			{protocol.NotifyToolsChanged, bare},
			{protocol.NotifyPromptsChanged, bare},
			{protocol.NotifyResourcesChanged, bare},
			{protocol.NotifyResourceUpdated, `{` + own + `,"uri":"u:1"}`},
			{protocol.NotifyResourceUpdated, `{` + own + `,"uri":"u:1/part"}`},
		}, []client.ListenEvent{all, client.ToolsChanged{}, client.PromptsChanged{},
			client.ResourcesChanged{},
			client.ResourceUpdated{URI: "u:1"}, client.ResourceUpdated{URI: "u:1/part"}}},
		{"before the acknowledgment", []frame{
			{protocol.NotifyToolsChanged, bare},
			{protocol.NotifyResourceUpdated, `{` + own + `,"uri":"u:1"}`},
			{protocol.NotifyAcknowledged, ackAll},
		}, []client.ListenEvent{all}},
		{"other subscriptions and none", []frame{
			{protocol.NotifyAcknowledged, strings.ReplaceAll(ackAll, "ID", "999")},
			{protocol.NotifyAcknowledged, ackAll},
			{protocol.NotifyToolsChanged, strings.ReplaceAll(bare, "ID", "999")},
			{protocol.NotifyToolsChanged, strings.ReplaceAll(bare, "ID", `"ID"`)},
			{protocol.NotifyToolsChanged, strings.ReplaceAll(bare, "ID", `null`)},
			{protocol.NotifyToolsChanged, `{"_meta":{}}`},
			{protocol.NotifyToolsChanged, ``},
			{protocol.NotifyPromptsChanged, bare},
		}, []client.ListenEvent{all, client.PromptsChanged{}}},
		{"acknowledged twice", []frame{
			{protocol.NotifyAcknowledged, `{` + own + `,"notifications":{"toolsListChanged":true}}`},
			{protocol.NotifyAcknowledged, ackAll},
			{protocol.NotifyPromptsChanged, bare},
		}, []client.ListenEvent{
			client.Acknowledged{Filter: protocol.SubscriptionFilter{ToolsListChanged: true}}}},
		{"not honoured", []frame{
			{protocol.NotifyAcknowledged, `{` + own + `,"notifications":{}}`},
			{protocol.NotifyToolsChanged, bare},
			{protocol.NotifyPromptsChanged, bare},
			{protocol.NotifyResourcesChanged, bare},
			{protocol.NotifyResourceUpdated, `{` + own + `,"uri":"u:1"}`},
		}, []client.ListenEvent{client.Acknowledged{}}},
		{"more honoured than asked for", []frame{
			{protocol.NotifyAcknowledged,
				`{` + own + `,"notifications":{"resourceSubscriptions":["u:9","u:2"]}}`},
		}, []client.ListenEvent{client.Acknowledged{
			Filter: protocol.SubscriptionFilter{ResourceSubscriptions: []string{"u:2"}}}}},
		{"updated what", []frame{
			{protocol.NotifyAcknowledged, ackAll},
			{protocol.NotifyResourceUpdated, bare},
			{protocol.NotifyResourceUpdated, `{` + own + `,"uri":7}`},
			{protocol.NotifyResourceUpdated, `{` + own + `,"URI":"u:1"}`},
		}, []client.ListenEvent{all}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got, err := listen(t, listening(nil, tc.frames...), nil)
			if err != nil || !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %+v, %v\nwant %+v", got, err, tc.want)
			}
		})
	}
	t.Run("nothing", func(t *testing.T) { // the filter is empty
		var got []client.ListenEvent
		err := newClient(t, listening(nil, cases[0].frames...), nil).Listen(t.Context(),
			protocol.SubscriptionFilter{},
			func(_ context.Context, e client.ListenEvent) { got = append(got, e) })
		if want := []client.ListenEvent{client.Acknowledged{}}; err != nil ||
			!reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	})
}

func TestListenRequest(t *testing.T) {
	peer := listening(nil, frame{protocol.NotifyAcknowledged, ackAll})
	_, err := listen(t, peer, nil)
	noError(t, err)
	req := peer.requests()[0]
	want := `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["u:1","u:2"]}`
	if got := member(t, req, "notifications"); got != want || req.Method != protocol.MethodListen {
		t.Errorf("got %s %s, want %s", req.Method, got, want)
	}
	if meta := metaOf(t, req); meta.Version != protocol.V20260728 || meta.Capabilities == nil {
		t.Errorf("got %+v", meta)
	}
}

func TestListenEnds(t *testing.T) {
	lost := errors.New("connection reset")
	ack := frame{protocol.NotifyAcknowledged, ackAll}
	cases := []struct {
		name   string
		end    func(context.Context, *protocol.Request) (response, error)
		frames []frame
		ok     func(error) bool
	}{
		{"in good order", nil, []frame{ack}, func(err error) bool { return err == nil }},
		{"lost", func(context.Context, *protocol.Request) (response, error) {
			return nil, lost
		}, []frame{ack}, func(err error) bool {
			_, ok := errors.AsType[*client.TransportError](err)
			return ok && errors.Is(err, lost)
		}},
		{"refused", func(_ context.Context, req *protocol.Request) (response, error) {
			return refuse(req, protocol.Errorf(protocol.CodeMethodNotFound, "no"))
		}, nil, func(err error) bool {
			e, ok := protocol.AsError(err)
			return ok && e.Code == protocol.CodeMethodNotFound
		}},
		{"without acknowledgment", nil, []frame{{protocol.NotifyToolsChanged, bare}},
			isResponseError},
		{"acknowledgment of nothing", nil, []frame{{protocol.NotifyAcknowledged, bare}},
			isResponseError},
		{"malformed acknowledgment", nil,
			[]frame{{protocol.NotifyAcknowledged, `{` + own + `,"notifications":[]}`}, ack},
			isResponseError},
		{"malformed and waiting", untilDone, []frame{
			{protocol.NotifyAcknowledged, `{` + own + `,"notifications":{"resourceSubscriptions":"u:1"}}`},
		}, isResponseError},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			peer := listening(tc.end, tc.frames...)
			_, err := listen(t, peer, nil)
			if !tc.ok(err) {
				t.Errorf("got %v", err)
			}
			// nothing is opened again in silence
			wantEqual(t, "requests", len(peer.requests()), 1)
		})
	}
}

func isResponseError(err error) bool {
	_, ok := errors.AsType[*client.ResponseError](err)
	return ok
}

func untilDone(ctx context.Context, _ *protocol.Request) (response, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestListenEndsWithItsContextOrClient(t *testing.T) {
	reason := errors.New("had enough")
	for name, test := range map[string]struct {
		end  func(context.Context, *protocol.Request) (response, error)
		want error
	}{
		"transport fails": {untilDone, reason},
		// A server in the same process gets the chance to answer.
		"server answers": {func(ctx context.Context, req *protocol.Request) (response, error) {
			<-ctx.Done()
			return refuse(req, protocol.Errorf(protocol.CodeInternalError, "gone"))
		}, reason},
		"client is closed": {untilDone, client.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			c := newClient(t, listening(test.end, frame{protocol.NotifyAcknowledged, ackAll}), nil)
			err := c.Listen(ctx, everything(), func(context.Context, client.ListenEvent) {
				if test.want == reason {
					cancel(reason)
				} else {
					_ = c.Close()
				}
			})
			wantEqual(t, "error", err, test.want)
			wantEqual(t, "afterwards", c.Listen(ctx, everything(), nil), test.want)
		})
	}
}

func TestListenTimeoutIsForTheAcknowledgment(t *testing.T) {
	opts := &client.Options{Timeout: time.Minute}
	inBubble(t, "late", func(t *testing.T) {
		start := time.Now()
		_, err := listen(t, listening(untilDone), opts)
		wantError(t, err, "subscriptions/listen: server took longer than 1m0s", "Options.Timeout")
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
	})
	inBubble(t, "in time", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		err := newClient(t, listening(untilDone, frame{protocol.NotifyAcknowledged, ackAll}),
			opts).Listen(ctx, everything(), nil)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Hour {
			t.Errorf("got %v after %v, want the caller's deadline after an hour", err,
				time.Since(start))
		}
	})
}

func TestListenHandlerPanics(t *testing.T) {
	for name, end := range map[string]func(context.Context, *protocol.Request) (response, error){
		"stays": untilDone, "ends": nil} {
		t.Run(name, func(t *testing.T) {
			peer := listening(end, frame{protocol.NotifyAcknowledged, ackAll},
				frame{protocol.NotifyToolsChanged, bare})
			events := 0
			err := newClient(t, peer, nil).Listen(t.Context(), everything(),
				func(context.Context, client.ListenEvent) {
					events++
					panic("boom")
				})
			if p, ok := errors.AsType[*client.PanicError](err); !ok || p.Value != "boom" ||
				events != 1 {
				t.Errorf("got %v after %d events, want the panic after 1", err, events)
			}
		})
	}
}

func TestListenHandsOnOtherNotifications(t *testing.T) {
	var got []string
	_, err := listen(t, listening(nil, frame{protocol.NotifyAcknowledged, ackAll},
		frame{protocol.NotifyMessage, `{"level":"info","data":"hello"}`},
		frame{"notifications/custom", `{}`},
	), &client.Options{
		Log: func(_ context.Context, m *protocol.LogMessage) {
			got = append(got, string(m.Data))
		},
		Notification: func(_ context.Context, n *protocol.Notification) {
			got = append(got, n.Method)
		},
	})
	if err != nil || strings.Join(got, " ") != `"hello" notifications/custom` {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestListenAgreesOnAVersion(t *testing.T) {
	n := 0
	inner := listening(nil, frame{protocol.NotifyAcknowledged, ackAll})
	peer := &fakePeer{handle: func(ctx context.Context, req *protocol.Request,
		back protocol.Back) (response, error) {
		if n++; n == 1 {
			return refuse(req, protocol.UnsupportedVersion("x",
				[]protocol.Version{protocol.V20260728}))
		}
		return inner.handle(ctx, req, back)
	}}
	got, err := listen(t, peer, nil)
	if err != nil || len(got) != 1 || n != 2 {
		t.Errorf("got %v, %v after %d requests", got, err, n)
	}
}

// On a line stream all subscriptions share one channel.
func TestListenOverAStream(t *testing.T) {
	s := newServer(t, nil)
	addTool(s, "one")
	c := streamTo(t, s, nil)
	var wait sync.WaitGroup
	for _, filter := range []protocol.SubscriptionFilter{{ToolsListChanged: true},
		{ResourceSubscriptions: []string{"u:1"}}} {
		wait.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var got []string
			err := c.Listen(ctx, filter, func(_ context.Context, e client.ListenEvent) {
				got = append(got, fmt.Sprintf("%T", e))
				switch e := e.(type) {
				case client.Acknowledged:
					if e.Filter.ToolsListChanged {
						addTool(s, "two")
					} else {
						cancel()
					}
				case client.ToolsChanged:
					cancel()
				}
			})
			want := "client.Acknowledged"
			if filter.ToolsListChanged {
				want += " client.ToolsChanged"
			}
			if err != context.Canceled || strings.Join(got, " ") != want {
				t.Errorf("%+v: got %v, %v, want %s", filter, got, err, want)
			}
		})
	}
	wait.Wait()
}

func TestListenOverHTTP(t *testing.T) {
	start := func(t *testing.T) (*server.Server, *client.Client, *httptest.Server) {
		s := newServer(t, nil)
		addTool(s, "one")
		web := httptest.NewServer(servertest.NewHandler(t, s, nil))
		t.Cleanup(web.Close)
		tr, err := clienthttp.New(web.URL, nil)
		noError(t, err)
		return s, newClient(t, tr, nil), web
	}
	t.Run("events and a good end", func(t *testing.T) {
		s, c, _ := start(t)
		var got []string
		err := c.Listen(t.Context(), everything(), func(ctx context.Context, e client.ListenEvent) {
			got = append(got, fmt.Sprintf("%T", e))
			switch e.(type) {
			case client.Acknowledged:
				addTool(s, "two")
			case client.ToolsChanged:
				for tool, err := range c.Tools(ctx) {
					got = append(got, fmt.Sprint(tool.Name, err))
				}
				go func() { _ = s.Shutdown(context.Background()) }()
			}
		})
		if want := "client.Acknowledged client.ToolsChanged one<nil> two<nil>"; err != nil ||
			strings.Join(got, " ") != want {
			t.Errorf("got %v, %v, want %s", got, err, want)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		_, c, _ := start(t)
		ctx, cancel := context.WithCancel(t.Context())
		err := c.Listen(ctx, everything(), func(context.Context, client.ListenEvent) { cancel() })
		wantEqual(t, "error", err, context.Canceled)
	})
	t.Run("lost", func(t *testing.T) {
		_, c, web := start(t)
		err := c.Listen(t.Context(), everything(), func(context.Context, client.ListenEvent) {
			web.CloseClientConnections()
		})
		if _, ok := errors.AsType[*client.TransportError](err); !ok {
			t.Errorf("got %v, want a transport error", err)
		}
	})
}

func ExampleClient_Listen() {
	s, err := server.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	addTool(s, "build")
	c, err := client.New(s, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err = c.Listen(ctx, protocol.SubscriptionFilter{
		ToolsListChanged: true,
	}, func(ctx context.Context, e client.ListenEvent) {
		switch e := e.(type) {
		case client.Acknowledged:
			fmt.Println("listening, tools:", e.Filter.ToolsListChanged)
			addTool(s, "deploy") // in the server, elsewhere
		case client.ToolsChanged:
			for tool, err := range c.Tools(ctx) {
				fmt.Println(tool.Name, err)
			}
			cancel()
		}
	})
	fmt.Println(err)
	// Output:
	// listening, tools: true
	// build <nil>
	// deploy <nil>
	// context canceled
}
