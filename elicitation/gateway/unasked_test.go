package gateway_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// With the gateway's page, upstreams ask as if the client could show forms.
func TestQuestionsReachClientsThatShowNone(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		upstream, page := startUpstream(t), &servertest.Page{}
		opts := before(ops(upstream.url, upstreamEra))
		opts.Server.Roundtrip.Page = page
		_, url := serveGateway(t, opts, byUser)
		c := connectUser(t, url, "ann", client.Options{Era: clientEra}, "ops_deploy")
		content := func(message string) string {
			if strings.Contains(message, "where") {
				return `{"name":"production"}`
			}
			return `{"sure":true}`
		}
		text, asked := "", 0
		for ; asked < 6; asked++ { // a question may be asked twice
			if text = callText(t, c, "ops_deploy"); !page.Answer(text, content) {
				break
			}
		}
		if text != deployed || asked < 2 {
			t.Errorf("asked %d times, got %q", asked, text)
		}
		if n := upstream.commits.Load(); n != 1 {
			t.Errorf("%d effects", n)
		}
		nobody := connectWith(t, url, client.Options{Era: clientEra}, "ops_deploy")
		if text := callText(t, nobody, "ops_deploy"); page.Answer(text, content) {
			t.Errorf("an anonymous caller got %q", text)
		}
	})
}

// Between its questions the upstream charges, once per flow of its own.
func TestEachChargeOfAnUpstreamHasAYesOfItsOwn(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		var charges atomic.Int64
		upstream := serveTool(t, "pay", func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
			if _, err := roundtrip.Ask[confirmation](ctx, "pay", "Pay?"); err != nil {
				return nil, err
			}
			_, err := roundtrip.Memo(ctx, "charge", func(context.Context) (int64, error) {
				return charges.Add(1), nil
			})
			noError(t, err)
			_, err = roundtrip.Ask[confirmation](ctx, "mail", "Mail?")
			return server.Text("done"), err
		})
		page := &servertest.Page{}
		opts := before(ops(upstream, upstreamEra))
		opts.Server.Roundtrip.Page = page
		_, url := serveGateway(t, opts, byUser)
		c := connectUser(t, url, "ann", client.Options{Era: clientEra}, "ops_pay")
		yeses, text := int64(0), ""
		for range 8 {
			text = callText(t, c, "ops_pay")
			if !page.Answer(text, func(message string) string {
				if strings.Contains(message, "Pay?") {
					yeses++
				}
				return `{"sure":true}`
			}) {
				break
			}
		}
		if n := charges.Load(); text != "done" || n < 1 || n > yeses {
			t.Errorf("%q after %d yeses and %d charges", text, yeses, n)
		}
	})
}
