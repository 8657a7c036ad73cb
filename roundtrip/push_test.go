package roundtrip_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// TestPushedURLsHaveAnElicitationID: revision 2025-11-25 requires one. The author's own is kept.
func TestPushedURLsHaveAnElicitationID(t *testing.T) {
	own := roundtrip.InputRequired(roundtrip.ElicitURL("c", "m", "https://id.example/c"),
		roundtrip.ElicitURL("a", "m", "https://id.example/a"),
		roundtrip.ElicitURL("b", "m", "https://id.example/b"))
	own.InputRequests[0].Request.(*protocol.ElicitURL).ElicitationID = "mine"
	c, h := serveLive(t, rounds(returns(own, nil), returns(say("done"))))
	c.says("done")
	ids := map[string]string{}
	for _, q := range h.asked {
		ids[q.(*protocol.ElicitURL).URL] = q.(*protocol.ElicitURL).ElicitationID
	}
	a, b := ids["https://id.example/a"], ids["https://id.example/b"]
	if len(a) < 16 || len(b) < 16 || a == b || ids["https://id.example/c"] != "mine" {
		t.Errorf("ids %v, want two that cannot be guessed and the author's", ids)
	}
}

func TestStateOnlyRoundsArePaced(t *testing.T) {
	for _, push := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c, h := serveLive(t, func(ctx context.Context) (protocol.Result, error) {
				n, _ := roundtrip.State[int](ctx)
				if n == 3 {
					return say("done")
				}
				return ask(roundtrip.WithState(n + 1))
			})
			if !push {
				c.call.Push = nil // nothing is asked
			}
			start := time.Now()
			if got := c.done(); got != "done" || h.traffic() != 0 {
				t.Errorf("got %q after %d questions", got, h.traffic())
			}
			if took := time.Since(start); took != 750*time.Millisecond {
				t.Errorf("three rounds took %v, want 250 ms each", took)
			}
		})
	}
}

// TestLegacyRefusalsAreOfTheFamily: a refusal has its method's form, not always a protocol error.
func TestLegacyRefusalsAreOfTheFamily(t *testing.T) {
	question := func(context.Context) (protocol.Result, error) { return ask(elicit("confirm")) }
	for _, method := range families {
		for _, tc := range []struct {
			name   string
			change func(*client)
			words  string
		}{
			{"no capability",
				func(c *client) { c.call.Capabilities = protocol.ClientCapabilities{} },
				"elicitation"},
			{"no session", func(c *client) { c.call.Push = nil }, "session"},
			{"2025-03-26",
				func(c *client) { c.call.Version = protocol.V20250326 }, "2025-03-26 has no " +
					"elicitation"},
			{"2024-11-05",
				func(c *client) { c.call.Version = protocol.V20241105 }, "2024-11-05 has no " +
					"elicitation"},
		} {
			t.Run(method+" "+tc.name, func(t *testing.T) {
				c, h := serveLive(t, question)
				c.call.Method = method
				tc.change(c)
				c.refused(protocol.CodeCannotAsk, tc.words)
				if h.traffic() != 0 {
					t.Errorf("%d questions were shown", h.traffic())
				}
				if bugs := all[event.ServerBug](c.events); len(bugs) > 0 {
					t.Errorf("a client that cannot be asked is a bug: %v", bugs)
				}
			})
		}
	}
}

func TestPushedQuestionsTimeOut(t *testing.T) {
	for _, method := range families {
		for _, tc := range []struct {
			name string
			opts roundtrip.Options
			want time.Duration
		}{
			{"default", roundtrip.Options{}, 10 * time.Minute},
			{"one second", roundtrip.Options{HumanTimeout: time.Second}, time.Second},
		} {
			bubble(t, tc.name, func(t *testing.T) {
				c, h := newLegacy(t, protocol.V20251125, tc.opts,
					asks(elicit("confirm"), roundtrip.ListRoots("roots")))
				h.answer = silent
				c.call.Method = method
				start := time.Now()
				c.refused(protocol.CodeFlowEnded, `nobody answered in time`)
				if took := time.Since(start); took != tc.want || h.withdrawn != 2 {
					t.Errorf("ended after %v with %d withdrawn, want %v and both", took,
						h.withdrawn, tc.want)
				}
			})
		}
	}
}

