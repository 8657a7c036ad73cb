package interop_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

type (
	confirmation = servertest.Confirmation
	region       = servertest.Region
	size         struct {
		Cores int   `json:"cores,omitempty" minimum:"1" maximum:"64" default:"2"`
		Spare *bool `json:"spare"`
	}
	contact = servertest.Contact
)

var (
	confirm = roundtrip.MustQuestion[confirmation]("confirm")
	where   = roundtrip.MustQuestion[region]("region")
	howBig  = roundtrip.MustQuestion[size]("size")
	whom    = roundtrip.MustQuestion[contact]("contact")
)

type database struct {
	Region string `json:"region"`
}

// newSubject returns our server, which has a handler for every way of asking.
func newSubject(t testing.TB) *server.Server {
	t.Helper()
	return newSubjectWith(t, guarded, server.Options{})
}

func newSubjectWith(t testing.TB, s style, opts server.Options) *server.Server {
	t.Helper()
	srv, err := newServer(s, opts)
	noError(t, err)
	t.Cleanup(func() { _ = srv.Close() })
	return srv
}

func newServer(s style, opts server.Options) (*server.Server, error) {
	opts.Info = servertest.Info()
	opts.Middleware = append(opts.Middleware, markEffects)
	opts.Roundtrip.MinHumanTime = -1 // a test answers at once
	srv, err := server.New(&opts)
	if err != nil {
		return nil, err
	}
	addTools(srv, s)
	addResources(srv, s)
	return srv, nil
}

// markEffects counts the effects of tools. In a session these are their starts.
func markEffects(next server.Handler) server.Handler {
	return func(ctx context.Context, req *server.Request) (protocol.Result, error) {
		inSession := req.Version.Era() == protocol.Legacy
		called := req.Message.Method == protocol.MethodCallTool
		if called && inSession {
			markEffect()
		}
		result, err := next(ctx, req)
		if _, done := result.(*protocol.CallToolResult); called && done && !inSession {
			markEffect()
		}
		return result, err
	}
}

func serveSubject(t *testing.T) (line, said) {
	t.Helper()
	return serveOnStream(t, newSubject(t))
}

func serveOnStream(t *testing.T, srv *server.Server) (line, said) {
	t.Helper()
	client, end, said := stream(t)
	serve(t, end, func(ctx context.Context) { _ = srv.ServeStream(ctx, end.r, end.w, nil) })
	return client, said
}

// A style has the handlers that can be written in two ways.
type style struct {
	wizard, summarize, tidy func(context.Context,
		*server.ToolCall) (protocol.CallToolOutcome, error)
	provision func(context.Context, *server.ToolCall, struct{}) (database, error)
	openVault func(context.Context, *server.ResourceCall) (protocol.ReadResourceOutcome, error)
}

var (
	guarded  = style{wizard, summarize, tidy, provision, openVault}
	straight = style{straightWizard, straightSummarize, straightTidy, straightProvision,
		straightVault}
)

func addTools(srv *server.Server, s style) {
	servertest.Register(srv)
	server.AddRawTool(srv, server.Tool{Name: "slow", Description: "Reports progress and asks."},
		slow)
	server.AddRawTool(srv, server.Tool{Name: "wizard", Description: "Asks three times."}, s.wizard)
	server.AddToolOut(srv, server.Tool{Name: "provision",
		Description: "Asks and answers with a value."}, s.provision)
	server.AddRawTool(srv, server.Tool{Name: "summarize", Description: "Asks the client's model."},
		s.summarize)
	server.AddRawTool(srv, server.Tool{Name: "tidy", Description: "Asks for directories."}, s.tidy)
	server.AddRawTool(srv, server.Tool{Name: "survey", Description: "Asks everything at once."},
		survey)
}

// The tool slow makes every response an event stream if the client wants progress.
func slow(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
	if err := call.Progress(ctx, 1, 2, "working"); err != nil {
		return nil, err
	}
	if _, ok := confirm.AcceptedContent(ctx); !ok {
		return roundtrip.InputRequired(confirm.Elicit("Go on?")), nil
	}
	return server.Text("went on"), nil
}

