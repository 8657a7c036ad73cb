package roundtriptest_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/roundtriptest"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

type Deploy struct {
	Env string `json:"env"`
}

type Confirmation struct {
	Reason string `json:"reason" minLength:"3"`
}

type Region struct {
	Name string `json:"name" enum:"eu,us"`
}

var confirm = roundtrip.MustQuestion[Confirmation]("confirm")

// newServer has tools of each style, a prompt and a resource; charged follows the last question.
func newServer(t testing.TB, effects *roundtriptest.Effects,
	opts roundtrip.Options) *server.Server {
	t.Helper()
	srv, err := server.New(&server.Options{Info: protocol.Implementation{Name: "subject",
		Version: "1"}, Roundtrip: opts})
	noError(t, err)
	server.AddTool(srv, server.Tool{Name: "deploy"},
		func(ctx context.Context, _ *server.ToolCall, in Deploy) (protocol.CallToolOutcome, error) {
			switch answer := confirm.Answer(ctx); answer.Outcome {
			case roundtrip.Accepted:
				effects.Mark("deploy")
				return server.Text("deployed to " + in.Env + ": " + answer.Content.Reason), nil
			case roundtrip.Declined, roundtrip.Cancelled:
				return server.Text("left " + in.Env + " alone"), nil
			default:
				return roundtrip.InputRequired(confirm.Elicit("Deploy to " + in.Env + "?")), nil
			}
		})
	server.AddToolOut(srv, server.Tool{Name: "order"},
		func(ctx context.Context, _ *server.ToolCall, in Deploy) (Region, error) {
			region, err := roundtrip.Ask[Region](ctx, "region", "Which region?")
			if err != nil {
				return Region{}, err
			}
			if _, err := roundtrip.Ask[Confirmation](ctx, "sure", "In "+region.Name+
				"?"); err != nil {
				return Region{}, err
			}
			effects.Mark("order")
			return region, nil
		})
	server.AddRawTool(srv, server.Tool{Name: "repeats"},
		func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			effects.Mark("charge") // before the answer: again in every round
			if _, ok := confirm.AcceptedContent(ctx); !ok {
				return roundtrip.InputRequired(confirm.Elicit("Charge?")), nil
			}
			return server.Text("charged"), nil
		})
	server.AddPrompt(srv, server.Prompt{Name: "brief"},
		func(ctx context.Context, _ *server.PromptCall) (protocol.GetPromptOutcome, error) {
			sampled, err := roundtrip.AskMessage(ctx, "title",
				&protocol.CreateMessage{MaxTokens: 10, Messages: []protocol.SamplingMessage{{
					Role:    "user",
					Content: []protocol.Content{&protocol.TextContent{Text: "A title?"}},
				}}})
			if err != nil {
				return nil, err
			}
			return &protocol.GetPromptResult{Messages: []protocol.PromptMessage{{Role: "user",
				Content: sampled.Content[0]}}}, nil
		})
	server.AddResource(srv, server.Resource{URI: "vault://codes", Name: "codes"},
		func(ctx context.Context, call *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
			if _, ok := confirm.AcceptedContent(ctx); !ok {
				return roundtrip.InputRequired(confirm.Elicit("Open?")), nil
			}
			return &protocol.ReadResourceResult{Contents: []protocol.ResourceContents{
				{URI: "vault://codes", Text: "1234"}}}, nil
		})
	return srv
}

// overLines connects over lines, always to the same server.
func overLines(srv *server.Server) func(testing.TB, string) protocol.Peer {
	return roundtriptest.Lines(func(ctx context.Context, r io.ReadCloser, w io.WriteCloser) error {
		return srv.ServeStream(ctx, r, w, nil)
	})
}

// overHTTP connects over HTTP; a header names the user.
func overHTTP(t testing.TB, srv *server.Server) func(testing.TB, string) protocol.Peer {
	t.Helper()
	handler := servertest.NewHandler(t, srv,
		&serverhttp.Options{Authenticate: func(r *http.Request) (protocol.Principal, error) {
			return protocol.Principal{Issuer: "test", Subject: "user " + r.Header.Get("X-User")},
				nil
		}})
	web := httptest.NewServer(handler)
	t.Cleanup(func() {
		_ = handler.Shutdown(context.Background())
		web.Close()
	})
	return func(t testing.TB, user string) protocol.Peer {
		transport, err := clienthttp.New(web.URL,
			&clienthttp.Options{HTTPClient: web.Client(), Header: http.Header{"X-User": {user}}})
		noError(t, err)
		return transport
	}
}

