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
		{"result without id",
			func(protocol.ID) *protocol.Response { return &protocol.Response{Result: result} }},
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
			return &protocol.Response{ID: id,
				Result: json.RawMessage(`{"content":[],"content":[]}`)}
		}},
		{"no JSON", func(id protocol.ID) *protocol.Response {
			return &protocol.Response{ID: id, Result: json.RawMessage(`{`)}
		}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			peer := answering(func(req *protocol.Request) (*protocol.Response, error) {
				return tc.resp(req.ID), nil
			})
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
			return &protocol.Response{ID: req.ID, Error: protocol.Errorf(-32602, "unknown tool")},
				nil
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
		_, err := callOnce(t, answering(func(*protocol.Request) (*protocol.Response, error) {
			return nil, cause
		}), nil)
		if _, ok := errors.AsType[*client.TransportError](err); !ok || !errors.Is(err, cause) {
			t.Errorf("got %v", err)
		}
		if _, ok := protocol.AsError(err); ok {
			t.Errorf("%v looks as if the server had said it", err)
		}
	})
	t.Run("nil from the peer", func(t *testing.T) {
		_, err := callOnce(t,
			answering(func(*protocol.Request) (*protocol.Response, error) { return nil, nil }), nil)
		if _, ok := errors.AsType[*client.TransportError](err); !ok {
			t.Errorf("got %v", err)
		}
	})
	t.Run("other versions", func(t *testing.T) {
		_, err := callOnce(t, answering(func(req *protocol.Request) (*protocol.Response, error) {
			return &protocol.Response{
				ID: req.ID, Error: protocol.UnsupportedVersion("2026-07-28",
					[]protocol.Version{"2027-01-01"}),
			}, nil
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
			noError(t, err)
			if got := member(t, peer.requests()[0], "arguments"); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// FuzzResult feeds the driver responses of a hostile server. The call must
// return a result or an error, must not call a handler for a round that it
// refuses before the retry, and must not send more than one retry here.
func FuzzResult(f *testing.F) {
	seeds := []string{
		done,
		ask(`"requestState":"s"`),
		ask(`"inputRequests":{"who":` + nameForm + `},"requestState":""`),
		ask(`"inputRequests":{"in":` + visitURL + `,"say":` + sampling + `,"dirs":` +
			listRoots + `}`),
		ask(`"inputRequests":{"who":null}`),
	}
	for _, seed := range seeds {
		if seed == "" {
			f.Fatal("empty seed")
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, result string) {
		peer := script(result, done)
		asked := false
		c, err := client.New(peer, &client.Options{
			ElicitForm: func(ctx context.Context, q *client.FormQuestion) (*protocol.ElicitResult,
				error) {
				asked = true
				return acceptName(ctx, q)
			},
		})
		noError(t, err)
		defer func() { _ = c.Close() }()
		r, err := c.CallTool(context.Background(), "t", nil)
		if (r == nil) == (err == nil) {
			t.Fatalf("got %v and %v", r, err)
		}
		n := len(peer.requests())
		if n > 2 || (n == 2 && err != nil) {
			t.Errorf("got %v after %d requests", err, n)
		}
		if _, refused := err.(*client.QuestionError); refused && asked {
			t.Error("somebody was asked a question of a refused round")
		}
	})
}
