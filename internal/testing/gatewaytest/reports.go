package gatewaytest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/testing/pipehttp"
)

// report asks, and reports progress and a log message before, and progress afterwards. It waits for
// a step after either.
func (u *Upstream) report(ctx context.Context, p *callParams, write func(string)) string {
	report := func(progress float64, message string) {
		write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{`+
			`"progressToken":%s,"progress":%v,"total":9,"message":%q}}`, p.Meta.ProgressToken,
			progress, message))
	}
	report(1, "one")
	write(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"log"}}`)
	<-u.steps
	text := u.ask(ctx, p.Arguments.Question, write)
	report(1.00001, "raised")
	report(2, "two")
	<-u.steps
	return text
}

// beat is the message of progress that the router makes.
const beat = "waiting for an answer"

// AcceptReports holds what a client hears on the token of its call: what the upstream reports, and,
// while its person thinks, that the call is alive. It keeps rising, and nothing follows the result.
// Log messages of the call arrive, too, where the adapter knows whose they are; logsOverHTTP says
// that it does on connections that calls share. A call without a token gets nothing.
func AcceptReports(t *testing.T, build Build, logsOverHTTP bool) {
	for _, lines := range []bool{false, true} {
		for _, token := range []string{`"p"`, "7"} {
			t.Run(fmt.Sprintf("token %s, lines=%v", token, lines), func(t *testing.T) {
				router := newRouter(t, &elicitation.Options{Heartbeat: 5 * time.Millisecond})
				up := NewUpstream(t)
				url := serve(t, build, router, &Backend{Upstream: up, Lines: lines})
				alice := Connect(t, url, forms, `"result":`+because, As("alice"))
				alice.Request(t, "logging/setLevel", `{"level":"info"}`)
				bob := Connect(t, url, forms, `"result":`+because, As("bob"))
				silent := bob.StartCall(t, ToolReport, plain)
				defer silent.Close()
				question := silent.WaitForQuestion(t)
				alice.checkReports(t, up, token, lines || logsOverHTTP)
				bob.Send(t, question)
				if m, ok := silent.Next(); !ok || ResultText(m) != because {
					t.Errorf("bob, who has no token, hears %s %s", m.Method, m.Params)
				}
			})
		}
	}
}

// checkReports calls ToolReport with a token, and answers after four heartbeats.
func (c *Client) checkReports(t *testing.T, up *Upstream, token string, logs bool) {
	t.Helper()
	s := c.start(t, c.lastCall.Add(1), "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{`+
		`"question":%s},"_meta":{"progressToken":%s}}`, ToolReport, plain, token))
	defer s.Close()
	var heard []string
	var question Envelope
	last, beats := 0.0, 0
	for {
		m, ok := s.Next()
		if !ok {
			t.Fatalf("the stream ended after %q", heard)
		}
		switch m.Method {
		case "elicitation/create":
			question = m
			continue
		case "notifications/message":
			heard = append(heard, "log")
		case "":
			if got := ResultText(m); got != because {
				t.Errorf("the upstream reads %s", got)
			}
			want := []string{"one", beat, "raised", "two"}
			if logs {
				want = slices.Insert(want, 1, "log")
			}
			if heard = slices.Compact(heard); !slices.Equal(heard, want) || last != 2 {
				t.Errorf("the client heard %q up to %v, want %q up to 2", heard, last, want)
			}
			if more, err := s.lines.ReadBytes('}'); err == nil {
				t.Errorf("%s follows the result", more)
			}
			return
		default:
			var p struct {
				ProgressToken   json.RawMessage
				Progress, Total float64
				Message         string
			}
			if err := json.Unmarshal(m.Params, &p); err != nil || p.Progress <= last ||
				p.Total != 9 || string(p.ProgressToken) != token {
				t.Errorf("%s follows %v, %v", m.Params, last, err)
			}
			if heard, last = append(heard, p.Message), p.Progress; p.Message == beat {
				if beats++; beats == 4 {
					c.Send(t, question)
				}
			}
		}
		if n := len(heard) - 1; heard[n] == "two" || n == 0 && !logs || heard[n] == "log" {
			up.steps <- struct{}{}
		}
	}
}