func because(reason string) roundtriptest.Answer {
	return roundtriptest.Accept(Confirmation{reason})
}

func flows() []roundtriptest.Flow {
	deploy := roundtriptest.Tool("deploy", Deploy{"prod"})
	return []roundtriptest.Flow{
		{Name: "accept", Request: deploy,
			Answers: roundtriptest.Answers{"confirm": because("tested")},
			Want:    "deployed to prod: tested", Golden: "testdata/accept.golden"},
		{Name: "decline", Request: deploy,
			Answers: roundtriptest.Answers{"confirm": roundtriptest.Decline()},
			Want:    "left prod alone", Never: []string{"deploy"}},
		{Name: "cancel", Request: deploy,
			Answers: roundtriptest.Answers{"confirm": roundtriptest.Cancel()},
			Want:    "left prod alone"},
		{Name: "cannot be asked", Request: deploy, Capabilities: &protocol.ClientCapabilities{},
			Fails: "elicitation"},
		{
			Name: "two questions", Request: roundtriptest.Tool("order", Deploy{"prod"}),
			Want: `{"name":"eu"}`, Golden: "testdata/order.golden",
			Answers: roundtriptest.Answers{"region": roundtriptest.Accept(Region{"eu"}),
				"sure": because("cheap")},
		},
		{
			Name:    "refused in the second round",
			Request: roundtriptest.Tool("order", Deploy{"prod"}), Fails: "sure",
			Answers: roundtriptest.Answers{"region": roundtriptest.Accept(Region{"eu"}),
				"sure": roundtriptest.Decline()},
		},
		{Name: "prompt", Request: roundtriptest.Prompt("brief", nil),
			Answers: roundtriptest.Answers{"title": roundtriptest.Sampled("Rondo")}, Want: "Rondo"},
		{Name: "resource", Request: roundtriptest.Resource("vault://codes"),
			Answers: roundtriptest.Answers{"confirm": because("locked out")}, Want: "1234"},
		{Name: "corrected", Request: deploy,
			Answers: roundtriptest.Answers{"confirm": because("no").Then(because("tested"))},
			Want:    "deployed to prod: tested"},
		{Name: "never right", Request: roundtriptest.Tool("order", Deploy{"prod"}),
			Answers: roundtriptest.Answers{"region": roundtriptest.Accept(Region{"moon"}).Then(
				roundtriptest.Accept(Region{"sun"}).Then(roundtriptest.Accept(Region{"sea"})))},
			Fails: "region", Never: []string{"order"}},
	}
}

func TestRun(t *testing.T) {
	effects := &roundtriptest.Effects{}
	t.Run("lines", func(t *testing.T) {
		srv := newServer(t, effects, roundtrip.Options{})
		roundtriptest.Run(t, roundtriptest.Subject{Connect: overLines(srv), Effects: effects},
			flows()...)
	})
	t.Run("http", func(t *testing.T) {
		srv := newServer(t, effects, roundtrip.Options{MinHumanTime: -1})
		roundtriptest.Run(t, roundtriptest.Subject{Connect: overHTTP(t, srv), Effects: effects},
			flows()...)
	})
}

// TestAttack runs every attack, on each kind of target, with and without a guard.
func TestAttack(t *testing.T) {
	effects := &roundtriptest.Effects{}
	all := flows()
	for name, guard := range map[string]store.Guard{"guarded": store.NewMemoryGuard(0),
		"unguarded": nil} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t, effects, roundtrip.Options{Guard: guard})
			subject := roundtriptest.Subject{Connect: overHTTP(t, srv), Effects: effects,
				TwoUsers: true, SingleUse: guard != nil}
			for _, i := range []int{0, 4, 6, 7} {
				roundtriptest.Attack(t, subject, all[i])
			}
		})
	}
}

// TestExpired lets a day pass, without waiting for it.
func TestExpired(t *testing.T) {
	effects := &roundtriptest.Effects{}
	for _, flow := range []roundtriptest.Flow{flows()[0], flows()[4]} {
		synctest.Test(t, func(t *testing.T) {
			srv := newServer(t, effects, roundtrip.Options{})
			subject := roundtriptest.Subject{Connect: overLines(srv), Effects: effects,
				Later: time.Sleep}
			problems, why := roundtriptest.RunAttack(t, subject, flow, "expire")
			if why != "" || len(problems) > 0 {
				t.Errorf("%s: %v %s", flow.Name, problems, why)
			}
		})
	}
}

// TestExample runs the documented example.
func TestExample(t *testing.T) { testRelease(t) }
