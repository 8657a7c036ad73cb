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
		for ; asked < 6; asked++ {
			if text = callText(t, c, "ops_deploy"); !page.Answer(text, content) {
				break
			}
		}
		if text != deployed || asked != 2 {
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

func payAndMail(t *testing.T, charges *atomic.Int64) func(context.Context, *server.ToolCall) (
	outcome, error) {
	return func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
		if _, err := roundtrip.Ask[confirmation](ctx, "pay", "Pay?"); err != nil {
			return nil, err
		}
		_, err := roundtrip.Memo(ctx, "charge", func(context.Context) (int64, error) {
			return charges.Add(1), nil
		})
		noError(t, err)
		_, err = roundtrip.Ask[confirmation](ctx, "mail", "Mail?")
		return server.Text("done"), err
	}
}

// Between its questions the upstream charges: its call goes on while its user is on the page.
func TestAnUpstreamGoesOnWhileItsUserIsOnThePage(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		var charges atomic.Int64
		upstream := serveTool(t, "pay", payAndMail(t, &charges))
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
		if n := charges.Load(); text != "done" || n != 1 || yeses != 1 {
			t.Errorf("%q after %d yeses and %d charges", text, yeses, n)
		}
	})
}

// An upstream's call that is at another replica is made anew there, with the answers that it did
// not get, unless it has had others: it may have acted.
func TestAnUpstreamIsCalledAnewAtAnotherReplica(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		for last, want := range []string{"not known here", "done"} {
			if upstreamEra == protocol.Modern {
				want = "done" // its state is in the kept call
			}
			var charges atomic.Int64
			upstream := serveTool(t, "pay", payAndMail(t, &charges))
			page, ring := &servertest.Page{}, servertest.NewKeyring("k")
			var replicas [2]*client.Client
			for i := range replicas {
				opts := before(ops(upstream, upstreamEra))
				opts.Server.Roundtrip.Page, opts.Server.Roundtrip.Sealer = page, ring
				opts.Server.Roundtrip.Audience = "gateway"
				_, url := serveGateway(t, opts, byUser)
				replicas[i] = connectUser(t, url, "ann", client.Options{Era: clientEra}, "ops_pay")
			}
			text := ""
			for _, replica := range []int{0, 1, last} {
				text = callText(t, replicas[replica], "ops_pay")
				page.Answer(text, func(string) string { return `{"sure":true}` })
			}
			if n := charges.Load(); !strings.Contains(text, want) || n != 1 {
				t.Errorf("%q after %d charges", text, n)
			}
		}
	})
}