// AcceptVisit holds that a client learns that a visit is over, by the id that it knows.
func AcceptVisit(t *testing.T, build Gateway) {
	up := NewUpstream(t)
	url := build(t, newRouter(t, nil), up, SharedHTTP)
	client := Connect(t, url, bothModes, `"result":{"action":"accept"}`, nil)
	stream := client.StartCall(t, ToolAsk, visit)
	defer stream.Close()
	var asked, completed struct{ ElicitationID string }
	question := stream.WaitForQuestion(t)
	response := client.send(t, http.MethodGet, "")
	defer response.Body.Close()
	messages := make(chan Envelope)
	for _, s := range []*Stream{stream, {lines: bufio.NewReader(response.Body)}} {
		go func() { // on one of them
			m, _ := s.Next()
			messages <- m
		}()
	}
	client.Send(t, question)
	complete := <-messages
	up.steps <- struct{}{}
	if json.Unmarshal(question.Params, &asked) != nil || asked.ElicitationID == "" ||
		asked.ElicitationID == "v1" {
		t.Errorf("the client is asked %s, want an id of the router's", question.Params)
	}
	if complete.Method != "notifications/elicitation/complete" ||
		json.Unmarshal(complete.Params, &completed) != nil || completed != asked {
		t.Errorf("the client is told %s %s", complete.Method, complete.Params)
	}
	response.Body.Close()
	if result := <-messages; result.ID != nil && ResultText(result) != `{"action":"accept"}` {
		t.Errorf("the upstream reads %s", ResultText(result))
	}
}

// AcceptProgress holds that a client which says that its person is still at it is waited for, and
// that the upstream hears of it with the token that it gave. Progress of another client on the
// question, which knows its token, does not count.
func AcceptProgress(t *testing.T, build Build) {
	for _, lines := range []bool{false, true} {
		t.Run(fmt.Sprintf("lines=%v", lines), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { acceptProgress(t, build, lines) })
		})
	}
}

func acceptProgress(t *testing.T, build Build, lines bool) {
	const timeout = 16 * time.Second // mcp-go gives a question 30 s over HTTP
	router, up := newRouter(t, &elicitation.Options{Timeout: timeout}), newPipeUpstream(t)
	backend := &Backend{Upstream: up, Lines: lines, OtherProgress: make(chan string, 1)}
	gateway, _ := build(t, router, backend)
	served := pipehttp.Serve(t, gateway)
	open := func(user string) *Client {
		return connect(t, &Client{url: pipehttp.URL, header: As(user), http: served.Client(),
			reply: `"result":` + because}, forms)
	}
	alice, bob := open("alice"), open("bob")
	report := func(from *Client, token string) {
		time.Sleep(timeout / 4)
		from.post(t, `{"jsonrpc":"2.0","method":"notifications/progress","params":{`+
			`"progressToken":%s,"progress":%d,"total":6,"message":"reading"}}`, token,
			time.Now().UnixNano())
	}
	for _, from := range []*Client{alice, bob} {
		stream := alice.StartCall(t, ToolAsk, `{"_meta":{"progressToken":"up-7"},`+plain[1:])
		question := stream.WaitForQuestion(t)
		var asked struct {
			Meta struct{ ProgressToken json.RawMessage } `json:"_meta"`
		}
		if err := json.Unmarshal(question.Params, &asked); err != nil {
			t.Fatal(err)
		}
		reported, want := make(chan struct{}), because
		go func() {
			defer close(reported)
			for range 6 { // half as long again as the router waits
				report(from, string(asked.Meta.ProgressToken))
			}
		}()
		if from == alice {
			<-reported
			alice.Send(t, question)
		} else {
			want = `{"code":23224,"message":"Elicitation timed out"}`
		}
		if got := stream.Result(t); got != want {
			t.Errorf("the upstream reads %s, want %s", got, want)
		}
		<-reported
		stream.Close()
		if n := len(up.progress); (n > 0) != (from == alice) {
			t.Errorf("the upstream hears %d times of progress", n)
		}
		for len(up.progress) > 0 {
			got := <-up.progress
			if !strings.Contains(got, `"up-7"`) || !strings.Contains(got, "reading") {
				t.Errorf("the upstream hears %s", got)
			}
		}
		for len(backend.OtherProgress) > 0 { // bob's was on no question of his
			<-backend.OtherProgress
		}
	}
	report(alice, `"other"`)
	if got := <-backend.OtherProgress; got != "other" {
		t.Errorf("the host hears of %s", got)
	}
}