// TestLegacyProgressExtends: progress extends each question by itself, but not forever.
func TestLegacyProgressExtends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := serveLive(t, asksOnce)
		h.answer = func(q *pushed) (string, error) {
			for range 5 {
				time.Sleep(9 * time.Minute)
				q.extend()
			}
			if q.Err() != nil {
				return "", context.Cause(q)
			}
			return willing(q)
		}
		c.says("now")
	})
	synctest.Test(t, func(t *testing.T) {
		c, h := serveLive(t, asksOnce)
		h.answer = func(q *pushed) (string, error) {
			for q.Err() == nil {
				time.Sleep(5 * time.Minute)
				q.extend()
			}
			return "", context.Cause(q)
		}
		start := time.Now()
		contains(t, c.done(), "error: ", "nobody answered in time")
		if took := time.Since(start); took > (24*time.Hour)+5*time.Minute {
			t.Errorf("a client that only reports progress held the call for %v", took)
		}
	})
}

func asksOnce(ctx context.Context) (protocol.Result, error) {
	switch reply := replyTo(ctx, "confirm"); reply.Outcome {
	case roundtrip.Missing, roundtrip.Invalid:
		return ask(elicit("confirm"))
	case roundtrip.Accepted:
		return say(reply.Content.Reason)
	default:
		return say(reply.Outcome.String())
	}
}

// The handler nags only checks for consent.
func nags(ctx context.Context) (protocol.Result, error) {
	if consents(ctx, "confirm") {
		return say("done")
	}
	return ask(elicit("confirm"))
}

// TestLegacySiblings: the first question that fails withdraws the others.
func TestLegacySiblings(t *testing.T) {
	c, h := serveLive(t, func(context.Context) (protocol.Result, error) {
		return ask(elicit("a"), roundtrip.ListRoots("b"),
			roundtrip.ElicitURL("c", "?", "https://id.example"))
	})
	waiting := make(chan struct{}, 2)
	h.answer = func(q *pushed) (string, error) {
		if q.Kind() != protocol.KindListRoots {
			waiting <- struct{}{}
			return silent(q)
		}
		<-waiting
		<-waiting
		return "", protocol.Errorf(-1, "roots are private")
	}
	contains(t, c.done(), "error: ", "roots are private")
	if h.withdrawn != 2 {
		t.Errorf("%d withdrawn, want 2", h.withdrawn)
	}
}

// TestLegacyClientErrors: a client's error is repeated, an internal one is not.
func TestLegacyClientErrors(t *testing.T) {
	for _, method := range families {
		c, h := serveLive(t, asksOnce)
		c.call.Method = method
		h.answer = fails(protocol.Errorf(-32602, "no such mode"))
		c.refused(protocol.CodeFlowEnded, "no such mode")

		c, h = serveLive(t, asksOnce)
		c.call.Method = method
		h.answer = fails(errors.New("secret address 10.0.0.1"))
		c.refused(protocol.CodeFlowEnded, "could not be asked")
		if text := fmt.Sprint(c.asked); strings.Contains(text, "10.0.0.1") {
			t.Error("a failure beneath leaks")
		}
	}
}

func TestLegacyEndOfCall(t *testing.T) {
	c, h := serveLive(t, asksOnce)
	ctx, cancel := context.WithCancel(t.Context())
	h.answer = func(q *pushed) (string, error) {
		cancel()
		return silent(q)
	}
	result, err := c.funnel.Do(ctx, c.call, c.handler)
	if err != nil || !strings.HasPrefix(show(result), "error: ") || h.withdrawn != 1 {
		t.Errorf("got %s, %v with %d withdrawn", show(result), err, h.withdrawn)
	}
}

func TestLegacyRoundCap(t *testing.T) {
	for _, tc := range []struct {
		name string
		opts roundtrip.Options
		want int
	}{
		{"default", roundtrip.Options{}, 8},
		{"two", roundtrip.Options{Limits: roundtrip.Limits{Rounds: 2}}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, h := newLegacy(t, protocol.V20251125, tc.opts, insatiable)
			contains(t, c.done(), fmt.Sprintf("error: gave up after %d rounds", tc.want),
				fmt.Sprint("q", tc.want+1))
			if h.traffic() != tc.want || c.runs != tc.want+1 {
				t.Errorf("%d questions in %d runs, want %d", h.traffic(), c.runs, tc.want)
			}
		})
	}
}

