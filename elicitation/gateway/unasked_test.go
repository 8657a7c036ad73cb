package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// With the gateway's page, upstreams ask as if the client could show forms.
func TestQuestionsReachClientsThatShowNone(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		upstream, page := startUpstream(t), &servertest.Page{}
		opts := before(ops(upstream.url, upstreamEra))
		opts.Server.Roundtrip.Page = page
		_, url := serveGateway(t, opts, byUser)
		c := connectUser(t, url, "ann", client.Options{Era: clientEra}, "ops_deploy")
		content := func(message string) string {
			if strings.Contains(message, "where") {
				return `{"name":"production"}`
			}
			return `{"sure":true}`
		}
		text, asked := "", 0
		for ; asked < 6; asked++ {
			if text = callText(t, c, "ops_deploy"); !page.Answer(text, content) {
				break
			}
		}
		if text != deployed || asked != 2 {
			t.Errorf("asked %d times, got %q", asked, text)
		}
		if n := upstream.commits.Load(); n != 1 {
			t.Errorf("%d effects", n)
		}
		nobody := connectWith(t, url, client.Options{Era: clientEra}, "ops_deploy")
		if text := callText(t, nobody, "ops_deploy"); page.Answer(text, content) {
			t.Errorf("an anonymous caller got %q", text)
		}
	})
}

func payAndMail(t *testing.T, charges *atomic.Int64) func(context.Context, *server.ToolCall) (
	outcome, error) {
	return func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
		if _, err := roundtrip.Ask[confirmation](ctx, "pay", "Pay?"); err != nil {
			return nil, err
		}
		_, err := roundtrip.Memo(ctx, "charge", func(context.Context) (int64, error) {
			return charges.Add(1), nil
		})
		noError(t, err)
		_, err = roundtrip.Ask[confirmation](ctx, "mail", "Mail?")
		return server.Text("done"), err
	}
}

// Between its questions the upstream charges: its call goes on while its user is on the page.
func TestAnUpstreamGoesOnWhileItsUserIsOnThePage(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		var charges atomic.Int64
		upstream := serveTool(t, "pay", payAndMail(t, &charges))
		page := &servertest.Page{}
		opts := before(ops(upstream, upstreamEra))
		opts.Server.Roundtrip.Page = page
		_, url := serveGateway(t, opts, byUser)
		c := connectUser(t, url, "ann", client.Options{Era: clientEra}, "ops_pay")
		yeses, text := int64(0), ""
		for range 8 {
			text = callText(t, c, "ops_pay")
			if !page.Answer(text, func(message string) string {
				if strings.Contains(message, "Pay?") {
					yeses++
				}
				return `{"sure":true}`
			}) {
				break
			}
		}
		if n := charges.Load(); text != "done" || n != 1 || yeses != 1 {
			t.Errorf("%q after %d yeses and %d charges", text, yeses, n)
		}
	})
}

// An upstream's call that is at another replica may have acted, so none replaces it.
func TestACallOfAnotherReplicaIsNotRepeated(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		want, questions := "not known here", 1
		if upstreamEra == protocol.Modern {
			want, questions = "done", 2 // its state is in the kept call
		}
		var charges atomic.Int64
		upstream := serveTool(t, "pay", payAndMail(t, &charges))
		page, ring := &servertest.Page{}, servertest.NewKeyring("k")
		text, asked := "", 0
		for ; asked < 3; asked++ {
			opts := before(ops(upstream, upstreamEra))
			opts.Server.Roundtrip.Page, opts.Server.Roundtrip.Sealer = page, ring
			opts.Server.Roundtrip.Audience = "gateway"
			_, url := serveGateway(t, opts, byUser)
			text = callText(t, connectUser(t, url, "ann", client.Options{Era: clientEra}, "ops_pay"),
				"ops_pay")
			if !page.Answer(text, yesToAll) {
				break
			}
		}
		if !strings.Contains(text, want) || asked != questions {
			t.Errorf("%q after %d questions", text, asked)
		}
	})
}

func yesToAll(string) string { return `{"sure":true}` }

func pushForm(ctx context.Context, call *server.ToolCall, message string) error {
	_, err := call.Push(ctx, &protocol.ElicitForm{Message: message,
		Schema: []byte(`{"type":"object","properties":{"sure":{"type":"boolean"}}}`)})
	return err
}

// A tool that acts before its question is not called again when its time is over.
func TestACallThatTookTooLongIsNotRepeated(t *testing.T) {
	forEachEra(t, func(t *testing.T, era protocol.Era) {
		charges, over := atomic.Int64{}, make(chan error, 2)
		upstream := serveTool(t, "pay", func(ctx context.Context, call *server.ToolCall) (outcome, error) {
			charges.Add(1)
			err := pushForm(ctx, call, "Mail the receipt?")
			over <- err
			return nil, err
		})
		page := &servertest.Page{}
		opts := before(ops(upstream, protocol.Legacy)).WithCallTime(time.Second)
		opts.Server.Roundtrip.Page = page
		_, url := serveGateway(t, opts, byUser)
		c := connectUser(t, url, "ann", client.Options{Era: era}, "ops_pay")
		page.Answer(callText(t, c, "ops_pay"), yesToAll)
		await(t, over, "the end of the call")
		text := callText(t, c, "ops_pay")
		if n := charges.Load(); !strings.Contains(text, "not known") || n != 1 {
			t.Errorf("%q after %d charges", text, n)
		}
	})
}

