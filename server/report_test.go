package server_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

type refusalLog struct {
	mu   sync.Mutex
	list []string
}

func (l *refusalLog) Observe(_ context.Context, e event.Event) {
	if e, ok := e.(event.RequestRefused); ok {
		if e.Err == nil || e.Status != 0 || e.RemoteAddr != "" {
			panic(fmt.Sprintf("unexpected %+v", e))
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.list = append(l.list, fmt.Sprintf("%s %s %d %s", e.Transport, e.Reason, e.Code,
			e.RequestID))
	}
}

func (l *refusalLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.list
	l.list = nil
	return list
}

// Lines that are refused before middleware are reported, others are not.
func TestRefusedLinesAreObserved(t *testing.T) {
	old := initializeLine("0", "2025-03-26") + "\n"
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"served", callLine("1", "x") + "\n", nil},
		{"refused by the server", line("1", "tools/eat", "") + "\n", nil},
		{"no JSON", "hello\n", []string{"stream malformed -32700 "}},
		{"no message", `{"jsonrpc":"2.0","id":7}` + "\n", []string{"stream malformed -32600 7"}},
		{"too long", `{"long":"` + strings.Repeat("x", 600) + "\"}\n",
			[]string{"stream too_large -32600 "}},
		{"batch of a modern client", "[]\n", []string{"stream malformed -32600 "}},
		{"empty batch", old + "[]\n", []string{"stream malformed -32600 "}},
		{"broken messages of a batch", old + `[1,2,{"jsonrpc":"2.0","id":7,"method":"ping"}]` + "\n", []string{"stream malformed -32600 "}},
		{"initialize in a batch", old + "[" + initializeLine("1", "2025-03-26") + "]\n",
			[]string{"stream batch -32600 1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			seen := &refusalLog{}
			h := newHarness(t, &server.Options{Observer: seen})
			h.plain()
			var out bytes.Buffer
			noError(t, h.ServeStream(t.Context(), strings.NewReader(tt.in), &out,
				&server.StreamOptions{MaxLineBytes: 500}))
			wantList(t, "the result", seen.take(), tt.want)
		})
	}
}

func TestRefusedForRoomIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &refusalLog{}
		h := newHarness(t, &server.Options{Observer: seen})
		started, release, _ := h.blocking()
		w := h.serve(t.Context(), &server.StreamOptions{MaxInFlight: 2})
		w.send(callLine("1", "block"), callLine("2", "block"))
		<-started
		<-started
		w.send(callLine("3", "block"))
		w.fails("3", protocol.CodeBusy)
		w.send(callLine("1", "block"))
		w.fails("1", protocol.CodeInvalidRequest)
		if got, want := seen.take(), []string{"stream too_many_requests 23223 3",
			"stream duplicate_id -32600 1"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		close(release)
		w.next()
		w.next()
		h.Close()
		w.send(callLine("4", "block"))
		w.fails("4", protocol.CodeBusy)
		wantList(t, "after Close", seen.take(), []string{" closing 23223 4"})
		noError(t, w.end())
	})
}
