package gateway_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

func startLedger(
	t *testing.T, upstream string, era protocol.Era, asks elicitation.Options,
) (string, *ledger) {
	t.Helper()
	asks.MinHumanTime = -1
	opts := before(ops(upstream, era))
	opts.Elicitation = asks
	books := newLedger(opts)
	_, url := serveGateway(t, opts, byUser)
	return url, books
}

type formFunc = func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error)

func fillAfter(wait time.Duration) formFunc {
	return func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
		time.Sleep(wait)
		return client.Accept(target{"ann"})
	}
}

// Upstreams get the specification's code and text for failed pushed questions. The code is logged.
func TestUpstreamsReadTheTextsOfTheSpecification(t *testing.T) {
	ask, form := fmt.Sprintf(rawAsk, "8", "Who?"), fillAfter(0)
	for _, c := range []struct {
		name, ask string
		client    client.Options
		asks      elicitation.Options
		error     string // for the upstream, as text
		events    string
	}{
		{"timeout", ask, client.Options{ElicitForm: fillAfter(700 * time.Millisecond)},
			elicitation.Options{Timeout: 300 * time.Millisecond},
			`"code":23224,"message":"Elicitation timed out"`,
			"created|delivered|timeout code=23224"},
		{"no capability", ask, client.Options{}, elicitation.Options{},
			`"code":-32601,"message":"Client does not support elicitation"`,
			"rejected reason=capability code=-32601"},
		{"no forms", ask, client.Options{ElicitURL: agreeToVisit}, elicitation.Options{},
			`"code":-32602,"message":"Client does not support form elicitation"`,
			"rejected reason=mode code=-32602"},
		{"a form that cannot be checked", strings.Replace(ask, `"string"`, `"array"`, 1),
			client.Options{ElicitForm: form}, elicitation.Options{},
			`"code":-32602,"message":"Invalid elicitation request: `,
			"rejected reason=invalid_question code=-32602"},
	} {
		t.Run(c.name, func(t *testing.T) {
			forEachEra(t, func(t *testing.T, era protocol.Era) {
				read := make(chan string, 1)
				upstream := startRaw(t, func(call *rawCall) {
					call.event(c.ask)
					read <- call.takeAnswer()
				})
				url, books := startLedger(t, upstream, protocol.Legacy, c.asks)
				with := c.client
				with.Era = era
				client := callText(t, connectUser(t, url, "ann", with, "ops_x"), "ops_x")
				if got := <-read; !strings.Contains(got, c.error) {
					t.Errorf("the upstream reads %s, and the client %s", got, client)
				}
				books.want(t, c.events)
			})
		})
	}
}

// A question without an open call is rejected: no client is asked, and no request is counted.
func TestAQuestionWithoutACallReachesNobody(t *testing.T) {
	forEachEra(t, func(t *testing.T, era protocol.Era) {
		u := newRaw(nil)
		u.pushed = make(chan string)
		url, books := startLedger(t, serve(t, u).URL, protocol.Legacy, elicitation.Options{})
		p := &person{}
		c := connectUser(t, url, "ann", client.Options{Era: era, ElicitForm: p.fill}, "ops_x")
		askTwice := func() {
			for range 2 { // perhaps in one session each
				u.pushed <- fmt.Sprintf(rawAsk, `"q"`, "Who?")
				wantPart(t, "the upstream reads", u.takeAnswer(t.Context()),
					`"code":-32601,"message":"No client session available"`)
				books.want(t, "rejected reason=no_session code=-32601 without downstream_session "+
					"message=Who? subject=<nil>")
			}
		}
		askTwice()
		wantText(t, c, "ops_x", "done")
		askTwice()
		if len(p.shown) > 0 {
			t.Errorf("shown %q", p.shown)
		}
		series := books.series(t)
		if len(series) != 1 || series[`elicitation_rejected_total{reason="no_session"}`] != 4 {
			t.Errorf("counted are %v", series)
		}
	})
}

