package gateway_test

import (
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
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
