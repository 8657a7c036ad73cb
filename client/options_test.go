package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

func TestNegativeProbeTimeoutIsNoLimit(t *testing.T) {
	for limit, want := range map[time.Duration]struct {
		legacy bool
		took   time.Duration
	}{0: {true, 5 * time.Second}, -1: {false, time.Hour}} {
		inBubble(t, fmt.Sprint(limit), func(t *testing.T) {
			r, _ := io.Pipe() // no data is ever written to it
			s := client.NewStream(r, io.Discard, &client.StreamOptions{ProbeTimeout: limit})
			defer s.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			start := time.Now()
			_, legacy, err := s.Probe(ctx, request(1, protocol.MethodDiscover, ""))
			if legacy != want.legacy || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got legacy %v, %v, want legacy %v", legacy, err, want.legacy)
			}
			wantEqual(t, "time", time.Since(start), want.took)
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

func TestTimeoutLeavesOutPeople(t *testing.T) {
	slow := func(d time.Duration) *fakePeer {
		peer := script(ask(`"inputRequests":{"who":`+nameForm+`}`), done)
		inner := peer.handle
		peer.handle = func(ctx context.Context, req *protocol.Request,
			back protocol.Back) (response, error) {
			select {
			case <-time.After(d):
				return inner(ctx, req, back)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return peer
	}
	opts := &client.Options{
		Timeout: time.Minute,
		ElicitForm: func(ctx context.Context, q *client.FormQuestion) (elicited, error) {
			time.Sleep(time.Hour) // of fake time: a user at lunch
			if _, ok := ctx.Deadline(); ok {
				t.Error("the handler has a deadline")
			}
			return acceptName(ctx, q)
		},
	}
	inBubble(t, "within", func(t *testing.T) {
		wantOnce(t, slow(29*time.Second), opts)
	})
	inBubble(t, "legs add up", func(t *testing.T) {
		start := time.Now()
		_, err := callOnce(t, slow(31*time.Second), opts)
		wantError(t, err, "tools/call: server took longer than 1m0s", "Options.Timeout")
		wantIs(t, "error", err, context.DeadlineExceeded)
		wantEqual(t, "took", time.Since(start), time.Hour+time.Minute)
	})
}