// Entries of a question have its id, connection and client, and at the end action and duration.
func TestEntriesOfAQuestionSayWhoWasAskedAndHowLong(t *testing.T) {
	const thinks = 200 * time.Millisecond
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		url, books := startLedger(t, askWhatever(t, upstreamEra), upstreamEra, elicitation.Options{
			Subject: func(p protocol.Principal) string { return p.Subject }})
		mcp := connectUser(t, url, "ann", client.Options{
			Era: clientEra, ElicitForm: fillAfter(thinks)}, "ops_x")
		if _, err := mcp.CallTool(t.Context(), "ops_x", nil); err != nil {
			t.Fatal(err)
		}
		entries := books.logs.FilterMessageSnippet("elicitation.").All()
		if len(entries) != 3 {
			t.Fatalf("%d entries", len(entries))
		}
		first := entries[0].ContextMap()
		for i, action := range []string{"", "", "accept"} {
			f := entries[i].ContextMap()
			ms, _ := f["duration_ms"].(float64)
			up, _ := f["upstream_session"].(string)
			if id, _ := f["request_id"].(string); len(id) != 32 || id != first["request_id"] ||
				!strings.HasPrefix(up, "ops") || f["subject"] != "ann" ||
				f["message"] != "Who?" || f["action"] != action ||
				action != "" && time.Duration(ms)*time.Millisecond < thinks {
				t.Errorf("%s has %v", entries[i].Message, f)
			}
			// A relayed question of a client without sessions is answered in another request.
			if f["downstream_session"] != first["downstream_session"] &&
				(clientEra == protocol.Legacy || upstreamEra == protocol.Legacy) {
				t.Errorf("%s has %v, and the first %v", entries[i].Message, f, first)
			}
		}
		for _, name := range []string{"elicitation_requests_total",
			`elicitation_completed_total{action="accept"}`, "elicitation_duration_seconds"} {
			wantEqual(t, name, books.series(t)[name], 1.0)
		}
	})
}

// A question withdrawn by its upstream or with its call is counted as cancelled.
func TestAQuestionThatIsWithdrawnIsCounted(t *testing.T) {
	withdrawn := make(chan struct{})
	pushes := startRaw(t, func(c *rawCall) {
		c.ask(8, "Who?")
		<-withdrawn
		c.event(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":8}}`)
		time.Sleep(100 * time.Millisecond) // so that the question does not end with the call
	})
	for _, c := range []struct {
		name, upstream, by string
		era                protocol.Era // of the upstream
	}{
		{"by the upstream", pushes, "upstream", protocol.Legacy},
		{"by the client, pushed", askWhatever(t, protocol.Legacy), "client", protocol.Legacy},
		{"by the client, returned", askWhatever(t, protocol.Modern), "client", protocol.Modern},
	} {
		t.Run(c.name, func(t *testing.T) {
			url, books := startLedger(t, c.upstream, c.era, elicitation.Options{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p, _ := silent(func() {
				if c.by == "client" {
					cancel()
				} else {
					close(withdrawn)
				}
			})
			mcp := connectUser(t, url, "ann", client.Options{
				Era: protocol.Legacy, ElicitForm: p.fill}, "ops_x")
			_, err := mcp.CallTool(ctx, "ops_x", nil)
			if (err != nil) != (c.by == "client") {
				t.Errorf("the call ended with %v", err)
			}
			books.want(t, "created|delivered|cancelled by="+c.by+" code=23221")
			series := books.series(t)
			wantSums(t, series)
			if series[`elicitation_cancelled_total{by="`+c.by+`"}`] != 1 {
				t.Errorf("counted are %v", series)
			}
		})
	}
}

// ELICITATION_MAX_CONCURRENT limits pending questions; a further one is refused with RetryAfter.
func TestQuestionsBeyondTheLimitAreRefused(t *testing.T) {
	forEachEra(t, func(t *testing.T, era protocol.Era) {
		asks, err := elicitation.OptionsFromEnv(func(name string) (string, bool) {
			return "1", name == "ELICITATION_MAX_CONCURRENT"
		})
		noError(t, err)
		read := make(chan string, 2)
		upstream := startRaw(t, func(c *rawCall) {
			c.ask(8, "Who?")
			c.ask(9, "Who?")
			read <- c.takeAnswer()
			read <- c.takeAnswer()
		})
		url, books := startLedger(t, upstream, protocol.Legacy, asks)
		wantText(t, connectUser(t, url, "ann", client.Options{
			Era: era, ElicitForm: fillAfter(200 * time.Millisecond)}, "ops_x"), "ops_x", "done")
		if got := <-read; !strings.Contains(got, `"Too many elicitations are pending"`) ||
			!strings.Contains(got, `"retryAfterMs":5000`) {
			t.Errorf("the upstream reads %s", got)
		}
		wantPart(t, "the upstream reads", <-read, `"accept"`)
		series := books.series(t)
		if series[`elicitation_rejected_total{reason="capacity"}`] != 1 ||
			series[`elicitation_completed_total{action="accept"}`] != 1 {
			t.Errorf("counted are %v", series)
		}
	})
}
