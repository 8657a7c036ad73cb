package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// answering returns a peer that gives the response f makes for every request.
func answering(f func(req *protocol.Request) (*protocol.Response, error)) *fakePeer {
	return &fakePeer{handle: func(_ context.Context, req *protocol.Request, _ protocol.Back) (*protocol.Response, error) {
		return f(req)
	}}
}

func TestUnusableResponses(t *testing.T) {
	result := json.RawMessage(done)
	cases := []struct {
		name string
		resp func(id protocol.ID) *protocol.Response
	}{
		{"other id", func(protocol.ID) *protocol.Response {
			return &protocol.Response{ID: protocol.IntID(99), Result: result}
		}},
		{"id of another type", func(id protocol.ID) *protocol.Response {
			return &protocol.Response{ID: protocol.StringID(id.String()), Result: result}
		}},
		{"result without id", func(protocol.ID) *protocol.Response { return &protocol.Response{Result: result} }},
		{"error for another id", func(protocol.ID) *protocol.Response {
			return &protocol.Response{ID: protocol.IntID(99), Error: protocol.Errorf(1, "x")}
		}},
		{"nothing", func(id protocol.ID) *protocol.Response { return &protocol.Response{ID: id} }},
		{"null", func(id protocol.ID) *protocol.Response {
			return &protocol.Response{ID: id, Result: json.RawMessage(`null`)}
		}},
		{"content of the wrong type", func(id protocol.ID) *protocol.Response {
			return &protocol.Response{ID: id, Result: json.RawMessage(`{"content":"x"}`)}
		}},
		{"duplicate member", func(id protocol.ID) *protocol.Response {
			return &protocol.Response{ID: id, Result: json.RawMessage(`{"content":[],"content":[]}`)}
		}},
		{"no JSON", func(id protocol.ID) *protocol.Response {
			return &protocol.Response{ID: id, Result: json.RawMessage(`{`)}
		}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			peer := answering(func(req *protocol.Request) (*protocol.Response, error) { return tc.resp(req.ID), nil })
			r, err := callOnce(t, peer, nil)
			if _, ok := errors.AsType[*client.ResponseError](err); !ok || r != nil {
				t.Errorf("got %v, %v, want a response error", r, err)
			}
		})
	}
}

