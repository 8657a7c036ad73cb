package serverhttp_test

import (
	"context"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// Subscribers of both eras come and go: the first starts the watch and the last ends it.
func TestWatch(t *testing.T) {
	testkit.CheckLeaks(t)
	calls := make(chan string, 100)
	srv, _ := legacyServer(t, &server.Options{
		Visible: func(_ protocol.Principal, _ server.Kind, name string) bool {
			return name != "test://hidden"
		},
		Watch: func(ctx context.Context, uri string) func() {
			calls <- "watch " + uri
			return func() {
				<-ctx.Done()
				calls <- "stop " + uri
			}
		}})
	for _, uri := range []string{"test://hidden", "test://scoped"} {
		r := server.Resource{URI: uri, Name: uri}
		if uri == "test://scoped" {
			r.Scopes = []string{"s"}
		}
		server.AddResource(srv, r, func(context.Context, *server.ResourceCall) (
			protocol.ReadResourceOutcome, error) {
			return nil, nil
		})
	}
	ts, h := serve(t, srv, nil)
	c := openSession(t, ts, "2025-11-25")
	request := func(method, uri string) {
		read(t, c.post(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"uri":"`+uri+`"}}`))
	}
	const both = `"notifications":{"resourceSubscriptions":["test://a","test://x","test://hidden"]}`
	// The function wants checks the calls made before a response, or at the end.
	wants := func(want string) {
		t.Helper()
		wantEqual(t, "called", <-calls, want)
	}
	none := func() {
		t.Helper()
		if len(calls) > 0 {
			t.Fatalf("called %s", <-calls)
		}
	}
	modern := dial(t, ts)
	subscribe(t, modern, both)
	wantEqual(t, "calls before the acknowledgment", len(calls), 1)
	wants("watch test://a")
	second := dial(t, ts)
	subscribe(t, second, both)
	for _, uri := range []string{"test://a", "test://a", "test://x", "test://hidden",
		"test://scoped"} {
		request(protocol.MethodSubscribe, uri)
	}
	noError(t, modern.Close())
	request(protocol.MethodUnsubscribe, "test://x")
	request(protocol.MethodUnsubscribe, "test://a")
	none()
	noError(t, second.Close())
	wants("stop test://a")

	request(protocol.MethodSubscribe, "test://a")
	wantEqual(t, "calls before the answer", len(calls), 1)
	wants("watch test://a")
	request(protocol.MethodUnsubscribe, "test://a")
	request(protocol.MethodUnsubscribe, "test://a")
	wants("stop test://a")

	request(protocol.MethodSubscribe, "test://a")
	wants("watch test://a")
	wantStatus(t, "DELETE", read(t, c.do(t.Context(), "DELETE", "")), 204)
	wants("stop test://a")

	c.session = ""
	c.initialize()
	request(protocol.MethodSubscribe, "test://a")
	wants("watch test://a")
	subscribe(t, dial(t, ts), both)
	noError(t, srv.Shutdown(t.Context()))
	wantEqual(t, "calls before Shutdown has returned", len(calls), 1)
	wants("stop test://a")
	noError(t, h.Shutdown(t.Context()))
	none()
}
