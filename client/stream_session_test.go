package client_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// If a call gives up while the session is being opened, the stream stays usable. Initialize cannot
// be cancelled, and some servers accept it only once.
func TestAbandonedCallDoesNotSpoilTheSession(t *testing.T) {
	for name, when := range map[string]func(answer, awaitSession, giveUp func()){
		"before the answer": func(answer, _, giveUp func()) { giveUp(); answer() },
		"with the answer":   func(answer, _, giveUp func()) { answer(); giveUp() },
		"once the session is open": func(answer, awaitSession, giveUp func()) {
			answer()
			awaitSession()
			giveUp()
		},
	} {
		t.Run(name, func(t *testing.T) {
			initialized, asked, answer := 0, make(chan struct{}), make(chan struct{})
			s := &legacyServer{handle: func(m legacyMessage) string {
				if m.Method != protocol.MethodInitialize {
					return ""
				}
				if initialized++; initialized > 1 {
					return `"error":{"code":-32600,"message":"initialized already"}`
				}
				close(asked)
				<-answer
				return ""
			}}
			c := s.reach(t, "lines", &client.Options{Era: protocol.Legacy})
			ctx, cancel := context.WithCancel(t.Context())
			first := make(chan error, 1)
			go func() {
				_, err := c.CallTool(ctx, "x", nil)
				first <- err
			}()
			<-asked
			when(func() { close(answer) }, func() {
				for !slices.Contains(s.methods(), protocol.NotifyInitialized) {
					time.Sleep(time.Millisecond)
				}
			}, cancel)
			if err := <-first; err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("the first call: %v", err)
			}
			for range 2 {
				wantCall(t, c, "x")
			}
		})
	}
}
