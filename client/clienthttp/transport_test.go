package clienthttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
)

func serve(t *testing.T, h http.HandlerFunc, opts *clienthttp.Options) *clienthttp.Transport {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	tr, err := clienthttp.New(server.URL+"/mcp", opts)
	noError(t, err)
	t.Cleanup(func() {
		wantEqual(t, "close", tr.Close(), nil)
	})
	return tr
}

func answer(status int, media, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

const (
	media  = "application/json"
	stream = "text/event-stream"
	result = `{"jsonrpc":"2.0","id":7,"result":{"x":1}}`
	note   = `{"jsonrpc":"2.0","method":"notifications/message","params":{"n":%d}}`
)

func request() *protocol.Request {
	return &protocol.Request{
		ID: protocol.IntID(7), Method: "tools/call", Params: json.RawMessage(`{"name":"t"}`),
		Mirror: protocol.Mirror{Version: protocol.V20260728, Name: "t"},
	}
}

// A collect is a Back that keeps the params of notifications.
type collect struct {
	got []string
	err error
}

func (c *collect) Notify(_ context.Context, n *protocol.Notification) error {
	c.got = append(c.got, string(n.Params))
	return c.err
}

func TestRequestOnTheWire(t *testing.T) {
	var got *http.Request
	var body string
	tr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		got, body = r, string(data)
		answer(200, media, result)(w, r)
	}, &clienthttp.Options{
		Header: http.Header{"authorization": {"Bearer old"}, "X-Extra": {"a"}, "x-extra": {"b"},
			"accept": {"text/plain"}, "Mcp-Name": {"forged"}, "MCP-Protocol-Version": {"forged"}},
		Authorizer: &scripted{},
	})
	req := request()
	req.Mirror.Name = "wörld"
	req.Mirror.Params = []protocol.MirroredParam{
		{Name: "Region", Value: "us-west1"}, {Name: "Text", Value: " padded "},
	}
	resp, err := tr.Handle(t.Context(), req, nil)
	if err != nil || string(resp.Result) != `{"x":1}` {
		t.Fatalf("got %+v, %v", resp, err)
	}
	if want := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t"}}`; body != want ||
		got.Method != "POST" || got.URL.Path != "/mcp" {
		t.Errorf("got %s %s with %s, want POST /mcp with %s", got.Method, got.URL.Path, body, want)
	}
	for name, want := range map[string]string{
		"Content-Type":         "application/json",
		"Accept":               "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28",
		"Mcp-Method":           "tools/call",
		"Mcp-Name":             "=?base64?d8O2cmxk?=",
		"Mcp-Param-Region":     "us-west1",
		"Mcp-Param-Text":       "=?base64?IHBhZGRlZCA=?=",
		"Authorization":        "Bearer secret-token-1",
		"X-Extra":              "a,b",
	} {
		values := got.Header.Values(name)
		slices.Sort(values)
		wantEqual(t, name, strings.Join(values, ","), want)
	}
	req.Mirror = protocol.Mirror{}
	_, err = tr.Handle(t.Context(), req, nil)
	noError(t, err)
	for _, name := range []string{"Mcp-Name", "Mcp-Protocol-Version"} {
		if v, ok := got.Header[name]; ok {
			t.Errorf("%s: got %q, want none", name, v)
		}
	}
}

func TestNothingIsSent(t *testing.T) {
	tr := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("something was sent") }, nil)
	if _, err := tr.Handle(t.Context(), &protocol.Request{Method: "x"}, nil); err == nil {
		t.Error("a request without id was accepted")
	}
	for _, name := range []string{"", "a b", "a:b", "a\nX-Evil: 1", "é"} {
		req := request()
		req.Mirror.Params = []protocol.MirroredParam{{Name: name, Value: "x"}}
		if _, err := tr.Handle(t.Context(), req, nil); err == nil {
			t.Errorf("%q was accepted", name)
		}
	}
	_ = tr.Close()
	_, err := tr.Handle(t.Context(), request(), nil)
	testkit.WantIs(t, "closed", err, clienthttp.ErrClosed)
}

