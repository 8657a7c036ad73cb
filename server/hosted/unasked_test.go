package hosted_test

import (
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/hostedtest"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
)

// Each question takes one call.
func TestQuestionsOfHostedServersReachClientsThatShowNone(t *testing.T) {
	eachWay(t, func(t *testing.T, r route, era protocol.Era) {
		if r.name == "http" {
			r.open = func(t testing.TB, h *hosted.Server) protocol.Peer {
				return hostedtest.Dial(t, h, "ann")
			}
		}
		if r.name == "in process" {
			return // the caller is anonymous
		}
		for _, park := range [][]string{nil, {"two"}} {
			var effects atomic.Int32
			page, opts := &servertest.Page{}, &hosted.Options{Park: park}
			opts.Server.Roundtrip.Page = page
			c := open(t, r.open(t, host(t, asking(&effects), opts)), era, client.Options{})
			text, asked := "", 0
			for ; asked < 6; asked++ {
				text = hostedtest.CallTool(t, c, "two")
				if !page.Answer(text, func(string) string { return `{"text":"x"}` }) {
					break
				}
			}
			if text != `accept {"text":"x"}` || asked != 2 {
				t.Errorf("asked %d times, got %q", asked, text)
			}
			if n := effects.Load(); n != 1 {
				t.Errorf("%d effects", n)
			}
		}
	})
}
