//lint:file-ignore SA1019 logging and roots are deprecated, and supported for as long as they exist

package gosdk_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/testing/hostedtest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
	"github.com/rondo-mcp/rondo/server/hosted/gosdk"
)

func progress(token any, n int) *mcp.ProgressNotificationParams {
	return &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(n)}
}

func logged(data string) *mcp.LoggingMessageParams {
	return &mcp.LoggingMessageParams{Level: "debug", Data: data}
}

// report sends notifications, with the handler's context and without.
func report(ctx context.Context, req *toolRequest) (*toolResult, error) {
	token := req.Params.GetProgressToken()
	for i := range 20 {
		_ = req.Session.NotifyProgress(ctx, progress(token, i))
		_ = req.Session.Log(ctx, logged(fmt.Sprint(i)))
	}
	slog.New(mcp.NewLoggingHandler(req.Session, nil)).DebugContext(ctx, "slog")
	_ = req.Session.NotifyProgress(context.Background(), progress(token, 99))
	_ = req.Session.NotifyProgress(context.Background(), progress("unknown", 1))
	_ = req.Session.NotifyElicitationComplete(ctx, &mcp.ElicitationCompleteParams{
		ElicitationID: "7"})
	return textf("reported"), nil
}

func TestReportsReachTheirCallInOrder(t *testing.T) {
	s := newServer(nil)
	addTool(s, "report", report)
	for _, sends := range []struct{ params, token string }{
		{`{"name":"report","_meta":{"progressToken":"t<"}}`, `"t<"`},
		{`{"name":"report","_meta":{"progressToken":7}}`, `7`},
		{`{"name":"report","requestState":"x","_meta":{"progressToken":7}}`, `7`},
	} {
		c := open(t, s)
		b := &back{}
		want(t, "call", textOf(c.Send(t.Context(), "tools/call", sends.params, b)), "reported")
		lines := strings.Split(b.List(), "\n")
		if len(lines) != 43 {
			t.Fatalf("%s: %d messages, want 43", sends.params, len(lines))
		}
		for i := range 20 {
			want(t, "progress", lines[2*i], fmt.Sprintf(
				`notifications/progress {"progressToken":%s,"progress":%d}`, sends.token, i))
			want(t, "log", lines[2*i+1],
				fmt.Sprintf(`notifications/message {"data":"%d","level":"debug"}`, i))
		}
		if !strings.Contains(lines[40], `"msg":"slog"`) {
			t.Errorf("got %s", lines[40])
		}
		want(t, "by its token", lines[41],
			`notifications/progress {"progressToken":`+sends.token+`,"progress":99}`)
		want(t, "by its context", lines[42],
			`notifications/elicitation/complete {"elicitationId":"7"}`)
		want(t, "what belongs to no call", c.Back.List(),
			`notifications/progress {"progressToken":"unknown","progress":1}`)
	}
}

func TestMessagesToOtherSessions(t *testing.T) {
	s := newServer(nil)
	addTool(s, "tell all", func(ctx context.Context, req *toolRequest) (*toolResult, error) {
		for other := range s.Sessions() {
			_ = other.Log(ctx, logged("to "+other.ID()))
			_ = other.NotifyProgress(ctx, progress(req.Params.GetProgressToken(), 1))
			if _, err := asks["form"](ctx, other); (err == nil) != (other == req.Session) {
				return nil, fmt.Errorf("session %s: %w", other.ID(), err)
			}
		}
		return textf("told"), nil
	})
	p := gosdk.Peer(s, nil)
	one := hostedtest.OpenAs(t, p, &hosted.Caller{SessionID: "1"}, noCapabilities)
	two := hostedtest.OpenAs(t, p, &hosted.Caller{SessionID: "2"}, noCapabilities)
	b := &back{Answer: onHandler}
	want(t, "call", textOf(one.Send(t.Context(), "tools/call",
		`{"name":"tell all","_meta":{"progressToken":1}}`, b)), "told")
	for _, sent := range []struct{ what, got, has, hasNot string }{
		{"its own", b.List(), "to 1", "to 2"},
		{"the other", two.Back.List(), "to 2", "to 1"},
	} {
		if !strings.Contains(sent.got, sent.has) || strings.Contains(sent.got, sent.hasNot) ||
			strings.Count(sent.got, "\n") != 2 {
			t.Errorf("%s client got\n%s", sent.what, sent.got)
		}
	}
	want(t, "no call of its own", one.Back.List(), "")
}