func TestPeerErrors(t *testing.T) {
	t.Run("said by the peer", func(t *testing.T) {
		_, err := callOnce(t, answering(func(req *protocol.Request) (*protocol.Response, error) {
			return &protocol.Response{ID: req.ID, Error: protocol.Errorf(-32602, "unknown tool")}, nil
		}), nil)
		if e, ok := protocol.AsError(err); !ok || e.Code != -32602 {
			t.Errorf("got %v", err)
		}
	})
	t.Run("without id", func(t *testing.T) {
		_, err := callOnce(t, answering(func(*protocol.Request) (*protocol.Response, error) {
			return &protocol.Response{Error: protocol.Errorf(-32700, "parse error")}, nil
		}), nil)
		if e, ok := protocol.AsError(err); !ok || e.Code != -32700 {
			t.Errorf("got %v", err)
		}
	})
	t.Run("on the way", func(t *testing.T) {
		cause := errors.New("cable cut")
		_, err := callOnce(t, answering(func(*protocol.Request) (*protocol.Response, error) { return nil, cause }), nil)
		if _, ok := errors.AsType[*client.TransportError](err); !ok || !errors.Is(err, cause) {
			t.Errorf("got %v", err)
		}
		if _, ok := protocol.AsError(err); ok {
			t.Errorf("%v looks as if the server had said it", err)
		}
	})
	t.Run("nil from the peer", func(t *testing.T) {
		_, err := callOnce(t, answering(func(*protocol.Request) (*protocol.Response, error) { return nil, nil }), nil)
		if _, ok := errors.AsType[*client.TransportError](err); !ok {
			t.Errorf("got %v", err)
		}
	})
	t.Run("other versions", func(t *testing.T) {
		_, err := callOnce(t, answering(func(req *protocol.Request) (*protocol.Response, error) {
			return &protocol.Response{ID: req.ID, Error: protocol.UnsupportedVersion("2026-07-28", []protocol.Version{"2027-01-01"})}, nil
		}), nil)
		e, ok := protocol.AsError(err)
		if !ok || len(e.SupportedVersions()) != 1 || !strings.Contains(err.Error(), "2027-01-01") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("questions where none are allowed", func(t *testing.T) {
		c := newClient(t, script(ask(`"requestState":"s"`)), nil)
		if _, err := c.ListTools(t.Context(), ""); err == nil {
			t.Error("tools/list accepted input_required")
		}
	})
}

func TestArguments(t *testing.T) {
	type args struct {
		N int `json:"n"`
	}
	cases := []struct {
		name string
		args any
		want string // "" absent, "error" refused
	}{
		{"nil", nil, ""},
		{"nil map", map[string]any(nil), ""},
		{"nil pointer", (*args)(nil), ""},
		{"empty raw", json.RawMessage(nil), ""},
		{"struct", args{1}, `{"n":1}`},
		{"pointer", &args{2}, `{"n":2}`},
		{"map", map[string]any{"a<b": true}, `{"a<b":true}`},
		{"raw", json.RawMessage(`{ "n": 9007199254740993 }`), `{"n":9007199254740993}`},
		{"raw null", json.RawMessage(`null`), "error"},
		{"raw broken", json.RawMessage(`{"n":`), "error"},
		{"raw duplicate", json.RawMessage(`{"n":1,"n":2}`), "error"},
		{"list", []int{1}, "error"},
		{"text", "x", "error"},
		{"channel", make(chan int), "error"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			peer := script(done)
			_, err := newClient(t, peer, nil).CallTool(t.Context(), "t", tc.args)
			if tc.want == "error" {
				if err == nil || len(peer.requests()) != 0 {
					t.Errorf("got %v after %d requests, want a refusal", err, len(peer.requests()))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := member(t, peer.requests()[0], "arguments"); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestLists(t *testing.T) {
	hints := `"ttlMs":5,"cacheScope":"public"}`
	peer := answering(func(req *protocol.Request) (*protocol.Response, error) {
		results := map[string]string{
			"tools/list":               `{"resultType":"complete","tools":[{"name":"t","inputSchema":{}}],"nextCursor":"n",` + hints,
			"prompts/list":             `{"resultType":"complete","prompts":[{"name":"p"}],` + hints,
			"resources/list":           `{"resultType":"complete","resources":[{"uri":"u:1","name":"r"}],` + hints,
			"resources/templates/list": `{"resultType":"complete","resourceTemplates":[{"uriTemplate":"u:{x}","name":"r"}],` + hints,
			"server/discover":          `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},` + hints,
			"completion/complete":      `{"resultType":"complete","completion":{"values":["a"]}}`,
		}
		return &protocol.Response{ID: req.ID, Result: json.RawMessage(results[req.Method])}, nil
	})
	c, ctx := newClient(t, peer, nil), t.Context()
	if r, err := c.ListTools(ctx, "c1"); err != nil || len(r.Tools) != 1 || r.NextCursor != "n" {
		t.Errorf("tools: got %+v, %v", r, err)
	}
	if got := member(t, peer.requests()[0], "cursor"); got != `"c1"` {
		t.Errorf("got cursor %s", got)
	}
	if r, err := c.ListPrompts(ctx, ""); err != nil || len(r.Prompts) != 1 {
		t.Errorf("prompts: got %+v, %v", r, err)
	}
	if r, err := c.ListResources(ctx, ""); err != nil || len(r.Resources) != 1 {
		t.Errorf("resources: got %+v, %v", r, err)
	}
	if r, err := c.ListResourceTemplates(ctx, ""); err != nil || len(r.ResourceTemplates) != 1 {
		t.Errorf("templates: got %+v, %v", r, err)
	}
	if r, err := c.Discover(ctx); err != nil || r.Capabilities.Tools == nil {
		t.Errorf("discover: got %+v, %v", r, err)
	}
	p := &protocol.CompleteParams{Ref: protocol.CompletionRef{Prompt: "p"}, Argument: protocol.CompletionArgument{Name: "a"}}
	if r, err := c.Complete(ctx, p); err != nil || len(r.Values) != 1 || p.Version != "" {
		t.Errorf("complete: got %+v, %v, params %+v", r, err, p)
	}
}

func TestNotifications(t *testing.T) {
	var late protocol.Back
	peer := &fakePeer{handle: func(ctx context.Context, req *protocol.Request, back protocol.Back) (*protocol.Response, error) {
		late = back
		token := metaOf(t, req).ProgressToken.String()
		for _, n := range []protocol.Notification{
			{Method: protocol.NotifyProgress, Params: json.RawMessage(`{"progressToken":` + token + `,"progress":1}`)},
			{Method: protocol.NotifyProgress, Params: json.RawMessage(`{"progressToken":"other","progress":2}`)},
			{Method: protocol.NotifyProgress, Params: json.RawMessage(`{"progressToken":null,"progress":2}`)},
			{Method: protocol.NotifyProgress},
			{Method: protocol.NotifyMessage, Params: json.RawMessage(`{"level":"info","data":"hello"}`)},
			{Method: protocol.NotifyMessage, Params: json.RawMessage(`{"level":"loud","data":"hello"}`)},
			{Method: "notifications/custom", Params: json.RawMessage(`{}`)},
		} {
			if err := back.Notify(ctx, &n); err != nil {
				t.Errorf("%s: %v", n.Method, err)
			}
		}
		return &protocol.Response{ID: req.ID, Result: json.RawMessage(done)}, nil
	}}
	var got []string
	r, err := callOnce(t, peer, &client.Options{
		LogLevel:     protocol.LevelInfo,
		Progress:     func(_ context.Context, p *protocol.Progress) { got = append(got, "progress") },
		Log:          func(_ context.Context, m *protocol.LogMessage) { got = append(got, "log "+string(m.Data)) },
		Notification: func(_ context.Context, n *protocol.Notification) { got = append(got, n.Method) },
	})
	wantDone(t, r, err)
	if want := `progress, log "hello", notifications/custom`; strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
	if meta := metaOf(t, peer.requests()[0]); meta.LogLevel != protocol.LevelInfo {
		t.Errorf("got level %q", meta.LogLevel)
	}
	if err := late.Notify(t.Context(), &protocol.Notification{Method: "notifications/custom"}); err == nil || len(got) != 3 {
		t.Errorf("after the end: got %v and %d notifications", err, len(got))
	}
}

func TestNotificationHandlerPanics(t *testing.T) {
	peer := &fakePeer{handle: func(ctx context.Context, req *protocol.Request, back protocol.Back) (*protocol.Response, error) {
		_ = back.Notify(ctx, nil)
		_ = back.Notify(ctx, &protocol.Notification{Method: "notifications/custom"})
		return &protocol.Response{ID: req.ID, Result: json.RawMessage(done)}, nil
	}}
	_, err := callOnce(t, peer, &client.Options{Notification: func(context.Context, *protocol.Notification) { panic("boom") }})
	if p, ok := errors.AsType[*client.PanicError](err); !ok || p.Value != "boom" || len(p.Stack) == 0 {
		t.Errorf("got %v, want the panic", err)
	}
}

func TestNoListenerMeansNoWayBack(t *testing.T) {
	peer := &fakePeer{handle: func(_ context.Context, req *protocol.Request, back protocol.Back) (*protocol.Response, error) {
		if back != nil {
			t.Error("got a way back that leads nowhere")
		}
		return &protocol.Response{ID: req.ID, Result: json.RawMessage(done)}, nil
	}}
	r, err := callOnce(t, peer, nil)
	wantDone(t, r, err)
}
