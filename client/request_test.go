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

func TestPeerErrors(t *testing.T) {
	said := func(code int64, text string) func(error) bool {
		return func(err error) bool {
			e, ok := protocol.AsError(err)
			return ok && e.Code == code && strings.Contains(err.Error(), text)
		}
	}
	lost := func(cause error) func(error) bool {
		return func(err error) bool {
			_, ok := errors.AsType[*client.TransportError](err)
			_, said := protocol.AsError(err) // the error looks as if the server had sent it
			return ok && !said && (cause == nil || errors.Is(err, cause))
		}
	}
	result := json.RawMessage(done)
	answered := func(result string) response {
		return &protocol.Response{ID: protocol.IntID(1), Result: json.RawMessage(result)}
	}
	cut := errors.New("cable cut")
	others := protocol.UnsupportedVersion("2026-07-28", []protocol.Version{"2027-01-01"})
	for _, test := range []struct {
		name string
		resp response
		err  error
		want func(error) bool
	}{
		{"without id", &protocol.Response{Error: protocol.Errorf(-32700, "parse error")}, nil,
			said(-32700, "parse error")},
		{"said by the peer", &protocol.Response{ID: protocol.IntID(1),
			Error: protocol.Errorf(-32602, "unknown tool")}, nil, said(-32602, "unknown tool")},
		{"other versions", &protocol.Response{ID: protocol.IntID(1), Error: others}, nil,
			func(err error) bool {
				e, ok := protocol.AsError(err)
				return ok && len(e.SupportedVersions()) == 1 &&
					strings.Contains(err.Error(), "2027-01-01")
			}},
		{"on the way", nil, cut, lost(cut)},
		{"nil from the peer", nil, nil, lost(nil)},

		{"other id", &protocol.Response{ID: protocol.IntID(99), Result: result}, nil,
			isResponseError},
		{"id of another type", &protocol.Response{ID: protocol.StringID("1"), Result: result}, nil,
			isResponseError},
		{"error for another id", &protocol.Response{ID: protocol.IntID(99),
			Error: protocol.Errorf(1, "x")}, nil, isResponseError},
		{"nothing", answered(""), nil, isResponseError},
		{"null", answered(`null`), nil, isResponseError},
		{"content of the wrong type", answered(`{"content":"x"}`), nil, isResponseError},
		{"duplicate member", answered(`{"content":[],"content":[]}`), nil, isResponseError},
		{"no JSON", answered(`{`), nil, isResponseError},
		{"result without id", &protocol.Response{Result: result}, nil, isResponseError},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := callOnce(t, answering(func(*protocol.Request) (response, error) {
				return test.resp, test.err
			}), nil)
			if !test.want(err) || r != nil {
				t.Errorf("got %v, %v", r, err)
			}
		})
	}
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
		want string // "": the header is absent; "error": the call is refused
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
			wantEqual(t, "sent", member(t, peer.requests()[0], "arguments"), tc.want)
		})
	}
}

// FuzzResult gives the driver responses of a hostile server. The call must end, must not call
// handlers for a refused round, and must send at most one retry.
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
			ElicitForm: func(ctx context.Context, q *client.FormQuestion) (elicited, error) {
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
