package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	legacyOnly = `"error":{"code":-32022,"message":"m","data":{"supported":["2025-11-25","2025-06-18"],"requested":"2026-07-28"}}`
	bothEras   = `"result":{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{},"ttlMs":0,"cacheScope":"private"}`
)

// The function says answers with a status, type and text, whose word ID becomes the request's id.
func says(status int, media, text string) func(http.ResponseWriter, legacyMessage) {
	return func(w http.ResponseWriter, m legacyMessage) {
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, strings.ReplaceAll(text, "ID", string(m.ID)))
	}
}

func saysJSON(status int, body string) func(http.ResponseWriter, legacyMessage) {
	return says(status, "application/json", `{"jsonrpc":"2.0","id":ID,`+body+`}`)
}

// This is the compatibility matrix over HTTP (basic/versioning): the first request's outcome.
func TestNegotiationOverHTTP(t *testing.T) {
	const modern, legacy, neither = "2026-07-28", "2025-11-25", ""
	tests := []struct {
		name   string
		answer func(http.ResponseWriter, legacyMessage)
		want   string
		err    string // of the first call
	}{
		{"modern or both", saysJSON(200, bothEras), modern, ""},
		{"refuses what it claims to speak",
			saysJSON(400, `"error":{"code":-32022,"message":"m","data":{"supported":["2026-07-28"]}}`),
			modern, ""},
		{"discovers legacy only", saysJSON(200, strings.ReplaceAll(bothEras, `"2026-07-28",`, "")),
			legacy, ""},
		{"refuses modern", saysJSON(400, legacyOnly), legacy, ""},
		{"400 empty", says(400, "", ""), legacy, ""},
		{"400 text", says(400, "text/plain", "Bad Request: no session"), legacy, ""},
		{"400 without id", says(400, "application/json",
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}`),
			legacy, ""},
		{"400 with another id", says(
			400, "application/json",
			`{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Missing session ID"}}`,
		), legacy, ""},
		{"404", says(404, "", ""), legacy, ""},
		{"404 of a session", saysJSON(404, `"error":{"code":-32001,"message":"Session not found"}`),
			legacy, ""},
		{"405", says(405, "", ""), legacy, ""},
		{"406", says(406, "text/html", "<p>"), legacy, ""},
		{"200 unknown method", saysJSON(200, `"error":{"code":-32601,"message":"m"}`), legacy, ""},
		{"200 not initialized", saysJSON(200, `"error":{"code":-32602,"message":"m"}`), legacy, ""},
		{"200 and nothing", saysJSON(200, `"result":{}`), legacy, ""},
		{"a number of a draft", saysJSON(400,
			strings.ReplaceAll(legacyOnly, "-32022", "-32004")), legacy,
			""},
		{"asks", says(200, "text/event-stream",
			"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n"),
			legacy, ""},

		{"another modern revision",
			saysJSON(400, `"error":{"code":-32022,"message":"m","data":{"supported":["2027-01-01"]}}`),
			neither, "2027-01-01"},
		{"no list of versions", saysJSON(400, `"error":{"code":-32022,"message":"m"}`),
			neither, "-32022"},
		{"header mismatch", saysJSON(400, `"error":{"code":-32020,"message":"m"}`),
			neither, "-32020"},
		{"500", says(500, "", ""), neither, "500"},
		{"500 with a message", saysJSON(500, `"error":{"code":-32603,"message":"broken"}`), neither,
			"broken"},
		{"503", says(503, "text/plain", "later"), neither, "503"},
		{"429", says(429, "", ""), neither, "429"},
		{
			"429 with a message", saysJSON(429, `"error":{"code":-32000,"message":"slow down"}`), neither,
			"slow down",
		},
		{"408", says(408, "", ""), neither, "408"},
		{"401", says(401, "", ""), neither, "401"},
		{"403", says(403, "", ""), neither, "403"},
		{"302", says(302, "", ""), neither, "302"},
		{"garbage", says(200, "application/json", "<html>"), neither, "response"},
		{"a page", says(200, "text/html", "<html>"), neither, "content type"},
		{"half a stream", says(200, "text/event-stream", "data: {"), neither, "without a response"},
		{"lost", func(w http.ResponseWriter, _ legacyMessage) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			_ = conn.Close()
		}, neither, "no response"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := &legacyHTTP{legacyServer: &legacyServer{refuse: test.answer}, noGet: true}
			c := s.client(t, nil)
			for range 2 { // the second call uses the first one's verdict, or negotiates again
				r, err := c.CallTool(t.Context(), "t", nil)
				if test.err == "" {
					wantDone(t, r, err)
				} else if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got %v, want %q", err, test.err)
				}
			}
			wantEqual(t, "negotiated", string(c.Negotiated()), test.want)
			want := map[string][]string{
				modern: {"server/discover", "tools/call", "tools/call"},
				legacy: {
					"server/discover", "initialize", "notifications/initialized", "tools/call",
					"tools/call",
				},
				neither: {"server/discover", "server/discover"},
			}[test.want]
			wantEqual(t, "sent", fmt.Sprint(s.methods()), fmt.Sprint(want))
		})
	}
}

