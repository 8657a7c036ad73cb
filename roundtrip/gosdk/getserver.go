package gosdk

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
)

// foundServer is the server of one HTTP request. The SDK asks for it up to twice, and the
// author may make a new one each time.
type foundServer struct {
	known  bool
	server *mcp.Server
}

type foundServerKey struct{}

// serverPanic carries a panic of getServer through the SDK, which calls it on the goroutine
// of the request before it writes anything.
type serverPanic struct{ value any }

// findServer is the getServer of the SDK's handlers. The server that it returns has the
// adapter.
func (h *httpHandler) findServer(r *http.Request) *mcp.Server {
	found, _ := r.Context().Value(foundServerKey{}).(*foundServer)
	if found == nil { // a handler between this one and the SDK's has replaced the context
		found = &foundServer{}
	}
	if !found.known {
		found.server = h.callGetServer(r)
		found.known = true
		if found.server != nil {
			h.adapter.ensureInstalled(found.server)
		}
	}
	return found.server
}

// callGetServer calls the author's function with the request as the client sent it.
func (h *httpHandler) callGetServer(r *http.Request) *mcp.Server {
	defer func() {
		if v := recover(); v != nil {
			h.adapter.reportPanic(r.Context(), "", v)
			panic(serverPanic{v})
		}
	}()
	kept := map[string][]string{}
	for _, name := range []string{retryHeader, statelessHeader} {
		if value := r.Header[name]; value != nil {
			kept[name] = value
			delete(r.Header, name)
		}
	}
	server := h.getServer(r)
	for name, value := range kept {
		r.Header[name] = value
	}
	return server
}

// answerPanic is deferred. It answers a request on whose goroutine the author's code
// panicked: getServer, GetSessionID of the server's options, or the SDK's options. A response
// that has begun is aborted, as by net/http alone.
func (h *httpHandler) answerPanic(ctx context.Context, w http.ResponseWriter) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler || w.Header().Get("Content-Type") != "" {
		panic(v)
	}
	if _, ok := v.(serverPanic); !ok {
		h.adapter.reportPanic(ctx, "", v)
	}
	writeStatus(w, http.StatusInternalServerError, nil,
		protocol.Errorf(protocol.CodeInternalError, "internal error"))
}

// checkHandlerOptions reports options that Handler cannot honor, or does not know: a later
// version of the SDK may have one that the two handlers must not share.
func (a *Adapter) checkHandlerOptions(opts *mcp.StreamableHTTPOptions) error {
	if opts.Stateless && a.opts.Replicas != nil {
		return fmt.Errorf("StreamableHTTPOptions.Stateless: there are no sessions that " +
			"Options.Replicas could pass on; set one of the two")
	}
	v := reflect.ValueOf(opts).Elem()
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; !v.Field(i).IsZero() && !isKnownOption(name) {
			return fmt.Errorf("StreamableHTTPOptions.%s is an option of a later version of the "+
				"SDK, which this version of the adapter does not know", name)
		}
	}
	return nil
}

// isKnownOption reports whether Handler honors a field of mcp.StreamableHTTPOptions.
func isKnownOption(name string) bool {
	switch name {
	case "Stateless", "JSONResponse", "Logger", "EventStore", "SessionTimeout",
		"DisableLocalhostProtection", "CrossOriginProtection", "MaxRequestBodyBytes",
		"PropagateRequestCancellation":
		return true
	}
	return false
}

// warnOfEphemeralKey logs that replicas need a shared key. A server is stateless to have
// replicas, mostly. The observer has got an event.EphemeralKey.
func (a *Adapter) warnOfEphemeralKey(log *slog.Logger) {
	ring, ok := a.opts.Sealer.(interface{ Ephemeral() bool })
	if log == nil || a.opts.Sealer != nil && (!ok || !ring.Ephemeral()) {
		return
	}
	log.Warn("gosdk: states are sealed with a key that only this process has; replicas behind " +
		"a balancer need a shared one: set Options.Sealer and Options.Audience")
}
