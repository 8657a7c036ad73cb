package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/internal/testing/promtest"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
)

// askWhatever serves a tool x that asks even if the client cannot be asked, and returns the answer.
func askWhatever(t *testing.T, era protocol.Era) string {
	t.Helper()
	if era == protocol.Legacy {
		return startRaw(t, func(c *rawCall) {
			c.ask(99, "Who?")
			c.text(c.takeAnswer())
		})
	}
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m := readMessage(r)
		result := `"resultType":"complete","tools":[{"name":"x","inputSchema":{"type":"object"}}],` +
			`"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,` +
			`"cacheScope":"private"`
		if text, _ := json.Marshal(string(m.Params.InputResponses)); m.Params.RequestState != nil {
			result = `"resultType":"complete","content":[{"type":"text","text":` +
				string(text) + `}]`
		} else if m.Method == "tools/call" {
			ask := strings.Replace(rawAsk, `"jsonrpc":"2.0","id":%v,`, "", 1)
			result = `"resultType":"input_required","requestState":"s","inputRequests":{"q":` +
				fmt.Sprintf(ask, "Who?") + `}`
		}
		writeResponse(w, m, `"result":{`+result+`}`)
	})).URL
}

// A ledger is a gateway's log and metrics.
type ledger struct {
	registry *prometheus.Registry
	logs     *observer.ObservedLogs
}

func newLedger(opts *gateway.Options) *ledger {
	l := &ledger{prometheus.NewRegistry(), logged(opts, zapcore.DebugLevel)}
	opts.Metrics = prom.New(l.registry)
	return l
}

func (l *ledger) series(t *testing.T) map[string]float64 {
	t.Helper()
	all := promtest.Series(t, l.registry)
	maps.DeleteFunc(all, func(_ string, n float64) bool { return n == 0 })
	return all
}

// wantSums checks that every question is counted as ended or pending.
func wantSums(t *testing.T, series map[string]float64) {
	t.Helper()
	var requests, accounted float64
	for name, value := range series {
		kind, _, _ := strings.Cut(name, "{")
		switch kind {
		case "elicitation_requests_total":
			requests += value
		case "elicitation_completed_total", "elicitation_timeout_total", "elicitation_errors_total",
			"elicitation_cancelled_total", "elicitation_pending":
			accounted += value
		}
	}
	if requests != accounted {
		t.Errorf("%v questions, %v accounted for: %v", requests, accounted, series)
	}
}

// events takes the entries about questions out of the log, without variable parts.
func (l *ledger) events() (lines []string) {
	for _, e := range l.logs.TakeAll() {
		if !strings.HasPrefix(e.Message, "elicitation.") {
			continue
		}
		f := e.ContextMap()
		line := strings.TrimPrefix(e.Message, "elicitation.")
		for _, name := range []string{"action", "reason", "by", "code", "violation"} {
			if v := fmt.Sprint(f[name]); f[name] != nil && v != "" {
				line += " " + name + "=" + v
			}
		}
		for _, name := range []string{"request_id", "upstream_session", "downstream_session"} {
			if f[name] == "" {
				line += " without " + name
			}
		}
		if f["message"] != "Who?" || f["subject"] == nil || f["duration_ms"] == nil {
			line += fmt.Sprintf(" message=%v subject=%v", f["message"], f["subject"])
		}
		lines = append(lines, line)
	}
	return lines
}