// TestLegacyStateStays in its call: it is neither sealed nor claimed, but checked as if the client
// had carried it.
func TestLegacyStateStays(t *testing.T) {
	unused := &fakeSealer{
		seal: func([]byte) (string, error) { t.Error("sealed"); return "x", nil },
		open: func(string) ([]byte, error) { t.Error("opened"); return nil, nil },
	}
	guard := newSpy()
	c, _ := newLegacy(t, protocol.V20251125, roundtrip.Options{Sealer: unused, Guard: guard},
		func(ctx context.Context) (protocol.Result, error) {
			n := roundtrip.RoundOf(ctx).Number
			if kept, _ := roundtrip.State[int](ctx); kept != n-1 {
				t.Errorf("round %d has the state of round %d", n, kept)
			}
			if n <= 3 {
				return ask(roundtrip.Elicit[Confirmation](fmt.Sprint("q", n), "And?"),
					roundtrip.WithState(n))
			}
			return say("done")
		})
	if got := c.done(); got != "done" || len(guard.log) != 0 {
		t.Errorf("got %q; the guard was asked: %v", got, guard.log)
	}
	resumed := all[event.Resumed](c.events)
	if len(resumed) != 3 || resumed[0].Flow == "" || resumed[2].Flow != resumed[0].Flow ||
		resumed[0].StateBytes != 0 {
		t.Errorf("resumed %+v, want one flow three times", resumed)
	}
	c.ended(words.EndComplete, 4)
}

// TestLegacyStateIsLimited: carried states have the same limit, give or take a key id's length.
func TestLegacyStateIsLimited(t *testing.T) {
	for _, tc := range []struct {
		name  string
		opts  roundtrip.Options
		bytes int
		limit string // exceeded; empty: none
	}{
		{"fits", roundtrip.Options{}, 11_500, ""},
		{"does not fit", roundtrip.Options{}, 12_300, "over the limit of 16384"},
		{"fits a store", roundtrip.Options{StateStore: newShelf()}, 30_000, ""},
		{"does not fit the store", roundtrip.Options{StateStore: newShelf()}, 1 << 20,
			"over the limit of 1048576"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, v := range []protocol.Version{protocol.V20260728, protocol.V20251125} {
				kept := roundtrip.WithState(strings.Repeat("x", tc.bytes))
				c, _ := newLegacy(t, v, tc.opts, rounds(asks(elicit("q"), kept), returns(say("done"))))
				if tc.limit != "" {
					contains(t, c.bug(), tc.limit, "WithState")
					continue
				}
				if result, err := c.send(); err != nil {
					t.Errorf("%s: %v, %v", v, show(result), err)
				}
			}
		})
	}
}

func TestLegacyStateExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := serveLive(t, timed(time.Minute))
		h.answer = after(2*time.Minute, willing)
		c.fails(protocol.CodeInvalidParams)
		if r := one[event.StateRejected](t, c.events); r.Reason != words.ReasonExpired {
			t.Errorf("reason %s", r.Reason)
		}
	})
}

// TestLegacyRestartForgetsEarlierRounds: a restarted flow begins at round one, without answers.
func TestLegacyRestartForgetsEarlierRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rounds []string
		c, h := newLegacy(t, protocol.V20251125, roundtrip.Options{RestartExpired: true},
			func(ctx context.Context) (protocol.Result, error) {
				first, second := consents(ctx, "first"), consents(ctx, "second")
				third := consents(ctx, "third")
				rounds = append(rounds, fmt.Sprint(roundtrip.RoundOf(ctx).Number,
					first, second, third))
				switch {
				case !first:
					return ask(elicit("first"))
				case !second:
					return ask(elicit("second"))
				case !third:
					return ask(roundtrip.Elicit[Confirmation]("third", "?",
						roundtrip.AnswerWithin(time.Minute)))
				}
				return say("done")
			})
		h.answer = func(q *pushed) (string, error) {
			if h.traffic() == 3 {
				time.Sleep(2 * time.Minute)
			}
			return willing(q)
		}
		c.says("done")
		want := []string{"1 false false false", "2 true false false", "3 true true false",
			"1 false false false", "2 true false false", "3 true true false", "4 true true true"}
		if !slices.Equal(rounds, want) {
			t.Errorf("rounds %q, want %q", rounds, want)
		}
	})
}

