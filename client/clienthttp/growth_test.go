package clienthttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/growthtest"
)

// TestAnswerGrowth has a hostile server answer a request, over HTTP. The server
// of the test is part of the cost.
func TestAnswerGrowth(t *testing.T) {
	const head, tail = `{"jsonrpc":"2.0","id":7,"result":{"x":`, `}}`
	for _, tt := range []struct {
		name, media string
		status      int
		inputs      []growthtest.Input
	}{
		{"body", media, 200, growthtest.Values(head, tail)},
		{"error body", media, 400, refusedAll(growthtest.Values(head, tail))},
		{"event", stream, 200, growthtest.Values("data: "+head, tail+"\n\n")},
		{"stream", stream, 200, []growthtest.Input{
			{Name: "CR", Make: growthtest.Repeat("", "\r", "data: "+result+"\n\n")},
			{Name: "comments", Make: growthtest.Repeat("", ":\n", "data: "+result+"\n\n")},
			{Name: "other events", Make: growthtest.Repeat("", "event: x\ndata: y\n\n", "data: "+result+"\n\n")},
			{Name: "notifications", Make: growthtest.Repeat("", `data: {"jsonrpc":"2.0","method":"notifications/message","params":{}}`+"\n\n", "data: "+result+"\n\n")},
			{Name: "never a response", Make: growthtest.Repeat("", "data: \r\r", ""), Refused: true},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var text string
			tr := serve(t, func(w http.ResponseWriter, r *http.Request) { answer(tt.status, tt.media, text)(w, r) }, nil)
			growthtest.Test(t, growthtest.Reader{
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

func refusedAll(inputs []growthtest.Input) []growthtest.Input {
	for i := range inputs {
		inputs[i].Refused = true // a result does not go with the status
	}
	return inputs
}

// TestDeadlineInAStream: a server that sends without end does not hold a call
// beyond its deadline, whatever it sends.
func TestDeadlineInAStream(t *testing.T) {
	for name, part := range map[string]string{
		"CR": strings.Repeat("\r", 64<<10), "comments": strings.Repeat(":\n", 32<<10), "events": strings.Repeat("event: x\ndata: y\n\n", 4<<10),
	} {
		t.Run(name, func(t *testing.T) {
			tr := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", stream)
				for r.Context().Err() == nil {
					if _, err := io.WriteString(w, part); err != nil {
						return
					}
				}
			}, nil)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if _, err := tr.Handle(ctx, request(), nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the deadline", err)
			}
		})
	}
}
