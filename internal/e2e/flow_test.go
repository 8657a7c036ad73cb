package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
)

// newFlows returns a server whose handlers are straight-line code.
func newFlows(t *testing.T, opts *server.Options) *server.Server {
	t.Helper()
	var o server.Options
	if opts != nil {
		o = *opts
	}
	o.Info = protocol.Implementation{Name: "flows", Version: "1.0.0"}
	if o.Roundtrip.MinHumanTime == 0 { // who answers here is a test, at once
		o.Roundtrip.MinHumanTime = -1
	}
	srv, err := server.New(&o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	server.AddToolOut(srv, server.Tool{Name: "provision"}, provisionFlow)
	server.AddRawTool(srv, server.Tool{Name: "survey"}, surveyFlow)
	server.AddRawTool(srv, server.Tool{Name: "careless"}, carelessFlow)
	server.AddRawTool(srv, server.Tool{Name: "mixed"}, mixedFlow)
	server.AddPrompt(srv, server.Prompt{Name: "brief",
		Arguments: []protocol.PromptArgument{{Name: "topic", Required: true}}}, briefFlow)
	server.AddResource(srv, server.Resource{URI: "vault://codes", Name: "codes"}, vaultFlow)
	return srv
}

func provisionFlow(ctx context.Context, _ *server.ToolCall, _ struct{}) (database, error) {
	where, err := roundtrip.Ask[region](ctx, "region", "Which region?")
	if err != nil {
		return database{}, err
	}
	base, err := roundtrip.Memo(ctx, "base", func(context.Context) (int, error) { return 100, nil })
	if err != nil {
		return database{}, err
	}
	how, err := roundtrip.Ask[size](ctx, "size", "How big in "+where.Name+"?")
	if err != nil {
		return database{}, err
	}
	return database{Region: where.Name, Cores: base + how.Cores}, nil
}

func surveyFlow(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
	why, confirmed := roundtrip.AcceptedContent[confirmation](ctx, "confirm")
	if !confirmed || roundtrip.Visited(ctx, "login") != roundtrip.Accepted {
		return roundtrip.InputRequired(roundtrip.Elicit[confirmation]("confirm", "Sure?"),
			roundtrip.ElicitURL("login", "Sign in", "https://example.com/in")), nil
	}
	said, err := roundtrip.AskMessage(ctx, "summary", servertest.Sampling())
	if err != nil {
		return nil, err
	}
	roots, err := roundtrip.AskRoots(ctx, "dirs")
	if err != nil {
		return nil, err
	}
	return server.Text(fmt.Sprintf("%s, %s, %d directories", why.Reason, textOf(said.Content),
		len(roots))), nil
}

// carelessFlow looks at no error and passes off anything as done.
func carelessFlow(ctx context.Context,
	_ *server.ToolCall) (result protocol.CallToolOutcome, err error) {
	defer func() {
		_ = recover()
		if result == nil {
			result = server.Text("proceeding anyway")
		}
	}()
	why, err := roundtrip.Ask[confirmation](ctx, "confirm", "Sure?")
	if err != nil {
		panic(fmt.Sprintf("wrapped: %v", err))
	}
	return server.Text("sure: " + why.Reason), nil
}

// mixedFlow asks in both styles.
func mixedFlow(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
	where, ok := roundtrip.AcceptedContent[region](ctx, "region")
	if !ok {
		return roundtrip.InputRequired(roundtrip.Elicit[region]("region", "Which region?")), nil
	}
	how, err := roundtrip.Ask[size](ctx, "size", "How big in "+where.Name+"?")
	if err != nil {
		return nil, err
	}
	return server.Text(fmt.Sprintf("%d cores in %s", how.Cores, where.Name)), nil
}

func briefFlow(ctx context.Context, call *server.PromptCall) (protocol.GetPromptOutcome, error) {
	who, err := roundtrip.Ask[contact](ctx, "contact", "Who reads it?")
	if err != nil {
		return nil, err
	}
	return &protocol.GetPromptResult{Messages: []protocol.PromptMessage{
		server.UserText("Write about " + call.Arguments["topic"] + " for " + who.Email)}}, nil
}

func vaultFlow(ctx context.Context,
	call *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
	why, err := roundtrip.Ask[confirmation](ctx, "confirm", "Open "+call.URI+"?")
	if err != nil {
		return nil, err
	}
	return &protocol.ReadResourceResult{Contents: []protocol.ResourceContents{{Text: "opened: " +
		why.Reason}}}, nil
}

// straightFlows are what the handlers above are asked to do.
func straightFlows() []flow {
	because := person{"confirm": `{"reason":"it is tested"}`}
	return []flow{
		{"typed result", person{"region": `{"name":"eu"}`, "size": `{"cores":8}`},
			tool("provision", `{}`), 3, `{"region":"eu","cores":108}`},
		{"all kinds", person{"confirm": `{"reason":"it is tested"}`, "login": "{}"}, tool("survey", ``), 4, "it is tested, It is short., 2 directories"},
		{"careless", because, tool("careless", ``), 2, "sure: it is tested"},
		{"mixed", person{"region": `{"name":"eu"}`, "size": `{}`}, tool("mixed", ``), 3,
			"2 cores in eu"},
		{"prompt", person{"contact": `{"email":"bob@example.com"}`},
			prompt("brief", map[string]string{"topic": "rondos"}), 2,
			"user: Write about rondos for bob@example.com"},
		{"resource", because, resource("vault://codes"), 2, "vault://codes opened: it is tested"},
		{"declined", person{"region": "decline"}, tool("provision", `{}`), 2, "error: declined: region; the person does not want this: do not call again unless they ask for it"},
		{"cancelled", person{"region": `{"name":"eu"}`, "size": "cancel"}, tool("provision", `{}`), 3, "error: cancelled: size; the person has not decided: call again only if they want to"},
	}
}

// TestStraightLineCode takes every handler through both eras, over HTTP answered as JSON and as
// events and over a line stream, with and without replay where the era does not need it. What comes
// of it is the same.
func TestStraightLineCode(t *testing.T) {
	ways := []struct {
		name string
		open func(t *testing.T, srv *server.Server, opts client.Options) (*client.Client,
			func() []wiretest.Message)
		events bool
		opts   roundtrip.Options
	}{
		{"json", eraOverHTTP, false, roundtrip.Options{}},
		{"events", eraOverHTTP, true, roundtrip.Options{}},
		{"lines", eraOverLines, false, roundtrip.Options{}},
		{"stored states", eraOverHTTP, false,
			roundtrip.Options{StateStore: store.NewMemoryStateStore(0),
				Limits: roundtrip.Limits{StateBytes: 300}}},
	}
	for _, f := range straightFlows() {
		for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
			for _, way := range ways {
				t.Run(f.name+"/"+era.String()+"/"+way.name, func(t *testing.T) {
					opts := &server.Options{Roundtrip: way.opts}
					if way.events {
						opts.Middleware = []server.Middleware{reportProgress}
					}
					c, said := way.open(t, newFlows(t, opts),
						straightClient(t, era, f.person, way.events))
					got, err := f.call(within(t, patience), c)
					if err != nil || got != f.want {
						t.Fatalf("got %q, %v, want %q", got, err, f.want)
					}
					messages := said()
					spoken := string(protocol.V20251125)
					if era == protocol.Modern {
						spoken = revision
						if legs := checkFlow(t, messages); legs != f.legs {
							t.Errorf("took %d legs, want %d", legs, f.legs)
						}
					}
					wiretest.Conform(t, spoken, messages)
					checkEra(t, era, messages)
				})
			}
		}
	}
}

