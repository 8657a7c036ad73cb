package gosdk_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// heard keeps events.
type heard struct {
	mu     sync.Mutex
	events []event.Event
}

func (h *heard) Observe(_ context.Context, e event.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// only returns the one event of its type.
func only[T event.Event](t *testing.T, h *heard) (e T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, happened := range h.events {
		if found, ok := happened.(T); ok {
			e, n = found, n+1
		}
	}
	if n != 1 {
		t.Fatalf("%d events of type %T, want 1: %+v", n, e, h.events)
	}
	return e
}

// TestEventsOfFailures: the observer hears what a tool answered and what it
// failed with, whether it is typed or not, and the client gets what it got
// before, or a reference.
func TestEventsOfFailures(t *testing.T) {
	type sure struct {
		Why string `json:"why"`
	}
	down := errors.New("db at 10.0.0.7 is down")
	work := func(ctx context.Context) error {
		if _, err := roundtrip.Ask[sure](ctx, "sure", "Sure?"); err != nil {
			return err
		}
		return down
	}
	for _, typed := range []bool{false, true} {
		for _, hide := range []bool{false, true} {
			for _, r := range routes() {
				t.Run(r.name, func(t *testing.T) {
					h := &heard{}
					server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
					opts := &gosdk.Options{Options: roundtrip.Options{Observer: h,
						HideErrors: hide}}
					installWith(t, server, opts)
					if typed {
						mcp.AddTool(server, &mcp.Tool{Name: "t"},
							func(ctx context.Context, _ *mcp.CallToolRequest,
								_ map[string]any) (*mcp.CallToolResult, any, error) {
								return nil, nil, work(ctx)
							})
					} else {
						server.AddTool(&mcp.Tool{Name: "t", InputSchema: raw(`{"type":"object"}`)},
							func(ctx context.Context,
								_ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
								return nil, work(ctx)
							})
					}
					p, _ := r.open(t, server,
						newPerson(t, map[string]string{"Sure?": `{"why":"because"}`}), false)
					got, err := p.do(within(t), "t")
					if err != nil {
						t.Fatal(err)
					}
					failed := only[event.HandlerFailed](t, h)
					if !errors.Is(failed.Err, down) || failed.Request == "" {
						t.Errorf("event %+v", failed)
					}
					if !hide && got != "error: db at 10.0.0.7 is down" {
						t.Errorf("got %q", got)
					}
					if hide && (!strings.HasPrefix(got, "error: internal failure; reference "+
						failed.Reference) || strings.Contains(got, "10.0.0.7")) {
						t.Errorf("got %q, reference %q", got, failed.Reference)
					}
					if a := only[event.Answered](t, h); a.Key != "sure" ||
						a.Decision != event.Accepted {
						t.Errorf("%+v", a)
					}
				})
			}
		}
	}
}