// An initialize fails that follows a refused server/discover.
func TestRefusedInitializeFails(t *testing.T) {
	tests := []struct{ name, answer, err string }{
		{"refused", `"error":{"code":-32600,"message":"only 2026-07-28"}`, "only 2026-07-28"},
		{"unknown revision",
			`"result":{"protocolVersion":"2023-01-01","capabilities":{},"serverInfo":{"name":"n","version":"1"}}`,
			"2023-01-01"},
		{"modern revision",
			`"result":{"protocolVersion":"2026-07-28","capabilities":{},"serverInfo":{"name":"n","version":"1"}}`,
			"2026-07-28"},
		{"no revision", `"result":{}`, "protocolVersion"},
		{"null", `"result":null`, "result"},
	}
	for _, way := range []string{"post stream", "lines"} {
		for _, test := range tests {
			t.Run(way+"/"+test.name, func(t *testing.T) {
				s := &legacyServer{handle: on("initialize", test.answer)}
				c := s.reach(t, way, nil)
				for range 2 {
					if _, err := c.CallTool(t.Context(), "t", nil); err == nil ||
						!strings.Contains(err.Error(), test.err) {
						t.Errorf("got %v, want %q", err, test.err)
					}
				}
				if slices.Contains(s.methods(), "tools/call") || c.Negotiated() != "" {
					t.Errorf("sent %v, negotiated %q", s.methods(), c.Negotiated())
				}
			})
		}
	}
}

// TestNegotiationOverLines checks the compatibility matrix over streams.
func TestNegotiationOverLines(t *testing.T) {
	tests := []struct {
		name   string
		answer string
		want   protocol.Version
		err    string
	}{
		{"modern", bothEras, protocol.V20260728, ""},
		{
			"modern error", `"error":{"code":-32022,"message":"m","data":{"supported":["2026-07-28"]}}`,
			protocol.V20260728, "",
		},
		{"legacy versions only", legacyOnly, protocol.V20251125, ""},
		{"unknown method", `"error":{"code":-32601,"message":"m"}`, protocol.V20251125, ""},
		{"invalid params", `"error":{"code":-32602,"message":"m"}`, protocol.V20251125, ""},
		{"its own number", `"error":{"code":-1,"message":"m"}`, protocol.V20251125, ""},
		{"nothing", `"result":{}`, protocol.V20251125, ""},
		{"no message", `"nonsense":1`, protocol.V20251125, ""},
		{"silence", `"silence"`, protocol.V20251125, ""},
		{
			"another modern revision",
			`"error":{"code":-32022,"message":"m","data":{"supported":["2027-01-01"]}}`, "", "2027-01-01",
		},
		{"missing capability", `"error":{"code":-32021,"message":"m"}`, "", "-32021"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := &legacyServer{handle: on("server/discover", test.answer)}
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, s.onLines(t, nil), nil)
				r, err := c.CallTool(t.Context(), "t", nil)
				if test.err == "" {
					wantDone(t, r, err)
				} else if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got %v, want %q", err, test.err)
				}
				wantEqual(t, "negotiated", c.Negotiated(), test.want)
			})
		})
	}
}

func TestSlowServerIsAskedAgain(t *testing.T) {
	var asked atomic.Int32
	s := &legacyServer{handle: func(m legacyMessage) string {
		switch {
		case m.Method == "server/discover" && asked.Add(1) == 1:
			return `"silence"`
		case m.Method == "server/discover":
			return bothEras
		case m.Method == "initialize":
			return `"error":{"code":-32601,"message":"only 2026-07-28"}`
		}
		return ""
	}}
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, s.onLines(t, nil), nil)
		if v, err := c.Negotiate(t.Context()); v != protocol.V20260728 || err != nil {
			t.Errorf("got %q, %v", v, err)
		}
	})
}