func TestLogsWithoutTheContextOfACall(t *testing.T) {
	s := newServer(nil)
	addText(s, "log", func(_ context.Context, req *toolRequest) (string, error) {
		return "logged", req.Session.Log(context.Background(), logged("x"))
	})
	c := open(t, s)
	const message = `notifications/message {"data":"x","level":"debug"}`
	b := &back{}
	c.Call("log", b)
	want(t, "of the only call", b.List(), message)
	for session := range s.Sessions() {
		_ = session.Log(context.Background(), logged("x"))
	}
	want(t, "of no call", c.Back.List(), message)
}

func TestListsThatChangeWhileACallRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(nil)
		addTool(s, "change", func(context.Context, *toolRequest) (*toolResult, error) {
			addTool(s, "new", nil)
			s.AddPrompt(&mcp.Prompt{Name: "new"}, nil)
			s.AddResource(&mcp.Resource{URI: "x://y", Name: "y"}, nil)
			time.Sleep(time.Second) // until the SDK has announced it
			s.RemoveTools("new")
			return textf("changed"), nil
		})
		c := open(t, s)
		b := &back{}
		want(t, "call", c.Call("change", b), "changed")
		time.Sleep(time.Second)
		want(t, "of the call", b.List(), "")
		got := c.Back.List()
		for method, n := range map[string]int{"tools": 2, "prompts": 1, "resources": 1} {
			if strings.Count(got, "notifications/"+method+"/list_changed") != n {
				t.Errorf("got %s, want %d of %s", got, n, method)
			}
		}
	})
}

func TestUpdatesReachSubscribers(t *testing.T) {
	var subscribed []string
	s := newServer(&mcp.ServerOptions{
		SubscribeHandler: func(_ context.Context, req *mcp.SubscribeRequest) error {
			subscribed = append(subscribed, req.Params.URI)
			return nil
		},
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	addTool(s, "update", func(ctx context.Context, _ *toolRequest) (*toolResult, error) {
		return textf("updated"), s.ResourceUpdated(ctx,
			&mcp.ResourceUpdatedNotificationParams{URI: "x://y"})
	})
	p := gosdk.Peer(s, nil)
	one, two := hostedtest.OpenAs(t, p, &hosted.Caller{}, noCapabilities),
		hostedtest.OpenAs(t, p, &hosted.Caller{}, noCapabilities)
	for _, method := range []string{"resources/subscribe", "", "resources/unsubscribe", ""} {
		if method != "" {
			want(t, method, textOf(one.Send(t.Context(), method, `{"uri":"x://y"}`, nil)), "{}")
		}
		b := &back{}
		want(t, "call", one.Call("update", b), "updated")
		want(t, "of the call", b.List(), "")
	}
	modern := hostedtest.OpenAs(t, gosdk.Peer(s, &gosdk.Options{TrueRevision: true}),
		&hosted.Caller{Version: protocol.V20260728}, noCapabilities)
	for _, method := range []string{"resources/subscribe", "resources/unsubscribe"} {
		want(t, method, textOf(modern.Send(t.Context(), method, `{"uri":"x://y"}`, nil)), "{}")
		modern.Call("update", nil)
	}
	if got := modern.Back.List(); strings.Count(got, `"uri":"x://y"`) != 1 {
		t.Errorf("in revision 2026-07-28 the subscriber got %q", got)
	}
	const updated = `notifications/resources/updated {"uri":"x://y"}`
	want(t, "the subscriber", one.Back.List(), updated+"\n"+updated)
	want(t, "the other", two.Back.List(), "")
	want(t, "subscribed", fmt.Sprint(subscribed), "[x://y x://y]")
}
