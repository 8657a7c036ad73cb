package mcpgo

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// A handler's notifications are queued by mcp-go, and written to the event stream of the
// response by a goroutine of its own. When the handler returns, mcp-go writes what is left
// in the queue, but drops a notification that the goroutine has taken and not yet written.
// The adapter therefore puts a mark into the queue before it returns a response, and waits
// until the mark arrives where messages are written. Marks are not sent.

// methodFlush is the method of a mark.
const methodFlush = "notifications/rondo/flush"

// maxFlush bounds the wait for a mark, which mcp-go may drop as it does notifications: other
// requests of the session read from the same queue.
const maxFlush = 100 * time.Millisecond

// flushTable has the marks that are waited for. Its zero value is ready.
type flushTable struct {
	last  atomic.Uint64
	marks sync.Map // uint64 → chan struct{}, closed when the mark arrives
}

// flushNotifications waits until the notifications of a call are written. It does nothing
// unless the response is an event stream already, or is known to become one: a mark alone
// would make it one. Where mcp-go stores events it drops none, and would store the mark.
func (a *Adapter) flushNotifications(ctx context.Context) {
	rw := rewriterFrom(ctx)
	session := server.ClientSessionFromContext(ctx)
	if rw == nil || session == nil {
		return
	}
	out, ok := rw.notifier.(*response)
	if !ok {
		return
	}
	queue := session.NotificationChannel()
	if !out.hasWrittenEvents() && !(out.storesNothing && hasNotified(session)) {
		return
	}
	id, arrived := a.flushes.last.Add(1), make(chan struct{})
	a.flushes.marks.Store(id, arrived)
	defer a.flushes.marks.Delete(id)
	mark := mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION}
	mark.Method = methodFlush
	mark.Params.AdditionalFields = map[string]any{"id": id}
	select {
	case queue <- mark:
	default:
		return // full: what the goroutine has taken is written long before the queue is empty
	}
	timer := time.NewTimer(maxFlush)
	defer timer.Stop()
	select {
	case <-arrived:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// hasNotified reports whether a handler has sent a notification on a session over HTTP, so
// that the response becomes an event stream. It reads the field in which mcp-go keeps that,
// and returns false where there is none.
func hasNotified(session server.ClientSession) bool {
	v := reflect.ValueOf(session)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return false
	}
	field := v.Elem().FieldByName("upgradeToSSE")
	if !field.IsValid() || field.Type() != reflect.TypeFor[atomic.Bool]() {
		return false
	}
	return (*atomic.Bool)(field.Addr().UnsafePointer()).Load()
}

// keepsEvents reports whether a handler may store the events that it sends to clients of
// older revisions, true where it is of another type than mcp-go's.
func keepsEvents(next http.Handler) bool {
	if findServer(next) == nil {
		return true
	}
	store := reflect.ValueOf(next).Elem().FieldByName("eventStore")
	return !store.IsValid() || store.Kind() != reflect.Interface || !store.IsNil()
}

// isMark reports whether a message is a mark, and ends the wait for it.
func (t *flushTable) isMark(message []byte) bool {
	if !bytes.Contains(message, []byte(`"`+methodFlush+`"`)) {
		return false
	}
	var n struct {
		Method string `json:"method"`
		Params struct {
			ID uint64 `json:"id"`
		} `json:"params"`
	}
	if json.Unmarshal(message, &n) != nil || n.Method != methodFlush {
		return false
	}
	if arrived, ok := t.marks.LoadAndDelete(n.Params.ID); ok {
		close(arrived.(chan struct{}))
	}
	return true
}
