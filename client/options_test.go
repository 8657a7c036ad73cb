package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

func TestNegativePauseIsNoWait(t *testing.T) {
	for _, tc := range []struct {
		name  string
		opts  client.Options
		waits bool
	}{
		{"default", client.Options{}, true},
		{"negative MinPause", client.Options{MinPause: -1}, false},
		{"negative MaxPause", client.Options{MaxPause: -1}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				again := ask(`"requestState":"busy"`)
				start := time.Now()
				r, err := callOnce(t, script(again, again, again, done), &tc.opts)
				wantDone(t, r, err)
				if waited := time.Since(start) > 0; waited != tc.waits {
					t.Errorf("waited: %v, want %v", waited, tc.waits)
				}
			})
		})
	}
}

func TestNegativeCacheLimitsAreOff(t *testing.T) {
	// More results, and more bytes, than the limits.
	const results, entries, bytes = 11, 10, 1000
	text := strings.Repeat("x", bytes/results+1)
	for _, tc := range []struct {
		name string
		opts client.CacheOptions
		kept bool
	}{
		{"none negative", client.CacheOptions{MaxEntries: entries, MaxBytes: bytes}, false},
		{"negative MaxEntries", client.CacheOptions{MaxEntries: -1, MaxBytes: bytes}, false},
		{"negative MaxBytes", client.CacheOptions{MaxEntries: entries, MaxBytes: -1}, false},
		{"both negative", client.CacheOptions{MaxEntries: -1, MaxBytes: -1}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			peer := script(`{"resultType":"complete","contents":[{"uri":"u:1","text":"` + text +
				`"}],"ttlMs":60000,"cacheScope":"public"}`)
			c := newClient(t, peer, &client.Options{Cache: &tc.opts})
			for range 2 {
				for i := range results {
					if _, err := c.ReadResource(t.Context(), fmt.Sprint("u:", i)); err != nil {
						t.Fatal(err)
					}
				}
			}
			if kept := len(peer.requests()) == results; kept != tc.kept {
				t.Errorf("got %d requests, want all results kept: %v", len(peer.requests()),
					tc.kept)
			}
		})
	}
}

func TestNegativeMaxPushesIsTheCap(t *testing.T) {
	const limit = protocol.MaxBackCalls / 2
	for _, tc := range []struct {
		name string
		max  int
		want int
	}{
		{"default", 0, 100},
		{"negative", -1, limit},
		{"above the cap", 1000, limit},
	} {
		t.Run(tc.name, func(t *testing.T) {
			release := make(chan struct{})
			opts := &client.Options{
				MaxPushes: tc.max,
				ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult,
					error) {
					<-release
					return client.Decline(), nil
				},
			}
			var mu sync.Mutex
			refused := 0
			s := &legacyServer{call: func(_ legacyMessage, push func(string) legacyMessage) string {
				var wait sync.WaitGroup
				for i := range limit + 1 {
					wait.Go(func() {
						if push(pushed(fmt.Sprint(i), "elicitation/create",
							nameParams)).Error == nil {
							return
						}
						mu.Lock()
						defer mu.Unlock()
						if refused++; refused == limit+1-tc.want {
							close(release)
						}
					})
				}
				wait.Wait()
				return legacyDone
			}}
			r, err := s.reach(t, "lines", opts).CallTool(t.Context(), "greet", nil)
			wantDone(t, r, err)
			if refused != limit+1-tc.want {
				t.Errorf("%d of %d questions were refused, want %d", refused, limit+1,
					limit+1-tc.want)
			}
		})
	}
}

func TestNegativeMaxLineBytesIsNoLimit(t *testing.T) {
	for _, tc := range []struct {
		name  string
		limit int
		want  error
	}{
		{"default", 0, client.ErrMessageTooLong},
		{"negative", -1, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, client.StreamOptions{MaxLineBytes: tc.limit},
				func(t *testing.T, s *lineServer) {
					a := s.start(t.Context(), request(1, "a", ""), &inFlight{})
					long := strings.Repeat("x", (4 << 20))
					s.send(`{"jsonrpc":"2.0","id":1,"result":{"a":"` + long + `"}}`)
					if tc.want == nil {
						a.wantResult()
						return
					}
					a.wantError(tc.want)
					s.expectCancelled("1")
				})
		})
	}
}

func TestNegativeProbeTimeoutIsNoLimit(t *testing.T) {
	for _, tc := range []struct {
		name   string
		limit  time.Duration
		legacy bool
		took   time.Duration
	}{
		{"default", 0, true, (5 * time.Second)},
		{"negative", -1, false, time.Hour},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, _ := io.Pipe() // nothing is ever written to it
				s := client.NewStream(r, io.Discard, &client.StreamOptions{ProbeTimeout: tc.limit})
				defer s.Close()
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				start := time.Now()
				_, legacy, err := s.Probe(ctx, &protocol.Request{
					ID: protocol.IntID(1), Method: protocol.MethodDiscover,
					Params: json.RawMessage(`{}`),
				})
				if legacy != tc.legacy || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got legacy %v, %v, want legacy %v", legacy, err, tc.legacy)
				}
				if took := time.Since(start); took != tc.took {
					t.Errorf("took %v, want %v", took, tc.took)
				}
			})
		})
	}
}

func TestNewRefusesInvalidOptions(t *testing.T) {
	notAnObject := map[string]json.RawMessage{"a/b": json.RawMessage(`1`)}
	broken := map[string]json.RawMessage{"a/b": json.RawMessage(`{`)}
	for _, tc := range []struct {
		name string
		opts client.Options
		want string
	}{
		{"log level", client.Options{LogLevel: "loud"}, "options: LogLevel"},
		{"era", client.Options{Era: 3}, "options: Era"},
		{
			"sessions of a modern peer", client.Options{Era: protocol.Legacy},
			"options: Era is Legacy",
		},
		{"experimental", client.Options{Experimental: notAnObject}, "options: Experimental"},
		{"extensions", client.Options{Extensions: broken}, "options: Extensions"},
		{
			"manual", client.Options{Manual: &protocol.ClientCapabilities{Extensions: broken}},
			"options: Manual.Extensions",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			peer := script(done)
			c, err := client.New(peer, &tc.opts)
			if c != nil || err == nil || !strings.HasPrefix(err.Error(), "client: "+tc.want) {
				t.Errorf("got %v, want client: %s…", err, tc.want)
			}
			if peer.closed {
				t.Error("the peer was closed")
			}
		})
	}
	if c, err := client.New(nil, nil); c != nil || err == nil {
		t.Errorf("nil peer: got %v", err)
	}
	// A newer program may have stored a revision that this one does not know.
	newClient(t, script(done), &client.Options{Assume: "2099-01-01"})
}