// Every question is in the log and the metrics, however it ends, in every pairing.
func TestEveryQuestionIsInOneLedger(t *testing.T) {
	answers := func(r *protocol.ElicitResult, err error) formFunc {
		return func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			return r, err
		}
	}
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		modern := clientEra == protocol.Modern
		relayed := upstreamEra == protocol.Modern
		for _, c := range []struct {
			name   string
			answer formFunc // nil: the client cannot be asked
			want   string
			text   string // text that the client gets
		}{
			{"accept", fillAfter(0), "created|delivered|completed action=accept", `"ann"`},
			{"decline", answers(client.Decline(), nil),
				"created|delivered|completed action=decline", "decline"},
			{"cancel", answers(client.Cancel(), nil),
				"created|delivered|completed action=cancel", "cancel"},
			{"timeout", fillAfter(700 * time.Millisecond),
				"created|delivered|timeout code=23224", "Elicitation timed out"},
			{"error", answers(nil, protocol.Errorf(-32000, "no eyes")),
				"created|delivered|error reason=client_error code=-32000", "no eyes"},
			{"no capability", nil, "rejected reason=capability code=-32601", "-32601"},
		} {
			asks := elicitation.Options{
				Subject: func(p protocol.Principal) string { return p.Subject }}
			if c.name == "timeout" { // others may be slow
				asks.Timeout = 500 * time.Millisecond
			}
			url, books := startLedger(t, askWhatever(t, upstreamEra), upstreamEra, asks)
			mcp := connectUser(t, url, "ann", client.Options{Era: clientEra, ElicitForm: c.answer},
				"ops_x")
			var got string
			want := c.want
			if c.name == "error" && modern { // a modern client cannot send an error
				content := `"` + strings.Repeat("x", 1<<20) + `"` // over the limit
				if relayed {
					content = "5" // invalid
				}
				key, state := askedBy(t, modernRaw(t, url, "ann", "ops_x", "", ""))
				got = modernRaw(t, url, "ann", "ops_x", state,
					`{"`+key+`":{"action":"accept","content":{"name":`+content+`}}}`)
				want, c.text = "created|delivered|error reason=invalid_reply code=-32603", ""
			} else {
				got = callText(t, mcp, "ops_x")
			}
			if c.name == "error" && relayed && !modern {
				want = "created|delivered|error reason=delivery code=-32603"
			}
			switch {
			case c.name == "no capability" && relayed:
				c.text = "elicitation.form"
			case c.name == "timeout" && relayed && !modern:
				c.text = "nobody answered in time"
			}
			wantPart(t, c.name, got, c.text)
			books.want(t, want)
			wantSums(t, books.series(t))
		}
	})
}

func (l *ledger) want(t *testing.T, want string) {
	t.Helper()
	var events []string
	eventually(func() bool {
		events = append(events, l.events()...)
		return len(events) >= len(strings.Split(want, "|"))
	})
	wantEqual(t, "the log has", strings.Join(events, "|"), want)
}

func askedBy(t *testing.T, response string) (key, state string) {
	t.Helper()
	var r struct {
		Result struct {
			InputRequests map[string]json.RawMessage
			RequestState  string
		}
	}
	if err := json.Unmarshal([]byte(response), &r); err != nil || len(r.Result.InputRequests) != 1 {
		t.Fatalf("got %s, %v", response, err)
	}
	for key = range r.Result.InputRequests {
	}
	return key, r.Result.RequestState
}

// Only the process that gets an answer counts it: as completed, or as timed out if it is late.
func TestNoQuestionIsBothCompletedAndTimedOut(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("late %v", late), func(t *testing.T) {
			t.Parallel()
			upstream := askWhatever(t, protocol.Modern)
			ring := servertest.NewKeyring("shared")
			var books [2]*ledger
			var urls [2]string
			for i := range books {
				opts := &gateway.Options{
					Server: server.Options{Info: protocol.Implementation{Name: "g", Version: "1"},
						Roundtrip: roundtrip.Options{Sealer: ring}},
					Upstreams:   []gateway.Upstream{ops(upstream, protocol.Modern)},
					Elicitation: elicitation.Options{Timeout: time.Second, MinHumanTime: -1},
				}
				books[i] = newLedger(opts)
				_, urls[i] = serveGateway(t, opts, byUser)
				connectUser(t, urls[i], "ann", client.Options{Era: protocol.Modern}, "ops_x")
			}
			question, state := askedBy(t, modernRaw(t, urls[0], "ann", "ops_x", "", ""))
			wantEqual(t, "pending where it was asked", books[0].series(t)["elicitation_pending"], 1.0)
			want := `elicitation_completed_total{action="accept"}`
			if late {
				time.Sleep(1200 * time.Millisecond)
				want = "elicitation_timeout_total"
			}
			for range 2 { // a copy is answered alike, but not counted
				got := modernRaw(t, urls[1], "ann", "ops_x", state,
					`{"`+question+`":{"action":"accept","content":{"name":"ann"}}}`)
				if strings.Contains(got, "Elicitation timed out") != late {
					t.Errorf("got %s", got)
				}
			}
			time.Sleep(1200 * time.Millisecond) // no process still knows the question
			asked, answered := books[0].series(t), books[1].series(t)
			t.Log(asked, answered)
			if len(asked) != 1 || asked["elicitation_requests_total"] != 1 {
				t.Errorf("the process that asked counts %v", asked)
			}
			if len(answered) != 2 || answered[want] != 1 ||
				answered["elicitation_duration_seconds"] != 1 {
				t.Errorf("the process that was answered counts %v", answered)
			}
		})
	}
}
