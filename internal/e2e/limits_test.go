package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
)

// wired is newWire with options.
func wired(t testing.TB, opts *server.Options, register func(*server.Server)) *wire {
	t.Helper()
	srv, watched := mustServe(t, opts)
	if register != nil {
		register(srv)
	}
	return &wire{t: t, url: listen(t, servertest.NewHandler(t, srv, nil)), watch: watched,
		client: &http.Client{Transport: transport(t), Timeout: patience}}
}

// TestSingleUse: with a guard, of many identical retries at once one runs the handler, and those
// that come after it get its result again; the same state with other answers is refused.
func TestSingleUse(t *testing.T) {
	testkit.CheckLeaks(t)
	var ran atomic.Int64
	w := wired(t, &server.Options{Roundtrip: roundtrip.Options{Guard: store.NewMemoryGuard(0)}},
		func(srv *server.Server) {
			server.AddRawTool(srv, server.Tool{Name: "pay"},
				func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
					e, ok := roundtrip.AcceptedContent[entry](ctx, "pay")
					if !ok {
						return roundtrip.InputRequired(roundtrip.Elicit[entry]("pay", "Pay?")), nil
					}
					return server.Text(fmt.Sprintf("payment %d: %s", ran.Add(1), e.Word)), nil
				})
		})
	asked := w.send(leg{target: "pay"}).wantAsked("pay")
	retry := leg{target: "pay", more: asked.answered(`{"pay":{"action":"accept","content":{"word":"all","turn":1}}}`)}
	var paid atomic.Int64
	var wait sync.WaitGroup
	for n := range 16 {
		one := *w
		one.nextID = n
		wait.Go(func() {
			r := one.send(retry)
			switch {
			case r.err == nil:
				r.wantText("payment 1: all")
				paid.Add(1)
			case r.err.Code == protocol.CodeBusy: // it came while the first was running
			default:
				r.frozen()
			}
		})
	}
	wait.Wait()
	if ran.Load() != 1 || paid.Load() == 0 {
		t.Errorf("the handler ran %d times, %d were told that it did", ran.Load(), paid.Load())
	}
	w.send(retry).wantText("payment 1: all")
	retry.more = asked.answered(`{"pay":{"action":"accept","content":{"word":"half","turn":1}}}`)
	w.send(retry).frozen()
	retry.more = asked.answered(`{"pay":{"action":"decline"}}`)
	w.send(retry).frozen()
	// Another flow of the same call is another state.
	w.answers(leg{target: "pay"}, `{"pay":{"action":"accept","content":{"word":"again","turn":1}}}`).wantText("payment 2: again")
	if ran.Load() != 2 {
		t.Errorf("the handler ran %d times, want 2", ran.Load())
	}
}

// TestArgumentsTravelInHeaders: a client that has never seen the tool's schema learns it when it is
// told, in the middle of nothing, and each leg of the flow then carries the header.
func TestArgumentsTravelInHeaders(t *testing.T) {
	srv, _ := mustServe(t, nil)
	server.AddRawTool(srv, server.Tool{
		Name:        "place",
		InputSchema: raw(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`),
	}, func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
		var in struct {
			Region string `json:"region"`
		}
		if err := json.Unmarshal(call.Arguments, &in); err != nil {
			return nil, err
		}
		if _, ok := roundtrip.AcceptedContent[entry](ctx, "q"); !ok {
			return roundtrip.InputRequired(roundtrip.Elicit[entry]("q", "Sure?")), nil
		}
		return server.Text(in.Region), nil
	})
	for _, region := range []string{"eu", "ñandú", " x ", "=?base64?"} {
		t.Run(region, func(t *testing.T) {
			c, said := dial(t, listen(t, servertest.NewHandler(t, srv, nil)),
				person{"q": `{"word":"yes","turn":1}`}.options())
			got, err := tool("place", `{"region":`+quote(region)+`}`)(within(t, patience), c)
			if err != nil || got != region {
				t.Errorf("got %q, %v, want %q", got, err, region)
			}
			messages := said()
			wiretest.Conform(t, revision, messages)
			header := "Mcp-Param-Region: " + protocol.EncodeHeaderValue(region)
			carried := 0
			for _, m := range messages {
				if m.From == wiretest.Client &&
					strings.Contains(strings.Join(m.Header, "\n"), header) {
					carried++
				}
			}
			if want := 2; carried != want {
				t.Errorf("%d requests carry %s, want %d", carried, header, want)
			}
		})
	}
}
