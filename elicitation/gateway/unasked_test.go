package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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
		books := newLedger(opts)
		_, url := serveGateway(t, opts, byUser)
		c := connectUser(t, url, "ann", client.Options{Era: clientEra}, "ops_deploy")
		content := func(message string) string {
			if strings.Contains(message, "where") {
				return `{"name":"production"}`
			}
			return `{"sure":true}`
		}
		text, asked, want := "", 0, ""
		for ; asked < 6; asked++ {
			if text = callText(t, c, "ops_deploy"); !page.Answer(text, content) {
				break
			}
			want += "created delivered completed "
		}
		if text != deployed || asked != 2 {
			t.Errorf("asked %d times, got %q", asked, text)
		}
		got := ""
		for _, line := range books.events() {
			event, _, _ := strings.Cut(line, " ")
			got += event + " "
		}
		wantEqual(t, "the events", got, want)
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

// A client does not know that the tool has acted before its question, which the page cannot take or
// the end of the gateway cuts off. So it is not told that it may send the call again.
func TestACallThatMayHaveActedIsNotSentAgain(t *testing.T) {
	for _, full := range []bool{true, false} {
		forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
			charges, asked := atomic.Int64{}, make(chan bool, 8)
			upstream := serveTool(t, "pay", func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
				charges.Add(1)
				_, err := roundtrip.Ask[confirmation](ctx, "mail", "Mail the receipt?")
				return server.Text("done"), err
			})
			opts := before(ops(upstream, upstreamEra))
			opts.Server.Roundtrip.Page = &servertest.Page{Full: full}
			g, url := serveGateway(t, opts, byUser)
			c := connectUser(t, url, "ann", client.Options{Era: clientEra, ElicitURL: func(context.Context,
				*client.URLQuestion) (*protocol.ElicitResult, error) {
				asked <- true
				return client.Accept(nil)
			}}, "ops_pay")
			if !full && clientEra == protocol.Modern {
				return // it goes on with its state
			}
			go func() {
				if !full {
					<-asked
					ctx, stop := context.WithTimeout(context.Background(), 100*time.Millisecond)
					defer stop()
					_ = g.Shutdown(ctx)
				}
			}()
			text := callText(t, c, "ops_pay")
			if n := charges.Load(); n != 1 || full && !strings.Contains(text, "not known") ||
				strings.Contains(text, fmt.Sprint(protocol.CodeBusy)) {
				t.Errorf("full %v: %q after %d charges", full, text, n)
			}
		})
	}
}

// An upstream that does not wait any longer for its user has a result, which the next call gets.
func TestACallThatEndsWithoutItsUserIsNotAskedAbout(t *testing.T) {
	forEachEra(t, func(t *testing.T, era protocol.Era) {
		over := make(chan bool, 2)
		upstream := serveTool(t, "pay", func(ctx context.Context, call *server.ToolCall) (outcome, error) {
			ctx, stop := context.WithTimeout(ctx, 300*time.Millisecond)
			defer stop()
			_ = pushForm(ctx, call, "Pay?")
			over <- true
			return server.Text("not paid"), nil
		})
		page := &servertest.Page{}
		opts := before(ops(upstream, protocol.Legacy))
		opts.Server.Roundtrip.Page = page
		_, url := serveGateway(t, opts, byUser)
		c := connectUser(t, url, "ann", client.Options{Era: era}, "ops_pay")
		callText(t, c, "ops_pay")
		await(t, over, "the end of the question")
		time.Sleep(100 * time.Millisecond) // for the result to arrive
		wantEqual(t, "the result", callText(t, c, "ops_pay"), "not paid")
	})
}