func TestEndpoints(t *testing.T) {
	for endpoint, ok := range map[string]bool{
		"https://example.com/mcp": true, "http://127.0.0.1:8080": true,
		"https://example.com/mcp?tenant=1": true,
		"":                                 false, "/mcp": false, "ftp://example.com": false,
		"file:///x": false, "https://": false,
		"https://u:hunter2@example.com": false, "https://example.com/#x": false,
		"https://exa mple.com/hunter2": false,
	} {
		t.Run(fmt.Sprintf("%q", endpoint), func(t *testing.T) {
			_, err := clienthttp.New(endpoint, nil)
			if (err == nil) != ok || (err != nil && strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("%q: got %v, want accepted: %v", endpoint, err, ok)
			}
		})
	}
}

func TestResponses(t *testing.T) {
	refusal := `{"jsonrpc":"2.0","id":7,"error":{"code":-32021,"message":"missing"}}`
	events := func(messages ...string) string {
		var b strings.Builder
		for _, m := range messages {
			fmt.Fprintf(&b, "data: %s\n\n", m)
		}
		return b.String()
	}
	cases := []struct {
		name    string
		handler http.HandlerFunc
		want    string // the error's text; "" for a response
	}{
		{"JSON", answer(200, media, result), ""},
		{"JSON with charset", answer(200, "Application/JSON; charset=utf-8", result), ""},
		{"stream", answer(200, stream, events(fmt.Sprintf(note, 1), result)), ""},
		{"stream with noise", answer(200, stream+";charset=utf-8",
			"\ufeff: hi\r\n\r\nevent: ping\ndata: x\n\nid: 3\nevent: message\ndata: "+
				"{\"jsonrpc\":\"2.0\",\ndata: \"id\":7,\"result\":{\"x\":1}}\n\ndata: after\n\n"),
			""},
		{"refusal in 400", answer(400, media, refusal), ""},
		{"refusal in 404", answer(404, media, refusal), ""},
		{"refusal without id",
			answer(403, media, `{"jsonrpc":"2.0","error":{"code":1,"message":"origin"}}`), ""},
		{"refusal on a stream", answer(200, stream, events(refusal)), ""},

		{"other id", answer(200, media, strings.Replace(result, "7", "8", 1)), "id 8"},
		{"id as text", answer(200, media, strings.Replace(result, "7", `"7"`, 1)), `id "7"`},
		{"other id on a stream",
			answer(200, stream, events(strings.Replace(result, "7", "8", 1), result)), "id 8"},
		{"other id in a refusal", answer(400, media, strings.Replace(refusal, "7", "8", 1)),
			"id 8"},
		{"request on a stream",
			answer(200, stream, events(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`, result)),
			"server sent a request"},
		{
			"request in the body", answer(200, media, `{"jsonrpc":"2.0","id":7,"method":"roots/list"}`),
			"not a response",
		},
		{"notification in the body", answer(200, media, fmt.Sprintf(note, 1)), "not a response"},
		{"batch", answer(200, media, "["+result+"]"), "one JSON object"},
		{"batch on a stream", answer(200, stream, events("["+result+"]")), "one JSON object"},
		{"no JSON", answer(200, media, "<html>"), "parse error"},
		{"no JSON on a stream", answer(200, stream, events("hello")), "parse error"},
		{"duplicate member",
			answer(200, media, strings.Replace(result, `"id":7`, `"id":7,"id":7`, 1)),
			"duplicate"},
		{"empty body", answer(200, media, ""), "parse error"},
		{"empty stream", answer(200, stream, ""), "without a response"},
		{"only notifications", answer(200, stream, events(fmt.Sprintf(note, 1))),
			"without a response"},
		{"cut stream", answer(200, stream, "data: "+result[:20]), "without a response"},
		{"another's cut response", answer(200, stream,
			"data: "+strings.Replace(result, "7", "8", 1)), "without a response"},
		{"no last blank line", answer(200, stream, "data: "+result+"\n"), ""},
		{"no last line end", answer(200, stream, "data: "+result), ""},
		{"page", answer(200, "text/html", "<html>"), "content type"},
		{"no type", answer(200, "", result), "content type"},
		{"accepted", answer(202, "", ""), "202"},
		{"proxy", answer(502, "text/html", "<h1>Bad Gateway</h1>"), "502"},
		{"JSON but no message", answer(400, media, `{"error":"nope"}`), "400"},
		{"result in a 500", answer(500, media, result), "500"},
		{"big body", answer(200, media,
			strings.Replace(result, "1}", `"`+strings.Repeat("x", 2000)+`"}`, 1)),
			"too large"},
		{"big event", answer(200, stream, events(fmt.Sprintf(note, 1), strings.Repeat("x", 2000))),
			"too large"},
		{"big refusal", answer(400, media, strings.Repeat(" ", 2000)), "too large"},
		{"endless body", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", media)
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat(" ", 1<<16)); err != nil {
					return
				}
			}
		}, "too large"},
		{"lying length", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", media)
			w.Header().Set("Content-Length", "900")
			_, _ = io.WriteString(w, result)
		}, "body"},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			wantEqual(t, "path after a redirect", r.URL.Path, "/mcp")
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, "redirects are not followed"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			tr := serve(t, tc.handler, &clienthttp.Options{MaxResponseBytes: 1000})
			resp, err := tr.Handle(t.Context(), request(), &collect{})
			if tc.want == "" {
				if err != nil || (string(resp.Result) != `{"x":1}` && resp.Error == nil) {
					t.Errorf("got %+v, %v, want a response", resp, err)
				}
				return
			}
			if err == nil || resp != nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %+v, %v, want an error with %q", resp, err, tc.want)
			}
			if _, ok := protocol.AsError(err); ok {
				t.Errorf("%v looks as if the server had said it", err)
			}
			response, ok := errors.AsType[interface {
				error
				HasRun() bool
			}](err)
			ran := tc.want == "too large" && tc.name != "big refusal"
			if (ok && response.HasRun()) != ran {
				t.Errorf("%v: has run %t, want %t", err, !ran, ran)
			}
		})
	}
}

func TestStatusErrors(t *testing.T) {
	t.Run("page", func(t *testing.T) {
		page := answer(503, "text/plain", strings.Repeat("é\xff", 1000))
		_, err := serve(t, page, nil).Handle(t.Context(), request(), nil)
		e, ok := errors.AsType[*clienthttp.StatusError](err)
		if text := fmt.Sprint(err); !ok || e.Status != 503 || e.HTTPStatus() != 503 ||
			len(text) > 600 || !strings.Contains(text, "éé") || strings.Contains(text, `\x`) {
			t.Errorf("got %s", text)
		}
	})
	t.Run("challenge", func(t *testing.T) {
		for _, body := range []string{"", `{"jsonrpc":"2.0","error":{"code":23224,"message":"who are you"}}`} {
			t.Run(fmt.Sprintf("with a message %v", body != ""), func(t *testing.T) {
				tr := serve(t, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("WWW-Authenticate", `Bearer scope="x"`)
					answer(401, media, body)(w, r)
				}, nil)
				_, err := tr.Handle(t.Context(), request(), nil)
				e, ok := errors.AsType[*clienthttp.StatusError](err)
				if !ok || e.Header.Get("WWW-Authenticate") != `Bearer scope="x"` {
					t.Errorf("got %v", err)
				}
				if _, said := protocol.AsError(err); said != (body != "") {
					t.Errorf("got %v for body %q", err, body)
				}
			})
		}
	})
	t.Run("network", func(t *testing.T) {
		tr := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			nil)
		if _, err := tr.Handle(t.Context(), request(), nil); err == nil ||
			strings.Contains(err.Error(), "127.0.0.1") && strings.Contains(err.Error(), "/mcp") {
			t.Errorf("got %v, want an error without the URL", err)
		}
	})
}

func TestNotificationsInOrder(t *testing.T) {
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, "data: "+note+"\n\n", i)
	}
	fmt.Fprintf(&b, "data: %s\n\n", result)
	back := &collect{}
	_, err := serve(t, answer(200, stream, b.String()), nil).Handle(t.Context(), request(), back)
	noError(t, err)
	if len(back.got) != 100 || back.got[0] != `{"n":0}` || back.got[99] != `{"n":99}` {
		t.Errorf("got %q", back.got)
	}
	back = &collect{err: errors.New("gone")}
	if _, err := serve(t, answer(200, stream, b.String()), nil).Handle(t.Context(), request(),
		back); !errors.Is(err, back.err) || len(back.got) != 1 {
		t.Errorf("got %v after %d notifications", err, len(back.got))
	}
}

// The server sends one message, then hangs. After a response neither the call nor Close waits.
func TestRequestEndsWithContextOrTransport(t *testing.T) {
	for _, end := range []string{"cancel", "close", "response"} {
		t.Run(end, func(t *testing.T) {
			message := fmt.Sprintf(note, 1)
			if end == "response" {
				message = result
			}
			begun, gone := make(chan struct{}), make(chan struct{})
			tr := serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				answer(200, stream, "data: "+message+"\n\n")(w, r)
				_ = http.NewResponseController(w).Flush()
				close(begun)
				<-r.Context().Done()
				close(gone)
			}, nil)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var want error
			switch end {
			case "cancel":
				want = context.Canceled
				go func() { <-begun; cancel() }()
			case "close":
				want = clienthttp.ErrClosed
				go func() { <-begun; _ = tr.Close() }()
			}
			if _, err := tr.Handle(ctx, request(), nil); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
			if end == "response" {
				_ = tr.Close()
			}
			<-gone
		})
	}
}

func TestConnectionsAreReused(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"JSON": answer(200, media, result), "stream": answer(200, stream, "data: "+result+"\n\n"),
	} {
		t.Run(name, func(t *testing.T) {
			remotes := map[string]bool{}
			tr := serve(t, func(w http.ResponseWriter, r *http.Request) {
				remotes[r.RemoteAddr] = true
				h(w, r)
			}, nil)
			for range 20 {
				ctx, cancel := context.WithCancel(t.Context())
				_, err := tr.Handle(ctx, request(), nil)
				noError(t, err)
				cancel()
			}
			// The client may read a stream's end late, and then opens a second connection.
			if len(remotes) > 4 {
				t.Errorf("20 requests took %d connections", len(remotes))
			}
		})
	}
}

// The error of a refused notification has the reason, for every body, with and without a session.
func TestNotify(t *testing.T) {
	n := &protocol.Notification{
		Method: "notifications/cancelled", Params: json.RawMessage(`{"requestId":7}`),
	}
	isRefusal := func(err error, status int, text string) bool {
		refused, ok := errors.AsType[*clienthttp.StatusError](err)
		return ok && refused.Status == status && strings.Contains(err.Error(), text)
	}
	for _, status := range []int{202, 200, 307, 400, 403, 404, 500} {
		for name, body := range map[string]string{
			"empty":            "",
			"error without id": `{"jsonrpc":"2.0","error":{"code":-32602,"message":"why"}}`,
			"error with null":  `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"why"}}`,
			"error with an id": `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"why"}}`,
			"result":           result,
			"garbage":          `<html>`,
		} {
			t.Run(fmt.Sprintf("%d %s", status, name), func(t *testing.T) {
				err := serve(t, answer(status, media, body), nil).Notify(t.Context(), n)
				if status < 300 {
					if name == "empty" {
						noError(t, err)
					}
					return
				}
				text := ""
				if name == "error without id" && status != 307 {
					text = "why"
				}
				if !isRefusal(err, status, text) {
					t.Errorf("modern: got %v, want status %d", err, status)
				}
				s := &legacyServer{id: "s", notify: answer(status, media, body)}
				in(t, s, &asked{}, func(t *testing.T, x protocol.LegacySession) {
					err := x.Notify(t.Context(), n)
					if !isRefusal(err, status, text) ||
						errors.Is(err, protocol.ErrSessionGone) != (status == 404) {
						t.Errorf("in a session: got %v, want status %d", err, status)
					}
				})
			})
		}
	}
}

// A message of exactly the limit is accepted, one more byte is not.
func TestMaxResponseBytesIsExact(t *testing.T) {
	for _, test := range []struct {
		limit   int64
		size    int
		refused bool
	}{{1000, 1000, false}, {1000, 1001, true}, {0, 4<<20 + 1, false}, {0, 16<<20 + 1, true},
		{-1, 16<<20 + 1, false}} {
		filler := strings.Repeat("x", test.size-len(result)-1)
		body := strings.Replace(result, "1}", `"`+filler+`"}`, 1)
		if len(body) != test.size {
			t.Fatalf("%d bytes", len(body))
		}
		for name, handler := range map[string]http.HandlerFunc{
			// Besides its message an event may have 512 bytes.
			"event": answer(200, stream, "data: "+strings.Replace(body, "x", strings.Repeat("x",
				600), 1)+"\n\n"),
			"known length": func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", strconv.Itoa(len(body)))
				answer(200, media, body)(w, r)
			},
			"unknown length": func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", media)
				w.(http.Flusher).Flush()
				_, _ = io.WriteString(w, body)
			},
		} {
			t.Run(fmt.Sprintf("%s, limit %d, size %d", name, test.limit, test.size),
				func(t *testing.T) {
					if name == "event" && test.size == 1000 {
						return // the message is larger than the limit
					}
					_, err := serve(t, handler, &clienthttp.Options{
						MaxResponseBytes: test.limit}).Handle(t.Context(), request(), nil)
					if errors.Is(err, clienthttp.ErrResponseTooLarge) != test.refused ||
						!test.refused && err != nil {
						t.Errorf("got %v", err)
					}
				})
		}
	}
}

// A hostile server answers a request over HTTP. The cost includes that of the test's server.
func TestResponseCostIsLinear(t *testing.T) {
	const head, tail = `{"jsonrpc":"2.0","id":7,"result":{"x":`, `}}`
	for _, tt := range []struct {
		name, media string
		status      int
		inputs      []testkit.GrowthInput
	}{
		{"body", media, 200, testkit.Repaired(testkit.GrowthValues(head, tail))},
		{"error body", media, 400, refusedAll(testkit.GrowthValues(head, tail))},
		{"event", stream, 200, testkit.Repaired(testkit.GrowthValues("data: "+head, tail+"\n\n"))},
		{"stream", stream, 200, []testkit.GrowthInput{
			{Name: "CR", Make: testkit.Repeat("", "\r", "data: "+result+"\n\n")},
			{Name: "comments", Make: testkit.Repeat("", ":\n", "data: "+result+"\n\n")},
			{Name: "other events",
				Make: testkit.Repeat("", "event: x\ndata: y\n\n", "data: "+result+"\n\n")},
			{Name: "notifications", Make: testkit.Repeat(
				"", `data: {"jsonrpc":"2.0","method":"notifications/message","params":{}}`+"\n\n",
				"data: "+result+"\n\n",
			)},
			{Name: "never a response", Make: testkit.Repeat("", "data: \r\r", ""), Refused: true},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var text string
			tr := serve(t, func(w http.ResponseWriter, r *http.Request) {
				answer(tt.status, tt.media, text)(w, r)
			}, nil)
			testkit.CheckGrowth(t, testkit.GrowthReader{
				Read: func(input []byte) bool {
					text = string(input)
					_, err := tr.Handle(t.Context(), request(), nil)
					return err == nil
				},
				BytesPerByte: 30, ObjectsPerByte: 0.3,
			}, tt.inputs...)
		})
	}
}

func refusedAll(inputs []testkit.GrowthInput) []testkit.GrowthInput {
	for i := range inputs {
		inputs[i].Refused = true // a result is invalid with this status
	}
	return inputs
}

// A call's deadline also holds for an endless stream, after an event that has grown the buffer.
func TestDeadlineWithinEndlessStream(t *testing.T) {
	const deadline, hangs = 100 * time.Millisecond, 10 * time.Second
	for name, part := range map[string]string{
		"CR": strings.Repeat("\r", 1<<20), "comments": strings.Repeat(":\r", 1<<19),
		"events": strings.Repeat("event: x\rdata: y\r\r", 64<<10),
	} {
		endless := func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", stream)
			text := "event: x\ndata: " + strings.Repeat("x", 1<<20) + "\n\n"
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, text); err != nil {
					return
				}
				text = part
			}
		}
		expires := func(t *testing.T, call func(ctx context.Context) error) {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- call(ctx) }()
			select {
			case err := <-ended:
				testkit.WantIs(t, "past the deadline", err, context.DeadlineExceeded)
			case <-time.After(hangs):
				t.Fatalf("a call with a deadline of %v has not returned after %v", deadline, hangs)
			}
		}
		t.Run("modern "+name, func(t *testing.T) {
			tr := serve(t, endless, nil)
			expires(t, func(ctx context.Context) error {
				_, err := tr.Handle(ctx, request(), nil)
				return err
			})
		})
		t.Run("legacy "+name, func(t *testing.T) {
			ts := httptest.NewServer(&legacyServer{id: "s", call: endless})
			defer ts.Close()
			x, _ := openSession(t, redirected{ts}, nil, &asked{})
			expires(t, func(ctx context.Context) error {
				_, err := x.Handle(ctx, request(), nil)
				return err
			})
		})
	}
}

type redirected struct{ ts *httptest.Server }

func (r redirected) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.URL.Host = r.ts.Listener.Addr().String()
	return r.ts.Client().Transport.RoundTrip(req)
}

var (
	noError   = testkit.NoError
	wantEqual = testkit.WantEqual
)
