package clienthttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
)

// serve starts a server and returns a transport to it; both are closed when
// the test ends.
func serve(t *testing.T, h http.HandlerFunc, opts *clienthttp.Options) *clienthttp.Transport {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	tr, err := clienthttp.New(server.URL+"/mcp", opts)
	noError(t, err)
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return tr
}

// answer writes a response with the given status, content type and body.
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

// collect is a way back that keeps the params of what it gets.
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
		Header: http.Header{"authorization": {
			"Bearer old",
		}, "X-Extra": {"a", "b"}, "accept": {"text/plain"}, "Mcp-Name": {"forged"}},
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
		if got := strings.Join(got.Header.Values(name), ","); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestHeadersAbsent(t *testing.T) {
	tr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Mcp-Name", "MCP-Protocol-Version"} {
			if v, ok := r.Header[http.CanonicalHeaderKey(name)]; ok {
				t.Errorf("%s: got %q, want none", name, v)
			}
		}
		answer(200, media, result)(w, r)
	}, &clienthttp.Options{Header: http.Header{"Mcp-Name": {"forged"},
		"MCP-Protocol-Version": {"forged"}}})
	req := request()
	req.Mirror = protocol.Mirror{}
	if _, err := tr.Handle(t.Context(), req, nil); err != nil {
		t.Error(err)
	}
}

func TestNothingIsSent(t *testing.T) {
	h := func(http.ResponseWriter, *http.Request) { t.Error("something was sent") }
	t.Run("authorize fails", func(t *testing.T) {
		cause := errors.New("no token")
		tr := serve(t, h, &clienthttp.Options{
			Authorizer: &scripted{credentials: func(context.Context,
				clienthttp.Outgoing) (http.Header, error) {
				return nil, cause
			}},
		})
		if _, err := tr.Handle(t.Context(), request(), nil); !errors.Is(err, cause) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("parameter name", func(t *testing.T) {
		for _, name := range []string{"", "a b", "a:b", "a\nX-Evil: 1", "é"} {
			t.Run(fmt.Sprintf("%q", name), func(t *testing.T) {
				req := request()
				req.Mirror.Params = []protocol.MirroredParam{{Name: name, Value: "x"}}
				if _, err := serve(t, h, nil).Handle(t.Context(), req, nil); err == nil {
					t.Errorf("%q was accepted", name)
				}
			})
		}
	})
	t.Run("no id", func(t *testing.T) {
		if _, err := serve(t, h, nil).Handle(t.Context(), &protocol.Request{Method: "x"},
			nil); err == nil {
			t.Error("a request without id was accepted")
		}
	})
	t.Run("closed", func(t *testing.T) {
		tr := serve(t, h, nil)
		_ = tr.Close()
		if _, err := tr.Handle(t.Context(), request(), nil); !errors.Is(err, clienthttp.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
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
		want    string // of the error; "" for a response
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
		{"cut stream", answer(200, stream, "data: "+result+"\n"), "without a response"},
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
			if r.URL.Path != "/mcp" {
				t.Error("the redirect was followed")
			}
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
		})
	}
}

func TestStatusErrors(t *testing.T) {
	t.Run("page", func(t *testing.T) {
		page := answer(503, "text/plain", strings.Repeat("é\xff", 1000))
		_, err := serve(t, page, nil).Handle(t.Context(), request(), nil)
		e, ok := errors.AsType[*clienthttp.StatusError](err)
		if !ok || e.Status != 503 || e.HTTPStatus() != 503 || len(e.Excerpt) > 512 ||
			e.Excerpt == "" ||
			strings.Contains(e.Excerpt, "\xff") {
			t.Errorf("got %+v", e)
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
	if _, err := serve(t, answer(200, stream, b.String()), nil).Handle(t.Context(), request(),
		back); err != nil {
		t.Fatal(err)
	}
	if len(back.got) != 100 || back.got[0] != `{"n":0}` || back.got[99] != `{"n":99}` {
		t.Errorf("got %q", back.got)
	}
	back = &collect{err: errors.New("gone")}
	if _, err := serve(t, answer(200, stream, b.String()), nil).Handle(t.Context(), request(),
		back); !errors.Is(err, back.err) || len(back.got) != 1 {
		t.Errorf("got %v after %d notifications", err, len(back.got))
	}
}

func TestRequestEndsWithContextOrTransport(t *testing.T) {
	// The server sends one notification and then nothing, until it sees that
	// the client has gone.
	start := func(t *testing.T) (tr *clienthttp.Transport, begun, gone chan struct{}) {
		begun, gone = make(chan struct{}), make(chan struct{})
		tr = serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", stream)
			_, _ = fmt.Fprintf(w, "data: "+note+"\n\n", 1)
			_ = http.NewResponseController(w).Flush()
			close(begun)
			<-r.Context().Done()
			close(gone)
		}, nil)
		return tr, begun, gone
	}
	t.Run("cancel", func(t *testing.T) {
		tr, begun, gone := start(t)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-begun; cancel() }()
		if _, err := tr.Handle(ctx, request(), nil); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		<-gone
	})
	t.Run("close", func(t *testing.T) {
		tr, begun, gone := start(t)
		go func() { <-begun; _ = tr.Close() }()
		if _, err := tr.Handle(t.Context(), request(), nil); !errors.Is(err, clienthttp.ErrClosed) {
			t.Errorf("got %v", err)
		}
		<-gone
	})
	t.Run("deadline before the header", func(t *testing.T) {
		tr := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 1)
		defer cancel()
		if _, err := tr.Handle(ctx, request(), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// A server that keeps its stream open after the response delays neither the call
// nor Close.
func TestStreamLeftOpen(t *testing.T) {
	gone := make(chan struct{})
	tr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		answer(200, stream, "data: "+result+"\n\n")(w, r)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	}, nil)
	if _, err := tr.Handle(t.Context(), request(), nil); err != nil {
		t.Fatal(err)
	}
	_ = tr.Close()
	<-gone
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
				if _, err := tr.Handle(ctx, request(), nil); err != nil {
					t.Fatal(err)
				}
				cancel()
			}
			// A stream's end may be read a moment late; then a second
			// connection is opened, not one a request.
			if len(remotes) > 4 {
				t.Errorf("20 requests took %d connections", len(remotes))
			}
		})
	}
}

