package gosdk_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// only returns the one event of its type.
func only[T event.Event](t *testing.T, o *observer) (e T) {
	t.Helper()
	n := 0
	for _, happened := range o.all() {
		if found, ok := happened.(T); ok {
			e, n = found, n+1
		}
	}
	if n != 1 {
		t.Fatalf("%d events of type %T, want 1: %+v", n, e, o.all())
	}
	return e
}

// TestEventsOfFailures: the observer hears what a tool answered and what it
// failed with, and the client gets what it got
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
	for _, hide := range []bool{false, true} {
		for _, r := range routes() {
			t.Run(r.name, func(t *testing.T) {
				h := &observer{}
				server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
				opts := &gosdk.Options{Options: roundtrip.Options{Observer: h,
					HideErrors: hide}}
				installWith(t, server, opts)
				mcp.AddTool(server, &mcp.Tool{Name: "t"},
					func(ctx context.Context, _ *mcp.CallToolRequest,
						_ map[string]any) (*mcp.CallToolResult, any, error) {
						return nil, nil, work(ctx)
					})
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
