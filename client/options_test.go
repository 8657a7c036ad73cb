package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

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
		{"sessions of a modern peer", client.Options{Era: protocol.Legacy},
			"options: Era is Legacy"},
		{"not an object", client.Options{Extensions: notAnObject}, "options: Extensions"},
		{"experimental", client.Options{Manual: &protocol.ClientCapabilities{
			Experimental: notAnObject}}, "options: Manual.Experimental"},
		{"extensions", client.Options{Extensions: broken}, "options: Extensions"},
		{"manual", client.Options{Manual: &protocol.ClientCapabilities{Extensions: broken}},
			"options: Manual.Extensions"},
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
}
