package client_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// A strict server is a legacy server on a line stream that accepts initialize
// once, as it may. It does not answer before the test lets it.
type strict struct {
	in, out      *io.PipeReader // what the server and the client read
	toIn, toOut  *io.PipeWriter
	asked        chan struct{} // initialize has come
	answer       chan struct{} // it may be answered
	ready        chan struct{} // notifications/initialized has come
	initializing int
}

func newStrict(t *testing.T) *strict {
	s := &strict{
		asked: make(chan struct{}, 9), answer: make(chan struct{}), ready: make(chan struct{}, 9),
	}
	s.in, s.toIn = io.Pipe()
	s.out, s.toOut = io.Pipe()
	go s.serve()
	t.Cleanup(func() { s.toOut.Close(); s.in.Close() })
	return s
}

func (s *strict) serve() {
	say := func(m string) { _, _ = io.WriteString(s.toOut, m+"\n") }
	for lines := bufio.NewScanner(s.in); lines.Scan(); {
		m, err := protocol.DecodeMessage(lines.Bytes())
		if n, ok := m.(*protocol.Notification); ok && n.Method == protocol.NotifyInitialized {
			s.ready <- struct{}{}
		}
		req, ok := m.(*protocol.Request)
		if err != nil || !ok {
			continue
		}
		switch s.initializing++; {
		case req.Method != protocol.MethodInitialize:
			s.initializing--
			say(fmt.Sprintf(
				`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"done"}]}}`, req.ID,
			))
		case s.initializing > 1:
			say(fmt.Sprintf(
				`{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"initialized already"}}`, req.ID,
			))
		default:
			s.asked <- struct{}{}
			<-s.answer
			say(fmt.Sprintf(
				`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"strict","version":"1"}}}`,
				req.ID,
			))
		}
	}
}

// A call that gives up while the session is being opened leaves the stream
// usable. Initialize cannot be cancelled, and some servers accept it once only.
func TestAbandonedCallDoesNotSpoilTheSession(t *testing.T) {
	for _, tc := range []struct {
		name string
		when func(s *strict, giveUp func()) // after initialize was sent
	}{
		{"before the answer", func(s *strict, giveUp func()) {
			giveUp()
			close(s.answer)
		}},
		{"with the answer", func(s *strict, giveUp func()) {
			close(s.answer)
			giveUp()
		}},
		{"once the session is open", func(s *strict, giveUp func()) {
			close(s.answer)
			<-s.ready
			giveUp()
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStrict(t)
			c, err := client.New(client.NewStream(s.out, s.toIn, nil),
				&client.Options{Era: protocol.Legacy})
			noError(t, err)
			defer c.Close()
			ctx, cancel := context.WithCancel(t.Context())
			first := make(chan error, 1)
			go func() {
				_, err := c.CallTool(ctx, "x", nil)
				first <- err
			}()
			<-s.asked
			tc.when(s, cancel)
			if err := <-first; err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("the first call: %v", err)
			}
			for range 2 {
				r, err := c.CallTool(t.Context(), "x", nil)
				if err != nil {
					t.Fatalf("a later call: %v", err)
				}
				if text := r.Content[0].(*protocol.TextContent).Text; !strings.Contains(text,
					"done") {
					t.Errorf("got %q", text)
				}
			}
		})
	}
}
