package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/heartbeat"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// A callResult is what came of one call.
type callResult struct {
	beats int
	text  string // of the response, empty: there is none yet
	state string
}

// wait makes a call for each of retries, which are further parameters, and returns what comes of
// them when all have their result. What the calls ask is answered after the time given, all at
// once.
func (c *rawClient) wait(revision, answer string, after time.Duration,
	retries []string) []callResult {
	c.Helper()
	results, questions := make([]callResult, len(retries)), make(chan json.RawMessage, len(retries))
	for id, more := range retries {
		meta := fmt.Sprintf(`"progressToken":%d`, id)
		if revision == string(protocol.V20260728) {
			meta += `,"` + protocol.MetaProtocolVersion + `":"` + revision + `","` +
				protocol.MetaClientCapabilities + `":` + every
		}
		c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t","arguments":{},%s"_meta":{%s}}}`, id, more, meta))
	}
	go func() {
		for range retries {
			id, ok := <-questions
			if !ok {
				return
			}
			go func() {
				time.Sleep(after)
				c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, answer))
			}()
		}
	}()
	for open := len(retries); open > 0; {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Token int `json:"progressToken"`
			}
			Error  json.RawMessage
			Result struct {
				State   string `json:"requestState"`
				IsError bool   `json:"isError"`
			}
		}
		text := c.next().raw
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			c.Fatal(err)
		}
		switch m.Method {
		case protocol.MethodElicit:
			questions <- m.ID
		case protocol.NotifyProgress:
			if results[m.Params.Token].beats++; results[m.Params.Token].text != "" {
				c.Errorf("after the result of call %d the server says %s", m.Params.Token, text)
			}
		case "":
			var id int
			if err := json.Unmarshal(m.ID, &id); err != nil || results[id].text != "" ||
				m.Error != nil || m.Result.IsError {
				c.Fatalf("got %s", text)
			}
			results[id].text, results[id].state = text, m.Result.State
			open--
		}
	}
	close(questions)
	synctest.Wait()
	for len(c.heard) > 0 {
		c.Errorf("after all results the server says %s", (<-c.heard).raw)
	}
	return results
}

// TestNoHeartbeatFollowsTheResult, also if people answer, or visits end, at the very instant at
// which heartbeats are due: which of the two comes first is left to chance, so there are many of
// them at once.
func TestNoHeartbeatFollowsTheResult(t *testing.T) {
	for over, open := range rawTransports {
		for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
			for _, visit := range []bool{false, true} {
				if visit != (revision == "2026-07-28") && revision != "2025-11-25" {
					continue // what waits in the modern revision is the end of a visit
				}
				t.Run(fmt.Sprint(over, "/", revision, "/visit ", visit), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						answerWhenBeatsAreDue(t, open, revision,
							visit)
					})
				})
			}
		}
	}
}

func answerWhenBeatsAreDue(t *testing.T, open func(*testing.T, *server.Server, string) *rawClient,
	revision string, visit bool) {
	const rounds, calls = 8, 50
	srv, _ := mustServe(t, nil)
	var finished time.Time
	server.AddRawTool(srv, server.Tool{Name: "t"},
		func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			if !visit {
				_, err := roundtrip.Ask[confirmation](ctx, "sure", "Sure?")
				return server.Text("done"), err
			}
			if err := roundtrip.AskURL(ctx, "login", "Sign in", "https://id.example/"); err != nil {
				return nil, err
			}
			err := roundtrip.Await(ctx, "login",
				func(context.Context) (bool, error) { return !time.Now().Before(finished), nil })
			return server.Text("done"), err
		})
	c, beats := open(t, srv, revision), 0
	for i := range rounds {
		// no visit is held for much longer
		due := heartbeat.Delay + time.Duration(i%2)*heartbeat.DefaultInterval
		finished = time.Now().Add(due)
		answer, after, retries := `{"action":"accept","content":{"reason":"why not"}}`, due, make([]string, calls)
		if visit {
			answer, after = `{"action":"accept"}`, 0
		}
		results := c.wait(revision, answer, after, retries)
		if revision == string(protocol.V20260728) {
			for i := range retries {
				retries[i] = `"inputResponses":{"login":` + answer + `},"requestState":` +
					quote(results[i].state) + `,`
			}
			results = c.wait(revision, "", 0, retries)
		}
		for _, r := range results {
			if beats += r.beats; !strings.Contains(r.text, "done") {
				t.Fatalf("got %s", r.text)
			}
		}
	}
	time.Sleep(time.Hour)
	if beats < rounds*calls/2 {
		t.Errorf("%d calls that wait have %d heartbeats", rounds*calls, beats)
	}
}
