package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A failingUpstream has the tool x, and its calls are answered by hand.
type failingUpstream struct {
	url      string
	listener *httptest.Server
}

func startFailing(
	t *testing.T, answer func(w http.ResponseWriter, r *http.Request, id json.RawMessage),
) *failingUpstream {
	t.Helper()
	srv := newServer(t, nil)
	addEmptyTool(srv, "x")
	next, err := serverhttp.New(srv, nil)
	if err != nil {
		t.Fatal(err)
	}
	u := &failingUpstream{}
	u.listener = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(body, &m) == nil && m.Method == protocol.MethodCallTool {
			answer(w, r, m.ID)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	}))
	u.url = u.listener.URL
	t.Cleanup(func() {
		u.listener.CloseClientConnections()
		u.listener.Close()
		_ = srv.Close()
	})
	return u
}

// writeEvents writes a stream; the last text is written as it is.
func writeEvents(w http.ResponseWriter, texts ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, text := range texts {
		fmt.Fprint(w, text)
		w.(http.Flusher).Flush()
	}
}

const aliveEvent = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"," +
	"\"params\":{\"level\":\"debug\",\"data\":\"hunter2\"}}\n\n"

// failureScenes are ways in which the call of an upstream fails, and what the log says of each.
var failureScenes = []struct {
	name   string
	answer func(w http.ResponseWriter, r *http.Request, id json.RawMessage)
	fields string // why, code, status and at
	client string
}{
	{"garbage in mid-run", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		writeEvents(w, aliveEvent, "data: {\"jsonrpc\":\"2.0\",\"hunter2\"}\n\n")
	}, "malformed at=26", "sent a response that cannot be read. What the tool did is not known"},
	{"garbage as a body", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":1 hunter2`)
	}, "malformed at=24", "sent a response that cannot be read. What the tool did is not known"},
	{"HTML with status 200", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html>hunter2</html>")
	}, "malformed", "sent a response that cannot be read. What the tool did is not known"},
	{"a response to another request", func(w http.ResponseWriter, _ *http.Request,
		_ json.RawMessage) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":"hunter2","result":{"content":[]}}`)
	}, "malformed", "sent a response that cannot be read. What the tool did is not known"},
	{"no result of a tool", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":"hunter2"}}`, id)
	}, "malformed", "sent a response that cannot be read. What the tool did is not known"},
	{"status 500", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, "hunter2")
	}, "http_status status=500", "did not answer. What the tool did is not known"},
	{"status 403", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, "hunter2")
	}, "credentials status=403", "did not answer. What the tool did is not known"},
	{"an error", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"hunter2"}}`, id)
	}, "error code=-32000", "hunter2"},
	{"a stream that ends within a frame", func(w http.ResponseWriter, _ *http.Request,
		_ json.RawMessage) {
		writeEvents(w, aliveEvent, `data: {"jsonrpc":"2.0","id":1,"res`)
	}, "ended", "did not answer. What the tool did is not known"},
	{"a connection that breaks", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}, "ended", "did not answer. What the tool did is not known"},
	{"no answer in time", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		<-r.Context().Done()
	}, "timeout", "did not answer. What the tool did is not known"},
}

// A watched gateway has a log and metrics that a test reads.
type watched struct {
	*ledger
	url string
}

func startWatched(t *testing.T, u gateway.Upstream) *watched {
	t.Helper()
	opts := &gateway.Options{Upstreams: []gateway.Upstream{u}}
	books := newLedger(opts)
	return &watched{books, startGateway(t, opts)}
}

// failedCall returns the fields of the one entry about a failed call.
func (w *watched) failedCall(t *testing.T) string {
	t.Helper()
	failed := w.logs.FilterMessage("gateway.call_failed").All()
	if len(failed) != 1 {
		t.Fatalf("%d failures are logged", len(failed))
	}
	if text := fmt.Sprint(failed[0].ContextMap()); strings.Contains(text, "hunter") {
		t.Errorf("logged %s", text)
	}
	said := failed[0].ContextMap()
	text := fmt.Sprint(said["why"])
	for _, name := range []string{"code", "status", "at"} {
		if v, ok := said[name]; ok {
			text += fmt.Sprintf(" %s=%v", name, v)
		}
	}
	return text
}

// counted returns how many failures of a kind the metrics have, and in how many series.
func (w *watched) counted(t *testing.T, why string) (n float64, series int) {
	t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "elicitation_upstream_failures_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			series++
			if labels := m.GetLabel(); labels[0].GetValue() == "ops" &&
				labels[1].GetValue() == why {
				n = m.GetCounter().GetValue()
			}
		}
	}
	return n, series
}

