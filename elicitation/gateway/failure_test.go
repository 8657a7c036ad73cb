package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// startFailing serves an upstream with the tool x, whose calls are answered by hand.
func startFailing(
	t *testing.T, answer func(w http.ResponseWriter, r *http.Request, id json.RawMessage),
) *httptest.Server {
	t.Helper()
	srv := newServer(t, nil)
	addTool(srv, "x", done)
	next := servertest.NewHandler(t, srv, nil)
	t.Cleanup(func() { _ = srv.Close() })
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m := readMessage(r); m.Method == protocol.MethodCallTool {
			answer(w, r, m.ID)
			return
		}
		next.ServeHTTP(w, r)
	}))
}

// writeEvents writes a stream; the last text is written unchanged.
func writeEvents(w http.ResponseWriter, texts ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, text := range texts {
		fmt.Fprint(w, text)
		w.(http.Flusher).Flush()
	}
}

const aliveEvent = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"," +
	"\"params\":{\"level\":\"debug\",\"data\":\"hunter2\"}}\n\n"

// writeJSON writes a response in which the word ID is replaced by the request's id.
func writeJSON(text string) func(http.ResponseWriter, *http.Request, json.RawMessage) {
	return func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, strings.Replace(text, "ID", string(id), 1))
	}
}

func writeStatus(status int) func(http.ResponseWriter, *http.Request, json.RawMessage) {
	return func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		w.WriteHeader(status)
		fmt.Fprint(w, "hunter2")
	}
}

const (
	cannotBeRead = "sent a response that cannot be read. What the tool did is not known"
	didNotAnswer = "did not answer. What the tool did is not known"
)

// failureScenes are failed upstream calls and the log's fields for each.
var failureScenes = []struct {
	name   string
	answer func(w http.ResponseWriter, r *http.Request, id json.RawMessage)
	fields string // why, code, status and at
	client string
}{
	{"garbage in mid-run", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		writeEvents(w, aliveEvent, "data: {\"jsonrpc\":\"2.0\",\"hunter2\"}\n\n")
	}, "malformed at=26", cannotBeRead},
	{"garbage as a body", writeJSON(`{"jsonrpc":"2.0","id":1 hunter2`),
		"malformed at=24", cannotBeRead},
	{"HTML with status 200", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html>hunter2</html>")
	}, "malformed", cannotBeRead},
	{"a response to another request", writeJSON(
		`{"jsonrpc":"2.0","id":"hunter2","result":{"content":[]}}`), "malformed", cannotBeRead},
	{"no result of a tool", writeJSON(
		`{"jsonrpc":"2.0","id":ID,"result":{"content":"hunter2"}}`), "malformed", cannotBeRead},
	{"status 500", writeStatus(500), "http_status status=500", didNotAnswer},
	{"status 403", writeStatus(403), "credentials status=403", didNotAnswer},
	{"an error", writeJSON(
		`{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"hunter2"}}`),
		"error code=-32000", "hunter2"},
	{"a stream that ends within a frame", func(w http.ResponseWriter, _ *http.Request,
		_ json.RawMessage) {
		writeEvents(w, aliveEvent, `data: {"jsonrpc":"2.0","id":1,"res`)
	}, "ended", didNotAnswer},
	{"a connection that breaks", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}, "ended", didNotAnswer},
	{"no answer in time", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		<-r.Context().Done()
	}, "timeout", didNotAnswer},
}

// startWatched returns the URL of a gateway, and its ledger.
func startWatched(t *testing.T, u gateway.Upstream) (string, *ledger) {
	t.Helper()
	opts := before(u)
	books := newLedger(opts)
	return startGateway(t, opts), books
}

func (l *ledger) failedCall(t *testing.T) string {
	t.Helper()
	failed := l.logs.FilterMessage("gateway.call_failed").All()
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

const failuresTotal = "elicitation_upstream_failures_total"

func (l *ledger) counted(t *testing.T, why string) float64 {
	return l.series(t)[failuresTotal+`{upstream="ops",why="`+why+`"}`]
}

func TestTheLogSaysWhyACallFailed(t *testing.T) {
	t.Parallel()
	for _, scene := range failureScenes {
		t.Run(scene.name, func(t *testing.T) {
			for _, era := range bothEras {
				u := ops("", era)
				u.Connect = gateway.HTTP(startFailing(t, scene.answer).URL,
					&clienthttp.Options{HTTPClient: &http.Client{Timeout: time.Second}})
				url, w := startWatched(t, u)
				got := callText(t, connect(t, url, 0, &person{}, "ops_x"), "ops_x")
				wantPart(t, fmt.Sprint(era, ": the client reads"), got, scene.client)
				wantEqual(t, fmt.Sprint(era, ": the log says"), w.failedCall(t), scene.fields)
				why, _, _ := strings.Cut(scene.fields, " ")
				series, err := testutil.GatherAndCount(w.registry, failuresTotal)
				if n := w.counted(t, why); n < 1 || series != 12 {
					t.Errorf("%v: counted %v, in %d series, %v", era, n, series, err)
				}
			}
		})
	}
}

func TestTheLogSaysThatAnUpstreamIsGone(t *testing.T) {
	for _, era := range bothEras {
		u := startFailing(t, nil)
		url, w := startWatched(t, ops(u.URL, era))
		c := connect(t, url, 0, &person{}, "ops_x")
		u.CloseClientConnections()
		_ = u.Listener.Close()
		if got := callText(t, c, "ops_x"); !strings.HasPrefix(got, "failed: ") {
			t.Errorf("%v: got %q", era, got)
		}
		wantEqual(t, fmt.Sprint(era, ": the log says"), w.failedCall(t), "unreachable")
		if n := w.counted(t, "unreachable"); n < 1 {
			t.Errorf("%v: counted %v", era, n)
		}
	}
}

// If an upstream asks something undeclared, the client is told what it lacks.
func TestAClientThatCannotBeAskedIsToldWhatItLacks(t *testing.T) {
	u := startFailing(t, writeJSON(`{"jsonrpc":"2.0","id":ID,"result":{"resultType":`+
		`"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"mode":"form",`+
		`"message":"hunter2","requestedSchema":{"type":"object","properties":{}}}}}}}`))
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
		upstream := ops(u.URL, protocol.Modern)
		upstream.Refuse = refuseIf(test.kept, protocol.KindElicitForm)
		url, w := startWatched(t, upstream)
		c := connectWith(t, url, client.Options{Era: test.era}, "ops_x")
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
		wantEqual(t, fmt.Sprint(test.era, ": the log says"), w.failedCall(t), "capability")
	}
}

// A call cancelled by its client is not counted as a failure of the upstream.
func TestACallThatIsGivenUpIsNoFault(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		running, ended := make(chan struct{}, 1), make(chan struct{}, 1)
		url, w := startWatched(t, ops(serveTool(t, "x", func(
			ctx context.Context, _ *server.ToolCall) (outcome, error) {
			running <- struct{}{}
			<-ctx.Done()
			ended <- struct{}{}
			return nil, ctx.Err()
		}), upstreamEra))
		c := connect(t, url, clientEra, &person{}, "ops_x")
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			<-running
			leave()
		}()
		_, err := c.CallTool(ctx, "ops_x", nil)
		wantIs(t, "the call", err, context.Canceled)
		await(t, ended, "the call goes on upstream")
		eventually(func() bool { return w.logs.FilterMessage("gateway.call_failed").Len() > 0 })
		wantEqual(t, "the log says", w.failedCall(t), "given_up")
		wantEqual(t, "warnings", w.logs.FilterLevelExact(zap.WarnLevel).Len(), 0)
	})
}
