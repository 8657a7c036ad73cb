package clienthttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
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

// TestDeadlineInAStream: a server that sends without end, after an event that
// makes the buffer large, does not hold a call beyond its deadline.
func TestDeadlineInAStream(t *testing.T) {
	const deadline, hangs = 100 * time.Millisecond, 10 * time.Second
	for name, part := range map[string]string{
		"CR": strings.Repeat("\r", 1<<20), "comments": strings.Repeat(":\r", 1<<19), "events": strings.Repeat("event: x\rdata: y\r\r", 64<<10),
	} {
		endless := func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", stream)
			text := "event: x\ndata: " + strings.Repeat("x", 1<<20) + "\n\n"
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, text); err != nil {
					return
				}
				text = part
			}
		}
		expires := func(t *testing.T, call func(ctx context.Context) error) {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- call(ctx) }()
			select {
			case err := <-ended:
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, want the deadline", err)
				}
			case <-time.After(hangs):
				t.Fatalf("a call with a deadline of %v has not returned after %v", deadline, hangs)
			}
		}
		t.Run("modern "+name, func(t *testing.T) {
			tr := serve(t, endless, nil)
			expires(t, func(ctx context.Context) error {
				_, err := tr.Handle(ctx, request(), nil)
				return err
			})
		})
		t.Run("legacy "+name, func(t *testing.T) {
			ts := httptest.NewServer(&oldServer{id: "s", call: endless})
			defer ts.Close()
			x, tr := (&oldServer{}).openOver(t, redirected{ts}, &asked{})
			expires(t, func(ctx context.Context) error {
				_, err := x.Handle(ctx, request(), nil)
				return err
			})
			if err := errors.Join(x.Close(), tr.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// redirected sends every request to a server.
type redirected struct{ ts *httptest.Server }

func (r redirected) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.URL.Host = r.ts.Listener.Addr().String()
	return r.ts.Client().Transport.RoundTrip(req)
}