// wizard asks questions that each depend on the previous answer.
func wizard(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
	region, ok := where.AcceptedContent(ctx)
	if !ok {
		return roundtrip.InputRequired(where.Elicit("Which region?")), nil
	}
	size, ok := howBig.AcceptedContent(ctx)
	if !ok {
		return roundtrip.InputRequired(howBig.Elicit("How big in "+region.Name+"?"),
			roundtrip.WithState("saw "+region.Name)), nil
	}
	who, ok := whom.AcceptedContent(ctx)
	if !ok {
		return roundtrip.InputRequired(whom.Elicit("Who is told?")), nil
	}
	saw, _ := roundtrip.State[string](ctx)
	return server.Text(fmt.Sprintf("%d cores in %s for %s, %s", size.Cores, region.Name, who.Email,
		saw)), nil
}

// provision has a typed result, so its question travels in an error.
func provision(ctx context.Context, _ *server.ToolCall, _ struct{}) (database, error) {
	region, ok := where.AcceptedContent(ctx)
	if !ok {
		return database{}, &server.InputRequiredError{
			Result: roundtrip.InputRequired(where.Elicit("Which region?"))}
	}
	return database{Region: region.Name}, nil
}

func summarize(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
	if said, ok := roundtrip.Sampled(ctx, "summary"); ok {
		return server.Text(said.Model + " says: " + textOf(said.Content)), nil
	}
	return roundtrip.InputRequired(roundtrip.CreateMessage("summary", servertest.Sampling())), nil
}

func tidy(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
	if roots, ok := roundtrip.Roots(ctx, "dirs"); ok {
		return server.Text("tidied " + uris(roots)), nil
	}
	return roundtrip.InputRequired(roundtrip.ListRoots("dirs")), nil
}

func uris(roots []protocol.Root) string {
	var list []string
	for _, root := range roots {
		list = append(list, root.URI)
	}
	return strings.Join(list, " ")
}

func survey(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
	confirmed := confirm.Answer(ctx)
	said, sampled := roundtrip.Sampled(ctx, "summary")
	roots, listed := roundtrip.Roots(ctx, "dirs")
	visited := roundtrip.Visited(ctx, "login")
	if confirmed.Outcome != roundtrip.Missing && sampled && listed && visited != roundtrip.Missing {
		return server.Text(fmt.Sprintf("%s %s, %s, %s, visit %s",
			confirmed.Outcome, confirmed.Content.Reason, textOf(said.Content), uris(roots),
			visited)), nil
	}
	return roundtrip.InputRequired(
		confirm.Elicit("Sure?"),
		roundtrip.CreateMessage("summary", servertest.Sampling()),
		roundtrip.ListRoots("dirs"),
		servertest.SignIn(),
	), nil
}

func addResources(srv *server.Server, s style) {
	server.AddResource(srv, server.Resource{URI: "vault://codes", Name: "codes"}, s.openVault)
	server.AddResourceTemplate(srv,
		server.ResourceTemplate{URITemplate: "vault://box/{box}", Name: "box"}, s.openVault)
}

// openVault has a cacheable result. Clients must not reuse it, because it depends on an answer.
func openVault(ctx context.Context,
	call *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
	why, ok := confirm.AcceptedContent(ctx)
	if !ok {
		return roundtrip.InputRequired(confirm.Elicit("Open " + call.URI + "?")), nil
	}
	return &protocol.ReadResourceResult{
		Contents: []protocol.ResourceContents{{Text: "opened: " + why.Reason}},
		Cache:    protocol.CacheHints{TTLMillis: 60_000},
	}, nil
}

func textOf(blocks []protocol.Content) string {
	var list []string
	for _, block := range blocks {
		if text, ok := block.(*protocol.TextContent); ok {
			list = append(list, text.Text)
		}
	}
	return strings.Join(list, " ")
}