// Plan has fields that revision 2025-06-18 spells differently.
type Plan struct {
	Region string  `json:"region" enum:"eu,us" enumTitles:"Europe,America" default:"us"`
	Size   int     `json:"size,omitempty" default:"3"`
	Backup bool    `json:"backup,omitempty" default:"true"`
	Ratio  float64 `json:"ratio,omitempty"`
}

type Tags struct {
	Tags []string `json:"tags" enum:"a,b"`
}

// TestFormsAreDowngradedTo20250618: forms fit that revision, and the server fills in defaults.
func TestFormsAreDowngradedTo20250618(t *testing.T) {
	c, h := serveAs(t, protocol.V20250618, func(ctx context.Context) (protocol.Result, error) {
		plan, ok := roundtrip.AcceptedContent[Plan](ctx, "plan")
		if !ok {
			return ask(roundtrip.Elicit[Plan]("plan", "Which?"))
		}
		return say(fmt.Sprintf("%+v", plan))
	})
	h.answer = says(accept(`{"region":"eu"}`))
	c.says("{Region:eu Size:3 Backup:true Ratio:0}")
	wire := h.wire[0]
	contains(t, wire, `"enum":["eu","us"]`, `"enumNames":["Europe","America"]`, `"default":true`)
	for _, word := range []string{`"mode"`, "oneOf", `"default":"us"`, `"default":3`} {
		if strings.Contains(wire, word) {
			t.Errorf("revision 2025-06-18 has no %s: %s", word, wire)
		}
	}
}

func TestQuestionsThatARevisionCannotCarry(t *testing.T) {
	sampling := func(change func(*protocol.CreateMessage)) roundtrip.Item {
		m := message("?")
		change(m)
		return roundtrip.CreateMessage("s", m)
	}
	tools := sampling(func(m *protocol.CreateMessage) {
		m.ToolChoice = &protocol.ToolChoice{Mode: "auto"}
	})
	blocks := sampling(func(m *protocol.CreateMessage) {
		m.Messages[0].Content = append(m.Messages[0].Content, m.Messages[0].Content[0])
	})
	audio := sampling(func(m *protocol.CreateMessage) {
		m.Messages[0].Content = []protocol.Content{&protocol.AudioContent{Data: []byte{1},
			MIMEType: "audio/wav"}}
	})
	for _, tc := range []struct {
		name  string
		v     protocol.Version
		item  roundtrip.Item
		words string
	}{
		{"several choices", protocol.V20250618, roundtrip.Elicit[Tags]("tags", "?"), "tags"},
		{"URL", protocol.V20250618, roundtrip.ElicitURL("u", "?", "https://id.example"), "visit"},
		{"URL", protocol.V20250326, roundtrip.ElicitURL("u", "?", "https://id.example"), "visit"},
		{"tools", protocol.V20250618, tools, "tools"},
		{"blocks", protocol.V20250618, blocks, "one block"},
		{"audio", protocol.V20241105, audio, "audio"},
	} {
		t.Run(tc.name+" "+string(tc.v), func(t *testing.T) {
			c, h := serveAs(t, tc.v, asks(roundtrip.ListRoots("first"), tc.item))
			c.refused(protocol.CodeCannotAsk, tc.words)
			if h.traffic() != 0 {
				t.Errorf("%d questions were shown", h.traffic())
			}
		})
	}
	c, h := serveAs(t, protocol.V20250326, rounds(asks(audio), returns(say("done"))))
	if got := c.done(); got != "done" || h.traffic() != 1 {
		t.Errorf("audio in 2025-03-26: got %q", got)
	}
}

// TestLegacyOldestRevisions have sampling and roots without sub-capabilities, so context is
// allowed.
func TestLegacyOldestRevisions(t *testing.T) {
	model := message("?")
	model.IncludeContext = "thisServer"
	for _, v := range []protocol.Version{protocol.V20241105, protocol.V20250326,
		protocol.V20251125} {
		c, h := serveAs(t, v, rounds(
			asks(roundtrip.ListRoots("roots"), roundtrip.CreateMessage("model", model)),
			func(ctx context.Context) (protocol.Result, error) {
				roots, _ := roundtrip.Roots(ctx, "roots")
				message, _ := roundtrip.Sampled(ctx, "model")
				return say(roots[0].URI + " " + message.Model)
			}))
		c.call.Capabilities = protocol.ClientCapabilities{Sampling: &protocol.SamplingCapability{},
			Roots: &protocol.RootsCapability{}}
		c.says("file:///src m")
		wire := strings.Join(h.wire, "")
		if strings.Contains(wire, "thisServer") != (v != protocol.V20251125) {
			t.Errorf("%s: includeContext: %q", v, wire)
		}
	}
}