func TestNotify(t *testing.T) {
	n := &protocol.Notification{
		Method: "notifications/cancelled", Params: json.RawMessage(`{"requestId":7}`),
	}
	for status, ok := range map[int]bool{202: true, 200: true, 400: false, 307: false} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			err := serve(t, answer(status, "", ""), nil).Notify(t.Context(), n)
			if (err == nil) != ok {
				t.Errorf("status %d: got %v", status, err)
			}
		})
	}
}

// TestARefusedNotificationSaysWhy: what the server says of it is in the error.
func TestARefusedNotificationSaysWhy(t *testing.T) {
	const body = `{"jsonrpc":"2.0","error":{"code":-32600,"message":"this host is unknown"}}`
	n := &protocol.Notification{Method: "notifications/initialized"}
	err := serve(t, answer(403, media, body), nil).Notify(t.Context(), n)
	refused, ok := errors.AsType[*clienthttp.StatusError](err)
	if !ok || refused.Status != 403 || refused.Response == nil ||
		!strings.Contains(err.Error(), "this host is unknown") {
		t.Errorf("got %v, want what the server says", err)
	}
}

// A refused notification is an error, with every kind of body, with and without
// a session.
func TestRefusedNotificationIsNotDelivered(t *testing.T) {
	n := &protocol.Notification{
		Method: "notifications/cancelled", Params: json.RawMessage(`{"requestId":7}`),
	}
	for _, status := range []int{400, 404, 500} {
		for name, body := range map[string]string{
			"error without id": `{"jsonrpc":"2.0","error":{"code":-32602,"message":"m"}}`,
			"error with null":  `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"m"}}`,
			"error with an id": `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"m"}}`,
			"result":           result,
			"garbage":          `<html>`,
		} {
			t.Run(fmt.Sprintf("%d %s", status, name), func(t *testing.T) {
				err := serve(t, answer(status, media, body), nil).Notify(t.Context(), n)
				refused, ok := errors.AsType[*clienthttp.StatusError](err)
				if !ok || refused.Status != status {
					t.Errorf("modern: got %v, want status %d", err, status)
				}
				s := &legacyServer{id: "s", notify: answer(status, media, body)}
				in(t, s, &asked{}, func(t *testing.T, x protocol.LegacySession) {
					err := x.Notify(t.Context(), n)
					refused, ok := errors.AsType[*clienthttp.StatusError](err)
					if !ok || refused.Status != status ||
						errors.Is(err, protocol.ErrSessionGone) != (status == 404) {
						t.Errorf("in a session: got %v, want status %d", err, status)
					}
				})
			})
		}
	}
}

