package oauthtest_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
	"github.com/rondo-mcp/rondo/internal/testing/pipehttp"
)

// listenOnPipe serves h over connections that do not stop the clock of a bubble.
func listenOnPipe(t *testing.T, server **pipehttp.Server) func(h http.Handler) string {
	return func(h http.Handler) string {
		*server = pipehttp.Serve(t, h)
		return strings.TrimSuffix(pipehttp.URL, "/")
	}
}

func TestTokensExpireInFakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pipe *pipehttp.Server
		as := oauthtest.NewServer(t, &oauthtest.Options{Listen: listenOnPipe(t, &pipe)})
		p := newParty(t, as)
		p.http = *pipe.Client()
		defer p.http.CloseIdleConnections()
		first := p.login("read")
		time.Sleep(time.Hour - 1)
		if _, ok := as.Check(first.Access); !ok {
			t.Error("the token has expired too early")
		}
		time.Sleep(time.Nanosecond)
		if _, ok := as.Check(first.Access); ok {
			t.Error("the token has not expired")
		}
		as.Reply(oauthtest.Refresh, oauthtest.Reply{Status: http.StatusServiceUnavailable})
		if a := p.refresh(first.Refresh); a.status != http.StatusServiceUnavailable {
			t.Errorf("status %d", a.status)
		}
		as.Behave()
		if a := p.refresh(first.Refresh); a.status != http.StatusOK {
			t.Errorf("status %d %s: a 503 must not have rotated", a.status, a.Error)
		}
	})
}
