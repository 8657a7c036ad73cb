package middleware_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// As observers, Log and Metrics report refusals that never reach middleware, without secrets.
func TestRefusalsOverHTTP(t *testing.T) {
	r := newRig(t)
	ts := httptest.NewServer(servertest.NewHandler(t, r.Server, &serverhttp.Options{
		Authenticate: func(r *http.Request) (protocol.Principal, error) {
			switch token := r.Header.Get("Authorization"); token {
			case "good":
				return protocol.Principal{Subject: "ann"}, nil
			default:
				return protocol.Principal{},
					fmt.Errorf("token %q has expired\nmcp.request outcome=complete", token)
			}
		},
	}))
	t.Cleanup(ts.Close)
	send := func(method, body string, change ...string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, ts.URL, strings.NewReader(body))
		noError(t, err)
		req.Header = http.Header{"Content-Type": {"application/json"},
			"Accept": {"application/json, text/event-stream"}, "Authorization": {"good"}}
		for i := 0; i < len(change); i += 2 {
			req.Header.Set(change[i], change[i+1])
		}
		req.Host = req.Header.Get("Host")
		response, err := ts.Client().Do(req)
		noError(t, err)
		response.Body.Close()
	}
	const ping = `{"jsonrpc":"2.0","id":"line\nbreak","method":"ping"}`
	send("POST", ping, "Authorization", "5ecret-t0ken")
	send("POST", ping, "Origin", "https://evil.example.com")
	send("POST", ping, "Host", "evil.example.com")
	send("POST", ping, "Mcp-Session-Id", "5ecret-5e55ion")
	send("POST", ping, "Content-Type", "text/plain")
	send("PUT", "")
	for _, want := range []struct{ status, reason, text string }{
		{"401", "unauthenticated", `token "[redacted]" has expired\nmcp.request`},
		{"403", "origin", "serverhttp.Options.AllowedOrigins"},
		{"403", "host", "serverhttp.Options.AllowedHosts"},
		{"404", "session_gone", "SessionTimeout"},
		{"415", "media_type", "Content-Type"},
		{"405", "http_method", "POST"},
	} {
		t.Run(want.reason, func(t *testing.T) {
			r.wantValue(1, "rondo_http_refusals_total", "status", want.status, "reason",
				want.reason)
			found := refusedFor(r.logs, want.reason)
			if len(found) != 1 {
				t.Errorf("%s: %d lines, want one", want.reason, len(found))
				return
			}
			fields := found[0].ContextMap()
			if fmt.Sprint(fields["status"]) != want.status || fields["transport"] != "http" ||
				!strings.HasPrefix(fmt.Sprint(fields["remote_addr"]), "127.0.0.1:") ||
				!strings.Contains(fmt.Sprint(fields["error"]), want.text) {
				t.Errorf("%s: got %v", want.reason, fields)
			}
		})
	}
	gone := refusedFor(r.logs, "session_gone")[0].ContextMap()
	wantEqual(t, "got id", gone["id"], `"line\nbreak"`)
	wantNoPart(t, "log and metrics", fmt.Sprint(r.logs.All(), r.exposition()), "5ecret")
	wantEqual(t, "requests passed the middleware", r.logs.FilterMessage("mcp.request").Len(), 0)
}

func refusedFor(logs *observer.ObservedLogs, reason string) []observer.LoggedEntry {
	return logs.FilterMessage("mcp.request_refused").Filter(func(e observer.LoggedEntry) bool {
		return e.ContextMap()["reason"] == reason
	}).All()
}

func TestRefusalsOnLines(t *testing.T) {
	r := newRig(t)
	var out strings.Builder
	in := "{\n" + `{"jsonrpc":"2.0","id":5}` + "\n" + `{"jsonrpc":"2.0","id":6,"method":"ping"}` + "\n"
	noError(t, r.ServeStream(t.Context(), strings.NewReader(in), &out, nil))
	r.wantValue(2, "rondo_line_refusals_total", "reason", "malformed")
	r.wantValue(0, "rondo_http_refusals_total")
	lines := r.logs.FilterMessage("mcp.request_refused").All()
	if len(lines) != 2 || lines[1].ContextMap()["id"] != "5" ||
		lines[1].ContextMap()["transport"] != "stream" || lines[1].ContextMap()["status"] != nil {
		t.Errorf("got %v", lines)
	}
	if r.logs.FilterMessage("mcp.request").Len() != 1 {
		t.Error("the request that was served is not logged")
	}
}