// A message of exactly the limit is taken, one of a byte more is not.
func TestMaxResponseBytesIsExact(t *testing.T) {
	for _, over := range []int{0, 1} {
		filler := strings.Repeat("x", 1000-len(result)-1+over)
		body := strings.Replace(result, "1}", `"`+filler+`"}`, 1)
		if len(body) != 1000+over {
			t.Fatalf("%d bytes", len(body))
		}
		for name, handler := range map[string]http.HandlerFunc{
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
			t.Run(fmt.Sprintf("%s, %d over", name, over), func(t *testing.T) {
				_, err := serve(t, handler,
					&clienthttp.Options{MaxResponseBytes: 1000}).Handle(t.Context(), request(), nil)
				if errors.Is(err, clienthttp.ErrResponseTooLarge) != (over > 0) || over == 0 &&
					err != nil {
					t.Errorf("%s, %d bytes: got %v", name, len(body), err)
				}
			})
		}
	}
}

// A hostile server answers a request over HTTP. The cost includes the server of
// the test.
func TestResponseCostIsLinear(t *testing.T) {
	const head, tail = `{"jsonrpc":"2.0","id":7,"result":{"x":`, `}}`
	for _, tt := range []struct {
		name, media string
		status      int
		inputs      []testkit.GrowthInput
	}{
		{"body", media, 200, testkit.GrowthValues(head, tail)},
		{"error body", media, 400, refusedAll(testkit.GrowthValues(head, tail))},
		{"event", stream, 200, testkit.GrowthValues("data: "+head, tail+"\n\n")},
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
		inputs[i].Refused = true // a result does not go with the status
	}
	return inputs
}

// A server that sends without end, after an event that makes the buffer large,
// cannot hold a call beyond its deadline.
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
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, want the deadline", err)
				}
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
			x, tr := (&legacyServer{}).openOver(t, redirected{ts}, &asked{})
			expires(t, func(ctx context.Context) error {
				_, err := x.Handle(ctx, request(), nil)
				return err
			})
			if err := errors.Join(x.Close(), tr.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A redirected is a round tripper that sends every request to a server.
type redirected struct{ ts *httptest.Server }

func (r redirected) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.URL.Host = r.ts.Listener.Addr().String()
	return r.ts.Client().Transport.RoundTrip(req)
}

func TestNegativeMaxResponseBytesIsNoLimit(t *testing.T) {
	long := strings.Replace(result, "1}", `"`+strings.Repeat("x", (4<<20)+1<<10)+`"}`, 1)
	for name, handler := range map[string]http.HandlerFunc{
		"body":   answer(200, media, long),
		"stream": answer(200, stream, "data: "+long+"\n\n"),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := serve(t, handler, nil).Handle(t.Context(), request(), nil)
			if !errors.Is(err, clienthttp.ErrResponseTooLarge) {
				t.Errorf("default: got %v, want too large", err)
			}
			unlimited := serve(t, handler, &clienthttp.Options{MaxResponseBytes: -1})
			if _, err := unlimited.Handle(t.Context(), request(), nil); err != nil {
				t.Errorf("negative: got %v", err)
			}
		})
	}
}

// noError ends the test if err is not nil.
func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