func TestTheLogSaysWhyACallFailed(t *testing.T) {
	t.Parallel()
	for _, scene := range failureScenes {
		t.Run(scene.name, func(t *testing.T) {
			for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
				u := startFailing(t, scene.answer)
				impatient := &clienthttp.Options{HTTPClient: &http.Client{Timeout: time.Second}}
				w := startWatched(t, gateway.Upstream{
					Name: "ops", Connect: gateway.HTTP(u.url, impatient), Era: era})
				c := connect(t, w.url, 0, &person{})
				awaitTool(t, c, "ops_x")
				result, err := c.CallTool(t.Context(), "ops_x", nil)
				got := textOf(result)
				if err != nil {
					got = err.Error()
				}
				if !strings.Contains(got, scene.client) {
					t.Errorf("%v: the client reads %q", era, got)
				}
				if got := w.failedCall(t); got != scene.fields {
					t.Errorf("%v: the log says %q, want %q", era, got, scene.fields)
				}
				why, _, _ := strings.Cut(scene.fields, " ")
				if n, series := w.counted(t, why); n < 1 || series != 12 {
					t.Errorf("%v: counted %v, in %d series", era, n, series)
				}
			}
		})
	}
}

func TestTheLogSaysThatAnUpstreamIsGone(t *testing.T) {
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		u := startFailing(t, nil)
		w := startWatched(t, gateway.Upstream{
			Name: "ops", Connect: gateway.HTTP(u.url, nil), Era: era})
		c := connect(t, w.url, 0, &person{})
		awaitTool(t, c, "ops_x")
		u.listener.CloseClientConnections()
		_ = u.listener.Listener.Close()
		result, err := c.CallTool(t.Context(), "ops_x", nil)
		if err != nil || !result.IsError {
			t.Errorf("%v: got %q, %v", era, textOf(result), err)
		}
		if got := w.failedCall(t); got != "unreachable" {
			t.Errorf("%v: the log says %q", era, got)
		}
		if n, _ := w.counted(t, "unreachable"); n < 1 {
			t.Errorf("%v: counted %v", era, n)
		}
	}
}

// An upstream that asks what nobody has declared has its client told what it lacks.
func TestAClientThatCannotBeAskedIsToldWhatItLacks(t *testing.T) {
	u := startFailing(t, func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required",`+
			`"inputRequests":{"q":{"method":"elicitation/create","params":{"mode":"form",`+
			`"message":"hunter2","requestedSchema":{"type":"object","properties":{}}}}}}}`, id)
	})
	for _, test := range []struct {
		era    protocol.Era
		kept   bool
		client string
	}{
		{protocol.Modern, false,
			"missing required client capability: elicitation.form (code -32021)"},
		{protocol.Legacy, false,
			"the client does not support: elicitation.form; use a client that does (code 23225)"},
		{protocol.Modern, true,
			"The upstream server ops needs elicitation.form, which this gateway does not let it use"},
	} {
		w := startWatched(t, gateway.Upstream{Name: "ops", Connect: gateway.HTTP(u.url, nil),
			Era: protocol.Modern, Refuse: refuseIf(test.kept, protocol.KindElicitForm)})
		c := connectWith(t, w.url, client.Options{Era: test.era})
		awaitTool(t, c, "ops_x")
		result, err := c.CallTool(t.Context(), "ops_x", nil)
		got := textOf(result)
		if said, ok := protocol.AsError(err); ok {
			got = said.Error()
			if _, names := said.RequiredCapabilities(); names == (test.era == protocol.Legacy) {
				t.Errorf("%v: the data is %s", test.era, said.Data)
			}
		}
		if got != test.client {
			t.Errorf("%v, kept %v: the client reads %q, %v", test.era, test.kept, got, err)
		}
		if got := w.failedCall(t); got != "capability" {
			t.Errorf("%v: the log says %q", test.era, got)
		}
	}
}

// A caller that leaves is no failure of the upstream.
func TestACallThatIsGivenUpIsNoFault(t *testing.T) {
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		running := make(chan struct{}, 1)
		srv := newServer(t, nil)
		server.AddTool(srv, server.Tool{Name: "x"}, func(
			ctx context.Context, _ *server.ToolCall, _ struct{},
		) (outcome, error) {
			running <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		w := startWatched(t, gateway.Upstream{
			Name: "ops", Connect: gateway.HTTP(serveHTTP(t, srv), nil), Era: era})
		c := connect(t, w.url, protocol.Legacy, &person{})
		awaitTool(t, c, "ops_x")
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-running
			cancel()
		}()
		if _, err := c.CallTool(ctx, "ops_x", nil); err == nil {
			t.Error("there is a result")
		}
		for range 500 {
			if w.logs.FilterMessage("gateway.call_failed").Len() > 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if got := w.failedCall(t); got != "given_up" {
			t.Errorf("%v: the log says %q", era, got)
		}
		if n := w.logs.FilterLevelExact(zap.WarnLevel).Len(); n != 0 {
			t.Errorf("%v: %d warnings", era, n)
		}
	}
}