// TestLegacyURLError pins the published form of -32042.
func TestLegacyURLError(t *testing.T) {
	want, err := os.ReadFile("testdata/legacy/urlrequired.json")
	noError(t, err)
	const id = "550e8400-e29b-41d4-a716-446655440000"
	published := &protocol.URLElicitationRequiredError{Elicitations: []*protocol.ElicitURL{{
		ElicitationID: id, URL: "https://mcp.example.com/connect?elicitationId=" + id,
		Message: "Authorization is required to access your Example Co files.",
	}}}
	for _, method := range families {
		c, h := serveLive(t, returns(nil, fmt.Errorf("upstream: %w", published)))
		c.call.Method = method
		e := c.fails(protocol.CodeURLElicitationRequired)
		got, err := protocol.AppendMessage(nil, &protocol.Response{ID: protocol.IntID(2), Error: e})
		if err != nil || string(got) != string(want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if h.traffic() != 0 {
			t.Error("somebody was asked")
		}
	}
}

func TestLegacyURLErrorElsewhere(t *testing.T) {
	for _, method := range families {
		for _, v := range []protocol.Version{protocol.V20241105, protocol.V20250326,
			protocol.V20250618, protocol.V20251125} {
			c, _ := serveAs(t, v, returns(nil, urlError("a")))
			c.call.Method = method
			if v == protocol.V20251125 {
				c.call.Capabilities.Elicitation = &protocol.ElicitationCapability{Form: true}
			}
			c.refused(protocol.CodeCannotAsk, "visit a URL")
		}
	}
	c, _ := serveLive(t, returns(nil, urlError("a", "")))
	contains(t, c.bug(), "elicitation")
	no := roundtrip.Options{AllowURL: func(*url.URL) error { return errors.New("no") }}
	c, _ = newLegacy(t, protocol.V20251125, no, returns(nil, urlError("a")))
	c.fails(protocol.CodeInternalError)
}

// TestLegacyErrorCodes keeps other revisions' codes off the wire, by the schema.
func TestLegacyErrorCodes(t *testing.T) {
	for _, tc := range []struct {
		name       string
		code, want int64
		v          protocol.Version
	}{
		{"header mismatch", protocol.CodeHeaderMismatch, protocol.CodeInternalError,
			protocol.V20251125},
		{"unsupported version", protocol.CodeUnsupportedProtocolVersion, protocol.CodeInternalError,
			protocol.V20250618},
		{"missing capability", protocol.CodeMissingRequiredClientCapability, protocol.CodeCannotAsk,
			protocol.V20251125},
		{"URL required", protocol.CodeURLElicitationRequired, protocol.CodeInternalError,
			protocol.V20250618},
		{"resource not found", protocol.CodeResourceNotFound, protocol.CodeResourceNotFound,
			protocol.V20241105},
		{"invalid params", protocol.CodeInvalidParams, protocol.CodeInvalidParams,
			protocol.V20241105},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, _ := serveAs(t, tc.v, returns(nil, protocol.Errorf(tc.code, "m")))
			c.fails(tc.want)
			bugs := all[event.ServerBug](c.events)
			if (len(bugs) == 1) != (tc.want == protocol.CodeInternalError) {
				t.Errorf("code %d: bugs %v", tc.code, bugs)
			}
		})
	}
}

func TestReturnedQuestionsArePushedAtOnce(t *testing.T) {
	c, h := serveLive(t, rounds(asks(elicit("a"), elicit("b")),
		func(ctx context.Context) (protocol.Result, error) {
			return say(replyTo(ctx, "a").Content.Reason + replyTo(ctx, "b").Content.Reason)
		}))
	var waiting atomic.Int32
	both := make(chan struct{})
	h.answer = func(*pushed) (string, error) {
		if waiting.Add(1) == 2 {
			close(both)
		}
		<-both
		return accepted, nil
	}
	c.says("nownow")
}