func straightClient(t *testing.T, era protocol.Era, p person, progress bool) client.Options {
	opts := *p.options()
	opts.Era = era
	opts.ElicitForm = func(_ context.Context, q *client.FormQuestion) (*protocol.ElicitResult,
		error) {
		return p.answer(keyOf(t, q.Message))
	}
	opts.ElicitURL = func(_ context.Context, q *client.URLQuestion) (*protocol.ElicitResult,
		error) {
		return p.answer(keyOf(t, q.Message))
	}
	if progress {
		opts.Progress = func(context.Context, *protocol.Progress) {}
	}
	return opts
}

// TestStraightLineCodeUnasked: a client that cannot be asked gets a refusal that names what it
// lacks, from a handler too that takes no notice.
func TestStraightLineCodeUnasked(t *testing.T) {
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		t.Run(era.String(), func(t *testing.T) {
			c, _ := eraOverHTTP(t, newFlows(t, nil), client.Options{Era: era})
			got, err := tool("careless", ``)(within(t, patience), c)
			if era == protocol.Modern {
				if e, ok := protocol.AsError(err); !ok ||
					e.Code != protocol.CodeMissingRequiredClientCapability {
					t.Errorf("got %q, %v", got, err)
				}
			} else if err != nil || !strings.HasPrefix(got,
				"error: the client does not support: elicitation") {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// TestNilQuestionOptionsAreIgnored asks with options of which some are nil, as code does that
// chooses them by a condition.
func TestNilQuestionOptionsAreIgnored(t *testing.T) {
	srv, _ := mustServe(t, nil)
	server.AddRawTool(srv, server.Tool{Name: "ask"},
		func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			said, err := roundtrip.Ask[confirmation](ctx, "confirm", "Sure?", nil,
				roundtrip.Reworded(),
				nil)
			return server.Text(said.Reason), err
		})
	c, _ := dial(t, listen(t, servertest.NewHandler(t, srv, nil)),
		person{"confirm": `{"reason":"because"}`}.options())
	if got, err := tool("ask", `{}`)(within(t, patience), c); err != nil || got != "because" {
		t.Errorf("got %q, %v, want %q", got, err, "because")
	}
}