// A client that goes on by another call has no state to come back with.
func TestALeftCallThatWentOnIsCancelled(t *testing.T) {
	forEachEra(t, func(t *testing.T, era protocol.Era) {
		answered, cancelled := make(chan bool, 1), make(chan bool, 1)
		upstream := serveTool(t, "pay", func(ctx context.Context, call *server.ToolCall) (outcome, error) {
			if err := pushForm(ctx, call, "Pay?"); err != nil {
				return nil, err
			}
			answered <- true
			<-ctx.Done()
			cancelled <- true
			return nil, ctx.Err()
		})
		page := &servertest.Page{}
		opts := before(ops(upstream, protocol.Legacy))
		opts.Server.Roundtrip.Page = page
		_, url := serveGateway(t, opts, byUser)
		c := connectUser(t, url, "ann", client.Options{Era: era}, "ops_pay")
		page.Answer(callText(t, c, "ops_pay"), yesToAll)
		ctx, leave := context.WithCancel(t.Context())
		go func() { <-answered; leave() }()
		_, err := c.CallTool(ctx, "ops_pay", nil)
		wantIs(t, "the call", err, context.Canceled)
		await(t, cancelled, "the cancellation")
	})
}

// The client that goes on with a call may support less than the first.
func TestACallIsToldWhatItsNextClientLacks(t *testing.T) {
	forEachPairing(t, func(t *testing.T, first, second protocol.Era) {
		upstream := serveTool(t, "pay", func(ctx context.Context, call *server.ToolCall) (outcome, error) {
			err := pushForm(ctx, call, "Pay?")
			if err == nil {
				_, err = call.Push(ctx, &protocol.CreateMessage{MaxTokens: 10})
			}
			return nil, err
		})
		page := &servertest.Page{}
		opts := before(ops(upstream, protocol.Legacy))
		opts.Server.Roundtrip.Page = page
		_, url := serveGateway(t, opts, byUser)
		c := connectUser(t, url, "ann", client.Options{Era: first, CreateMessage: func(context.Context,
			*client.SamplingQuestion) (*protocol.CreateMessageResult, error) {
			return nil, nil
		}}, "ops_pay")
		page.Answer(callText(t, c, "ops_pay"), yesToAll)
		c = connectUser(t, url, "ann", client.Options{Era: second}, "ops_pay")
		wantPart(t, "the upstream's result", callText(t, c, "ops_pay"), "gone on in another client")
	})
}

// Results kept for absent users have shares. Nobody is asked about a call whose result is lost.
func TestResultsThatWaitHaveShares(t *testing.T) {
	const calls = 21 // 20 of bob, and one of ann
	var over sync.WaitGroup
	begun, end := context.WithCancel(t.Context())
	srv := newServer(t, nil)
	server.AddTool(srv, server.Tool{Name: "pay"}, func(ctx context.Context, call *server.ToolCall,
		in struct{ N int }) (outcome, error) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		if in.N < calls {
			defer over.Done()
			defer context.AfterFunc(begun, stop)()
		}
		_ = pushForm(ctx, call, "Pay?")
		return server.Text(strings.Repeat("x", 1<<20)), nil
	})
	opts := before(ops(serveHTTP(t, srv), protocol.Legacy))
	opts.Server.Roundtrip.Page = &servertest.Page{}
	opts.MaxCalls, opts.MaxConnections = calls, 1000
	_, url := serveGateway(t, opts, byUser)
	call := func(user string, n int) string {
		c := connectUser(t, url, user, client.Options{Era: protocol.Modern}, "ops_pay")
		result, err := c.CallTool(t.Context(), "ops_pay", map[string]any{"N": n})
		if err != nil {
			return err.Error()
		}
		return textOf(result)
	}
	waits := func(user string, n int) bool { return strings.Contains(call(user, n), "call again") }
	users := append(slices.Repeat([]string{"bob"}, calls-1), "ann")
	over.Add(calls)
	for n, user := range users {
		if !waits(user, n) {
			t.Fatalf("%s does not wait", user)
		}
	}
	end()
	over.Wait()
	for n := range calls { // eve's calls take the places of all the others, whose results are here
		if !eventually(func() bool { return waits("eve", calls+n) }) {
			t.Fatal("a place is not free")
		}
	}
	got := map[string]int{}
	for n, user := range users {
		text := call(user, n)
		for _, part := range []string{"xxx", "not known here", "call again"} {
			if strings.Contains(text, part) {
				got[user+": "+part]++
			}
		}
	}
	want := map[string]int{"ann: xxx": 1, "bob: xxx": 15, "bob: not known here": 5}
	wantEqual(t, "the texts", fmt.Sprint(got), fmt.Sprint(want))
}