func TestEraOptions(t *testing.T) {
	tests := []struct {
		name   string
		opts   client.Options
		modern bool // the server is modern
		want   []string
		err    bool
	}{
		{"modern only, modern", client.Options{Era: protocol.Modern}, true,
			[]string{"tools/call"}, false},
		{"modern only, legacy", client.Options{Era: protocol.Modern}, false,
			[]string{"tools/call"}, true},
		{"legacy only, legacy", client.Options{Era: protocol.Legacy}, false,
			[]string{"initialize", "notifications/initialized", "tools/call"}, false},
		{"legacy only, modern", client.Options{Era: protocol.Legacy}, true, []string{"initialize"},
			true},
	}
	overEach(t, func(t *testing.T, way string) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				s := &legacyServer{}
				s.handle = func(m legacyMessage) string {
					switch {
					case test.modern && m.Method == "server/discover":
						return bothEras
					case test.modern && m.Method == "initialize":
						return `"error":{"code":-32601,"message":"supported: 2026-07-28"}`
					}
					return ""
				}
				s.call = func(m legacyMessage, _ pusher) string {
					isModern := strings.Contains(string(m.Params),
						"io.modelcontextprotocol/protocolVersion")
					if isModern == test.modern {
						return legacyDone
					}
					return `{"code":-32000,"message":"Bad Request: no session"}`
				}
				r, err := s.reach(t, way, &test.opts).CallTool(t.Context(), "t", nil)
				if !test.err {
					wantDone(t, r, err)
				} else if err == nil {
					t.Error("no error")
				}
				wantEqual(t, "sent", fmt.Sprint(s.methods()), fmt.Sprint(test.want))
			})
		}
	})
}

// The client notices when a server is downgraded. Similar errors rarely cause a new negotiation.
func TestServerThatChangesItsEra(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var old atomic.Bool
		s := &legacyServer{}
		s.handle = func(m legacyMessage) string {
			if m.Method == "server/discover" && !old.Load() {
				return bothEras
			}
			return ""
		}
		s.call = func(m legacyMessage, _ pusher) string {
			if strings.Contains(string(m.Params), "protocolVersion") &&
				(old.Load() || strings.Contains(string(m.Params), "odd")) {
				return `{"code":-32600,"message":"no session"}`
			}
			return legacyDone
		}
		c := newClient(t, s.onLines(t, nil), nil)
		odd := func(want int) {
			t.Helper()
			for range 3 {
				if _, err := c.CallTool(t.Context(), "odd", nil); err == nil {
					t.Error("no error")
				}
			}
			probes := 0
			for _, m := range s.methods() {
				if m == "server/discover" {
					probes++
				}
			}
			if probes != want || c.Negotiated() != protocol.V20260728 {
				t.Errorf("probed %d times, want %d; negotiated %s", probes, want, c.Negotiated())
			}
		}
		wantCall(t, c, "t")
		odd(1) // a fresh verdict is not checked again
		time.Sleep(2 * time.Minute)
		odd(2)
		time.Sleep(2 * time.Minute)
		old.Store(true)
		wantCall(t, c, "t")
		wantEqual(t, "negotiated", c.Negotiated(), protocol.V20251125)
	})
}

func TestOneNegotiationForAll(t *testing.T) {
	overEach(t, func(t *testing.T, way string) {
		s := &legacyServer{}
		c := s.reach(t, way, nil)
		var wait sync.WaitGroup
		for i := range 20 {
			wait.Go(func() {
				if r, err := c.CallTool(t.Context(), fmt.Sprint(i), nil); err != nil ||
					len(r.Content) != 1 {
					t.Errorf("got %v, %v", r, err)
				}
			})
		}
		wait.Wait()
		count := map[string]int{}
		for _, m := range s.methods() {
			count[m]++
		}
		if count["server/discover"] != 1 || count["initialize"] != 1 || count["tools/call"] != 20 {
			t.Errorf("sent %v", count)
		}
	})
}

// blocking returns a server that answers server/discover only when released.
func blocking(t *testing.T) (s *legacyHTTP, begun chan struct{}, release func()) {
	begun, gate := make(chan struct{}, 16), make(chan struct{})
	var once sync.Once
	release = func() { once.Do(func() { close(gate) }) }
	s = &legacyHTTP{legacyServer: &legacyServer{refuse: func(w http.ResponseWriter,
		_ legacyMessage) {
		begun <- struct{}{}
		select {
		case <-gate:
		case <-t.Context().Done(): // before the server is closed, which waits for requests
		}
		w.WriteHeader(400)
	}}, noGet: true}
	return s, begun, release
}