// The client leaves while its user is on the page, so the upstream's call is over: the answer counts
// for no other one.
func TestAnAnswerServesNoOtherCall(t *testing.T) {
	forEachEra(t, func(t *testing.T, era protocol.Era) {
		calls := atomic.Int64{}
		upstream := serveTool(t, "pay", func(ctx context.Context, call *server.ToolCall) (outcome, error) {
			calls.Add(1)
			return server.Text("done"), pushForm(ctx, call, "Mail the receipt?")
		})
		page, links := &servertest.Page{}, []string{}
		opts := before(ops(upstream, protocol.Legacy))
		opts.Server.Roundtrip.Page = page
		_, url := serveGateway(t, opts, byUser)
		ctx, leave := context.WithCancel(t.Context())
		c := connectUser(t, url, "ann", client.Options{Era: era, ElicitURL: func(_ context.Context,
			q *client.URLQuestion) (*protocol.ElicitResult, error) {
			if links = append(links, q.URL); len(links) > 1 {
				page.Answer(q.URL, yesToAll)
			}
			time.AfterFunc(100*time.Millisecond, leave)
			return client.Accept(nil)
		}}, "ops_pay")
		if _, err := c.CallTool(ctx, "ops_pay", nil); err == nil {
			t.Error("it got a response")
		}
		page.Answer(links[0], yesToAll)
		time.Sleep(100 * time.Millisecond) // for what might keep the call
		if callText(t, c, "ops_pay"); calls.Load() > 1 && len(links) == 1 {
			t.Errorf("%d calls with one answer", calls.Load())
		}
	})
}

// The user goes on in another client, of another era, which shows forms by itself.
func TestACallGoesOnFromAClientOfTheOtherEra(t *testing.T) {
	forEachEra(t, func(t *testing.T, era protocol.Era) {
		begun := atomic.Int64{}
		upstream := serveTool(t, "pay", func(ctx context.Context, call *server.ToolCall) (outcome, error) {
			begun.Add(1)
			err := pushForm(ctx, call, "Pay?")
			if err == nil {
				err = pushForm(ctx, call, "Mail?")
			}
			return server.Text("done"), err
		})
		page := &servertest.Page{}
		opts := before(ops(upstream, protocol.Legacy))
		opts.Server.Roundtrip.Page, opts.Server.Roundtrip.MinHumanTime = page, -1
		_, url := serveGateway(t, opts, byUser)
		other := protocol.Legacy
		if era == protocol.Legacy {
			other = protocol.Modern
		}
		c := connectUser(t, url, "ann", client.Options{Era: era}, "ops_pay")
		page.Answer(callText(t, c, "ops_pay"), yesToAll)
		c = connectUser(t, url, "ann", client.Options{Era: other,
			ElicitForm: accepting(confirmation{true}).fill}, "ops_pay")
		text := callText(t, c, "ops_pay")
		for page.Answer(text, yesToAll) {
			text = callText(t, c, "ops_pay")
		}
		if text != "done" || begun.Load() != 1 {
			t.Errorf("%q from %d calls", text, begun.Load())
		}
	})
}

// While the client samples, the question beside it ends the call with a link.
func TestAQuestionInFlightBesideALinkIsAskedAgain(t *testing.T) {
	forEachEra(t, func(t *testing.T, era protocol.Era) {
		begun := atomic.Int64{}
		upstream := serveTool(t, "pay", func(ctx context.Context, call *server.ToolCall) (outcome, error) {
			begun.Add(1)
			sampled := make(chan error)
			go func() {
				_, err := call.Push(ctx, &protocol.CreateMessage{MaxTokens: 10})
				sampled <- err
			}()
			err := pushForm(ctx, call, "Pay?")
			return server.Text("done"), errors.Join(err, <-sampled)
		})
		page := &servertest.Page{}
		opts := before(ops(upstream, protocol.Legacy))
		opts.Server.Roundtrip.Page = page
		_, url := serveGateway(t, opts, byUser)
		c := connectUser(t, url, "ann", client.Options{Era: era, CreateMessage: func(ctx context.Context,
			_ *client.SamplingQuestion) (*protocol.CreateMessageResult, error) {
			_ = waiting.Sleep(ctx, 300*time.Millisecond)
			return &protocol.CreateMessageResult{Role: "assistant", Model: "m", Content: []protocol.Content{
				&protocol.TextContent{Text: "sum"}}}, ctx.Err()
		}}, "ops_pay")
		text := callText(t, c, "ops_pay")
		for page.Answer(text, yesToAll) {
			text = callText(t, c, "ops_pay")
		}
		if text != "done" || begun.Load() != 1 {
			t.Errorf("%q from %d calls", text, begun.Load())
		}
	})
}

// An upstream that got the answer may have acted, whatever its error.
func TestAnAnswerThatAnUpstreamGotIsNotUsedAgain(t *testing.T) {
	up := newRaw(func(c *rawCall) {
		c.ask(7, "Pay?")
		c.takeAnswer()
		c.end(fmt.Sprintf(`{"jsonrpc":"2.0","id":%%s,"error":{"code":%d,"message":"no scope"}}`,
			protocol.CodeInsufficientScope))
	})
	page := &servertest.Page{}
	opts := before(ops(serve(t, up).URL, protocol.Legacy))
	opts.Server.Roundtrip.Page = page
	_, url := serveGateway(t, opts, byUser)
	c := connectUser(t, url, "ann", client.Options{Era: protocol.Modern}, "ops_x")
	page.Answer(callText(t, c, "ops_x"), yesToAll)
	callText(t, c, "ops_x")
	if text := callText(t, c, "ops_x"); !page.Answer(text, yesToAll) {
		t.Errorf("not asked again: %q", text)
	}
}
