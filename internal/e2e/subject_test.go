package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

// The forms that the subject asks to be filled in.
type (
	confirmation = servertest.Confirmation
	region       = servertest.Region
	size         struct {
		Cores int  `json:"cores" minimum:"1" maximum:"64" default:"2"`
		Spare bool `json:"spare" default:"false"`
	}
	contact = servertest.Contact
)

type database struct {
	Region string `json:"region"`
	Cores  int    `json:"cores"`
}

// newSubject returns a server with one handler of every style.
func newSubject(opts *server.Options) (*server.Server, error) {
	var o server.Options
	if opts != nil {
		o = *opts
	}
	o.Info = servertest.Info()
	if o.Roundtrip.MinHumanTime == 0 { // who answers here is a test, at once
		o.Roundtrip.MinHumanTime = -1
	}
	srv, err := server.New(&o)
	if err != nil {
		return nil, err
	}
	addTools(srv)
	addResources(srv)
	return srv, nil
}

func addTools(srv *server.Server) {
	servertest.Register(srv)
	server.AddRawTool(srv, server.Tool{Name: "wizard", Description: "Asks three times."}, wizard)
	server.AddToolOut(srv, server.Tool{Name: "provision",
		Description: "Asks and answers with a value."}, provision)
	server.AddRawTool(srv, server.Tool{Name: "summarize", Description: "Asks the client's model."},
		summarize)
	server.AddRawTool(srv, server.Tool{Name: "tidy", Description: "Asks for directories."}, tidy)
	server.AddRawTool(srv, server.Tool{Name: "survey", Description: "Asks everything at once."},
		survey)
	server.AddRawTool(srv, server.Tool{Name: "cold",
		Description: "Takes answers to what it did not ask.", AcceptUnsolicited: true},
		func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			answer := roundtrip.Answer[confirmation](ctx, "confirm")
			return server.Text(fmt.Sprintf("%s, unsolicited: %t", answer.Outcome,
				answer.Unsolicited)), nil
		})
}

// wizard asks questions each of which depends on the answer before.
func wizard(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
	where, ok := roundtrip.AcceptedContent[region](ctx, "region")
	if !ok {
		return roundtrip.InputRequired(roundtrip.Elicit[region]("region", "Which region?")), nil
	}
	how, ok := roundtrip.AcceptedContent[size](ctx, "size")
	if !ok {
		return roundtrip.InputRequired(roundtrip.Elicit[size]("size", "How big in "+where.Name+"?"),
			roundtrip.WithState(map[string]string{"seen": where.Name})), nil
	}
	who, ok := roundtrip.AcceptedContent[contact](ctx, "contact")
	if !ok {
		return roundtrip.InputRequired(roundtrip.Elicit[contact]("contact", "Who is told?")), nil
	}
	seen, _ := roundtrip.State[map[string]string](ctx)
	return server.Text(fmt.Sprintf("%d cores in %s for %s, round %d, saw %s",
		how.Cores, where.Name, who.Email, roundtrip.RoundOf(ctx).Number, seen["seen"])), nil
}

// provision has a typed result, so questions travel in an error.
func provision(ctx context.Context, _ *server.ToolCall, _ struct{}) (database, error) {
	where, ok := roundtrip.AcceptedContent[region](ctx, "region")
	if !ok {
		asks := roundtrip.InputRequired(roundtrip.Elicit[region]("region", "Which region?"))
		return database{}, &server.InputRequiredError{Result: asks}
	}
	return database{Region: where.Name, Cores: 2}, nil
}

func summarize(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
	if said, ok := roundtrip.Sampled(ctx, "summary"); ok {
		return server.Text("model " + said.Model + " says: " + textOf(said.Content)), nil
	}
	return roundtrip.InputRequired(roundtrip.CreateMessage("summary", servertest.Sampling())), nil
}

func tidy(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
	if roots, ok := roundtrip.Roots(ctx, "dirs"); ok {
		return server.Text(fmt.Sprintf("%d directories", len(roots))), nil
	}
	return roundtrip.InputRequired(roundtrip.ListRoots("dirs")), nil
}

func survey(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
	confirmed := roundtrip.Answer[confirmation](ctx, "confirm")
	said, sampled := roundtrip.Sampled(ctx, "summary")
	roots, listed := roundtrip.Roots(ctx, "dirs")
	visited := roundtrip.Visited(ctx, "login")
	if confirmed.Outcome != roundtrip.Missing && sampled && listed && visited != roundtrip.Missing {
		return server.Text(fmt.Sprintf("%s %s, %s, %d directories, visit %s",
			confirmed.Outcome, confirmed.Content.Reason, textOf(said.Content), len(roots),
			visited)), nil
	}
	return roundtrip.InputRequired(
		roundtrip.Elicit[confirmation]("confirm", "Sure?"),
		roundtrip.CreateMessage("summary", servertest.Sampling()),
		roundtrip.ListRoots("dirs"),
		servertest.SignIn(),
	), nil
}

func addResources(srv *server.Server) {
	server.AddResource(srv, server.Resource{URI: "vault://codes", Name: "codes"}, openVault)
	server.AddResourceTemplate(srv,
		server.ResourceTemplate{URITemplate: "vault://box/{box}", Name: "box"}, openVault)
}

func openVault(ctx context.Context,
	call *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
	why, ok := roundtrip.AcceptedContent[confirmation](ctx, "confirm")
	if !ok {
		return roundtrip.InputRequired(roundtrip.Elicit[confirmation]("confirm", "Open "+call.URI+
			"?")), nil
	}
	return &protocol.ReadResourceResult{Contents: []protocol.ResourceContents{{Text: "opened: " +
		why.Reason}}}, nil
}

func textOf(blocks []protocol.Content) string {
	var b strings.Builder
	for _, block := range blocks {
		if text, ok := block.(*protocol.TextContent); ok {
			b.WriteString(text.Text)
		}
	}
	return b.String()
}

// watch is an observer that remembers.
type watch struct {
	mu     sync.Mutex
	events []event.Event
}

func (w *watch) Observe(_ context.Context, e event.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// seen returns the events of one type.
func seen[E event.Event](w *watch) []E {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []E
	for _, e := range w.events {
		if e, ok := e.(E); ok {
			found = append(found, e)
		}
	}
	return found
}

// mustServe returns the subject, watched and closed at the end of the test.
func mustServe(t testing.TB, opts *server.Options) (*server.Server, *watch) {
	t.Helper()
	w := &watch{}
	var o server.Options
	if opts != nil {
		o = *opts
	}
	o.Observer = event.Observers(o.Observer, w)
	srv, err := newSubject(&o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	return srv, w
}

func raw(text string) json.RawMessage { return json.RawMessage(text) }