// A log tells the reason and the number of refusals, and a peer cannot flood it.
func TestFloodOfRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, logs := newLog(nil)
		refuse := func(reason event.RefusalReason, n int) {
			for range n {
				log.Observe(t.Context(), event.RequestRefused{Transport: "http", Status: 403,
					Reason: reason, Err: errors.New("no")})
			}
		}
		lines := func() int { return logs.FilterMessage("mcp.request_refused").Len() }
		sums := func() []observer.LoggedEntry {
			return logs.FilterMessage("mcp.requests_refused").All()
		}

		refuse(words.RefusedOrigin, 10)
		time.Sleep(2 * time.Second)
		if lines() != 10 || len(sums()) != 0 {
			t.Fatalf("ten in a second: got %d lines and %d summaries", lines(), len(sums()))
		}
		refuse(words.RefusedOrigin, 4)
		time.Sleep(900 * time.Millisecond)
		refuse(words.RefusedOrigin, 6)
		time.Sleep(99 * time.Millisecond)
		refuse(words.RefusedOrigin, 3) // within a second of the first
		refuse("made up", 2)
		refuse(words.RefusedUnauthenticated, 1)
		if lines() != 20 || len(sums()) != 0 {
			t.Fatalf("more than ten in a second: got %d lines and %d summaries", lines()-10,
				len(sums()))
		}
		time.Sleep(2 * time.Second)
		if s := sums(); len(s) != 1 || s[0].ContextMap()["count"] != int64(6) ||
			fmt.Sprint(s[0].ContextMap()["reasons"]) != "[origin 3 other 2 unauthenticated 1]" {
			t.Errorf("got %v", s)
		}
		// The limit holds for any second, and all refusals are counted in the end.
		logs.TakeAll()
		const sent = 5000
		for range sent {
			refuse(words.RefusedOrigin, 1)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		var times []time.Time
		for _, e := range logs.FilterMessage("mcp.request_refused").All() {
			times = append(times, e.Time)
		}
		for i := 10; i < len(times); i++ {
			if times[i].Sub(times[i-10]) < time.Second {
				t.Fatalf("eleven lines within %s", times[i].Sub(times[i-10]))
			}
		}
		total := int64(len(times))
		for _, s := range sums() {
			total += s.ContextMap()["count"].(int64)
		}
		if total != sent || len(sums()) > 7 {
			t.Errorf("%d lines and %d summaries tell of %d refusals, want %d", len(times),
				len(sums()), total, sent)
		}
	})
}

// Invented statuses and reasons make no series.
func TestRefusalMetricsAreBounded(t *testing.T) {
	w := newWatch(t, nil, nil)
	for _, name := range []string{"origin", "unauthenticated", "session_gone",
		"too_many_sessions"} {
		w.wantValue(0, "rondo_http_refusals_total", "reason", name)
	}
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Go(func() {
			reason := event.RefusalReason(fmt.Sprint(i))
			w.metrics.Observe(t.Context(), event.RequestRefused{Status: 1000 + i, Reason: reason})
			w.metrics.Observe(t.Context(),
				event.RequestRefused{Reason: reason, Code: protocol.CodeBusy})
		})
	}
	wg.Wait()
	w.wantValue(500, "rondo_http_refusals_total", "status", "other", "reason", "other")
	w.wantValue(500, "rondo_line_refusals_total", "reason", "other")
}

// Operators' problems are warnings, clients' common errors are not.
func TestRefusalLevels(t *testing.T) {
	for reason, want := range map[event.RefusalReason]zapcore.Level{
		words.RefusedHost:            zap.WarnLevel,
		words.RefusedUnverified:      zap.WarnLevel, // the callers did nothing wrong
		words.RefusedUnreachable:     zap.WarnLevel,
		words.RefusedUnauthenticated: zap.InfoLevel,
		words.RefusedMalformed:       zap.InfoLevel,
	} {
		log, logs := newLog(nil)
		log.Observe(t.Context(), event.RequestRefused{Reason: reason, Status: 503})
		if entries := logs.All(); len(entries) != 1 || entries[0].Level != want {
			t.Errorf("%s: got %v, want one entry of level %v", reason, entries, want)
		}
	}
}
