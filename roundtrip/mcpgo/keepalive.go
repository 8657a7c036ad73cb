package mcpgo

import (
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/server"
)

// A sessionKeeper keeps the session of a request from being swept as idle
// (server.WithSessionIdleTTL) while the request is open: mcp-go counts arriving requests
// alone, and of a session that it has swept the person's answer is refused.
type sessionKeeper struct {
	touch    func() // has a request of the session arrive
	interval time.Duration

	mu    sync.Mutex
	timer *time.Timer // nil: stopped
}

// keepSession keeps the session of r until stop is called.
func (h *httpHandler) keepSession(r *http.Request) (stop func()) {
	if h.idleTTL <= 0 || r.Header.Get(server.HeaderKeySessionID) == "" {
		return func() {}
	}
	k := &sessionKeeper{interval: h.idleTTL / 3, touch: func() {
		serveInPlaceOfClient(h.next, r, []byte(keepSessionMessage))
	}}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.timer = time.AfterFunc(k.interval, k.touchAgain)
	return k.stop
}

// keepSessionMessage is a notification that mcp-go has no handler for.
const keepSessionMessage = `{"jsonrpc":"2.0","method":"notifications/rondo/open"}`

func (k *sessionKeeper) touchAgain() {
	k.touch()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.timer != nil {
		k.timer.Reset(k.interval)
	}
}

func (k *sessionKeeper) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.timer.Stop()
	k.timer = nil
}

// findIdleTTL returns after how long next sweeps sessions, 0 if never or not known.
func findIdleTTL(next http.Handler) time.Duration {
	if findServer(next) == nil {
		return 0
	}
	ttl := reflect.ValueOf(next).Elem().FieldByName("sessionIdleTTL")
	if !ttl.IsValid() || ttl.Kind() != reflect.Int64 {
		return 0
	}
	return time.Duration(ttl.Int())
}