func TestNegotiationOutlivesItsFirstCaller(t *testing.T) {
	s, begun, release := blocking(t)
	c := s.client(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { _, err := c.CallTool(ctx, "t", nil); first <- err }()
	<-begun
	go func() { _, err := c.CallTool(t.Context(), "t", nil); second <- err }()
	for !c.Waiting(2) {
		time.Sleep(time.Millisecond)
	}
	cancel(gone)
	wantIs(t, "error", <-first, gone)
	release()
	noError(t, <-second)
}

func TestNegotiationEndsWithItsLastCaller(t *testing.T) {
	s, begun, release := blocking(t)
	c := s.client(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	_, err := c.CallTool(ctx, "t", nil)
	wantIs(t, "call", err, context.Canceled)
	release()
	wantCall(t, c, "t")
}

func TestCloseEndsNegotiation(t *testing.T) {
	s, begun, _ := blocking(t)
	c := s.client(t, nil)
	over := make(chan error, 1)
	go func() { _, err := c.Negotiate(t.Context()); over <- err }()
	<-begun
	noError(t, c.Close())
	wantIs(t, "error", <-over, client.ErrClosed)
	_, err := c.Negotiate(t.Context())
	wantIs(t, "closed", err, client.ErrClosed)
}

func refusing(n int32, e *protocol.Error, result string) *fakePeer {
	var seen atomic.Int32
	return answering(func(req *protocol.Request) (response, error) {
		if seen.Add(1) <= n {
			return refuse(req, e)
		}
		return reply(req, result)
	})
}

func TestRefusedVersion(t *testing.T) {
	ours := []protocol.Version{protocol.V20260728}
	cases := []struct {
		name      string
		refusals  int32
		supported []protocol.Version
		requests  int
		failure   string // empty: none
	}{
		{"one that is spoken after all", 1, ours, 2, ""},
		{"among others", 1, []protocol.Version{"2030-01-01", protocol.V20260728}, 2, ""},
		{"twice", 2, ours, 2, "claims to support"},
		{"none in common", 1, []protocol.Version{"2030-01-01"}, 1, "only 2030-01-01"},
		{"legacy ones only", 1, []protocol.Version{protocol.V20251125, protocol.V20250618}, 1,
			"only 2025-11-25, 2025-06-18"},
		{"none at all", 1, nil, 1, "unsupported protocol version"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			peer := refusing(c.refusals, protocol.UnsupportedVersion("2026-07-28", c.supported),
				done)
			r, err := callOnce(t, peer, nil)
			if c.failure == "" {
				wantDone(t, r, err)
			} else if e, ok := protocol.AsError(err); !ok ||
				e.Code != protocol.CodeUnsupportedProtocolVersion ||
				!strings.Contains(err.Error(), c.failure) {
				t.Errorf("got %v, want %q", err, c.failure)
			}
			sent := peer.requests()
			if len(sent) != c.requests {
				t.Fatalf("got %d requests, want %d", len(sent), c.requests)
			}
			for i, req := range sent {
				if meta := metaOf(t, req); meta.Version != protocol.V20260728 ||
					req.Mirror.Version != protocol.V20260728 {
					t.Errorf("request %d: got version %s, mirrored %s", i, meta.Version,
						req.Mirror.Version)
				}
				if i > 0 && req.ID == sent[0].ID {
					t.Errorf("request %d: id %s is used twice", i, req.ID)
				}
			}
		})
	}
}

// Warn is called once for each legacy session after a failed server/discover, and only then.
func TestLegacySessionIsReported(t *testing.T) {
	for name, test := range map[string]struct {
		server *legacyServer
		opts   client.Options
		want   string
	}{
		"refused":   {&legacyServer{}, client.Options{}, "Method not found"},
		"asked for": {&legacyServer{}, client.Options{Era: protocol.Legacy}, ""},
		"both eras": {&legacyServer{handle: func(m legacyMessage) string {
			return map[string]string{"server/discover": bothEras,
				"tools/call": `"result":` + done}[m.Method]
		}}, client.Options{}, ""},
		"legacy only": {
			&legacyServer{handle: func(m legacyMessage) string {
				return map[string]string{"server/discover": legacyOnly}[m.Method]
			}},
			client.Options{}, "2025-11-25",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var told []error
			test.opts.Warn = func(_ context.Context, err error) {
				told = append(told, err)
			}
			c := newClient(t, test.server.onLines(t, nil), &test.opts)
			for range 2 {
				_, err := c.Negotiate(t.Context())
				noError(t, err)
			}
			switch {
			case test.want == "" && len(told) == 0:
			case len(told) != 1 || test.want == "" || !strings.Contains(told[0].Error(), test.want):
				t.Errorf("told %v, want %q", told, test.want)
			}
		})
	}
}
