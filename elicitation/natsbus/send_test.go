package natsbus_test

import (
	"bytes"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/natsbus"
	"github.com/rondo-mcp/rondo/internal/natstest"
)

// TestForgedResponses need the token of a question that waits, which is not to be
// guessed; garbage under a true one is an error and not an answer.
func TestForgedResponses(t *testing.T) {
	s := newScene(t)
	defer close(s.slow)
	forged := natsbus.EncodeResponse(1, 0, 1, []byte("forged"))
	if err := s.stranger.Publish(s.reply+token(1), forged); err != nil {
		t.Fatal(err)
	}
	s.works(t)

	for name, frame := range map[string][]byte{
		"garbage": []byte("garbage"),
		"refusal": natsbus.EncodeResponse(4, 0, 1, nil),
		"parts":   natsbus.EncodeResponse(1, 1, 2, nil),
	} {
		t.Run(name, func(t *testing.T) {
			sub, err := s.stranger.SubscribeSync(s.subject)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.stranger.Flush(); err != nil {
				t.Fatal(err)
			}
			failed := make(chan error, 1)
			go func() {
				_, err := s.b.Send(t.Context(), key, []byte("slow"))
				failed <- err
			}()
			m, err := sub.NextMsg(natstest.Patience)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.stranger.Publish(m.Reply, frame); err != nil {
				t.Fatal(err)
			}
			if err := <-failed; !leavesOpen(err) {
				t.Errorf("%s: got %v, want an error that leaves open whether it was handled", name, err)
			}
			_ = sub.Unsubscribe()
		})
	}
}

// TestLongMessagesOverSmallPayload sends the longest messages over a server that takes short
// ones.
func TestLongMessagesOverSmallPayload(t *testing.T) {
	s := newScene(t, func(o *natsserver.Options) { o.MaxPayload = 8 << 10 })
	message := bytes.Repeat([]byte("0123456789abcdef"), (elicitation.MaxBusMessage-16)/16)
	got, err := s.b.Send(t.Context(), key, message)
	if err != nil || !bytes.Equal(got, append([]byte("got "), message...)) {
		t.Errorf("%d bytes come back as %d, %v", len(message), len(got), err)
	}
	// The answer is four bytes longer than the message.
	if _, err := s.b.Send(t.Context(), key, make([]byte, elicitation.MaxBusMessage)); err == nil {
		t.Error("too long an answer is sent")
	}
}
