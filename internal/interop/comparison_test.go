package interop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/replicas"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A library is for servers. Its functions return new handlers with the best options for a row.
type library struct {
	name string
	// modern and legacy serve the script's tools, which return their questions. among may be nil.
	modern, legacy func(t *testing.T, among *replicas.Options) http.Handler
	// inPlaceModern and inPlaceLegacy ask in place. Tool "open" ignores the outcome; "strict" does
	// not.
	inPlaceModern, inPlaceLegacy func(t *testing.T) http.Handler
	// serve serves the script's tools on a stream.
	serve func(ctx context.Context, t *testing.T, end line)
	// sse serves the transport of 2024-11-05. Nil: the library does not have it.
	sse func() http.Handler
}

func libraries() []library {
	stateless := &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}
	resumable := &mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)}
	official := func(newServer func() *mcp.Server, opts *mcp.StreamableHTTPOptions,
		t *testing.T) http.Handler {
		s := newServer()
		closeSessionsAfter(t, s)
		return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, opts)
	}
	script := func() *mcp.Server { return newGoSDKServer(false) }
	mcpGoOver := func(s *mcpgoserver.MCPServer) http.Handler {
		return mcpgoserver.NewStreamableHTTPServer(s,
			mcpgoserver.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler)))
	}
	mcpGoScript := func(*testing.T, *replicas.Options) http.Handler {
		return mcpGoOver(newMCPGoServer(false))
	}
	mcpGoInPlace := func(*testing.T) http.Handler { return mcpGoOver(newSurveyedMCPGo()) }
	return []library{
		{name: "rondo", modern: serveSubjectOverHTTP, legacy: serveSubjectOverHTTP,
			inPlaceModern: serveInPlace, inPlaceLegacy: serveInPlace,
			serve: func(ctx context.Context, t *testing.T, end line) {
				_ = newSubject(t).ServeStream(ctx, end.r, end.w, nil)
			}},
		{name: "official Go SDK",
			modern: func(t *testing.T, _ *replicas.Options) http.Handler {
				return official(script, stateless, t)
			},
			legacy: func(t *testing.T, _ *replicas.Options) http.Handler {
				return official(script, resumable, t)
			},
			inPlaceModern: func(t *testing.T) http.Handler {
				return official(newSurveyedGoSDK, stateless, t)
			},
			inPlaceLegacy: func(t *testing.T) http.Handler {
				return official(newSurveyedGoSDK, resumable, t)
			},
			serve: func(ctx context.Context, _ *testing.T, end line) {
				_ = script().Run(ctx, &mcp.IOTransport{Reader: end.r, Writer: end.w})
			},
			sse: func() http.Handler {
				return mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return script() }, nil)
			}},
		{name: "mcp-go", modern: mcpGoScript, legacy: mcpGoScript,
			inPlaceModern: mcpGoInPlace, inPlaceLegacy: mcpGoInPlace,
			serve: func(ctx context.Context, _ *testing.T, end line) { runMCPGo(ctx, end, false) },
			sse: func() http.Handler {
				return mcpgoserver.NewSSEServer(newMCPGoServer(false),
					mcpgoserver.WithSSEEndpoint("/mcp"),
					mcpgoserver.WithUseFullURLForMessageEndpoint(false))
			}},
	}
}

// serveSubjectOverHTTP serves the compared part of the script, with a guard and a shared key.
func serveSubjectOverHTTP(t *testing.T, among *replicas.Options) http.Handler {
	opts := roundtrip.Options{Guard: store.NewMemoryGuard(0), MinHumanTime: -1}
	if among != nil {
		opts.Sealer = among.Keys
	}
	srv, err := server.New(&server.Options{Info: servertest.Info(), Roundtrip: opts})
	noError(t, err)
	t.Cleanup(func() { _ = srv.Close() })
	server.AddRawTool(srv, server.Tool{Name: "wizard"}, wizard)
	server.AddTool(srv, server.Tool{Name: "deploy"}, func(ctx context.Context, _ *server.ToolCall,
		in servertest.DeployInput) (protocol.CallToolOutcome, error) {
		why, ok := confirm.AcceptedContent(ctx)
		if !ok {
			return roundtrip.InputRequired(confirm.Elicit("Deploy to " + in.Env + "?")), nil
		}
		markEffect()
		return server.Text("deployed to " + in.Env + ": " + why.Reason), nil
	})
	addResources(srv, guarded)
	return servertest.NewHandler(t, srv, &serverhttp.Options{Replicas: among})
}

func serveInPlace(t *testing.T) http.Handler {
	srv, err := server.New(&server.Options{Info: servertest.Info(),
		Roundtrip: roundtrip.Options{MinHumanTime: -1}})
	noError(t, err)
	t.Cleanup(func() { _ = srv.Close() })
	for name, needsAccept := range map[string]bool{"open": false, "strict": true} {
		server.AddRawTool(srv, server.Tool{Name: name}, func(ctx context.Context,
			_ *server.ToolCall) (protocol.CallToolOutcome, error) {
			_, err := roundtrip.Ask[confirmation](ctx, "confirm", "Delete it?")
			if needsAccept && err != nil {
				return nil, err
			}
			return server.Text("deleted"), nil
		})
	}
	return servertest.NewHandler(t, srv, nil)
}

// The variable compared has the table's rows. holds reports whether the row is true of a library.
var compared = []struct {
	row   string
	holds func(t *testing.T, l library) bool
}{
	{"2026-07-28: a tool asks several times, each question depends on the answer before",
		func(t *testing.T, l library) bool {
			endpoint, _ := listen(t, l.modern(t, nil))
			return asksAll(t, dialRondo, endpoint)
		}},
	{"2025-11-25: the same tool, unchanged", func(t *testing.T, l library) bool {
		endpoint, _ := listen(t, l.legacy(t, nil))
		return asksAll(t, dialRondoLegacy, endpoint)
	}},
	{"both: one HTTP handler serves tools that ask, to clients of either", oneHandlerAsksBoth},
	{"both: a tool gets the answer where it asks, in the middle of its code",
		func(t *testing.T, l library) bool {
			modern, _ := listen(t, l.inPlaceModern(t))
			legacy, _ := listen(t, l.inPlaceLegacy(t))
			return succeeds(t, dialRondo, modern, tool("strict", nil), "deleted") &&
				succeeds(t, dialRondoLegacy, legacy, tool("strict", nil), "deleted")
		}},
	{"both: a tool cannot complete while its question has no answer, even if it ignores the error",
		carelessToolStops},
	{"both: an answer that does not fit the form never reaches the tool", unfitAnswerStops},
	{"both: a resource can ask before it is read", func(t *testing.T, l library) bool {
		modern, _ := listen(t, l.modern(t, nil))
		legacy, _ := listen(t, l.legacy(t, nil))
		const opened = "opened: it is tested"
		return succeeds(t, dialRondo, modern, resource("vault://codes"), opened) &&
			succeeds(t, dialRondoLegacy, legacy, resource("vault://codes"), opened)
	}},
	{"2026-07-28: a changed `requestState` is refused", func(t *testing.T, l library) bool {
		return !forge(t, l, func(p *protocol.CallToolParams) {
			text, _ := p.RequestState.Text()
			p.RequestState = protocol.StateText(text + "x")
		})
	}},
	{"2026-07-28: approval for `staging` cannot be replayed against `prod`",
		func(t *testing.T, l library) bool {
			return !forge(t, l, func(p *protocol.CallToolParams) {
				p.Arguments = json.RawMessage(`{"env":"prod"}`)
			})
		}},
	{"2026-07-28: an answer that is sent twice takes effect once", answerActsOnce},
	{"2026-07-28: any replica can serve the next request of a call", anyReplicaGoesOn},
	{"2025-11-25: any replica can serve a session and its questions", anyReplicaServesSession},
	{"both: standard input and output", servesStreams},
	{"2024-11-05: the HTTP+SSE transport", servesSSE},
}

// TestComparison compares the table of README.md, which is in testdata, with the libraries.
func TestComparison(t *testing.T) {
	cells := make([][]bool, len(compared))
	for i, c := range compared {
		cells[i] = make([]bool, len(libraries()))
		for j, l := range libraries() {
			t.Run(c.row+"/"+l.name, func(t *testing.T) { cells[i][j] = c.holds(t, l) })
		}
	}
	table := newTable(t, "rondo")
	for i, c := range compared {
		table.add(c.row, cells[i])
	}
	table.check(t, "testdata/comparison.md")
}

type table struct{ strings.Builder }

func newTable(t *testing.T, ours ...string) *table {
	t.Helper()
	all := &table{}
	columns := append(ours,
		"official Go SDK "+required(t, "github.com/modelcontextprotocol/go-sdk"),
		"mcp-go "+required(t, "github.com/mark3labs/mcp-go"))
	fmt.Fprintf(all, "| | %s |\n%s|\n", strings.Join(columns, " | "),
		strings.Repeat("|---", len(columns)+1))
	return all
}

func (a *table) add(row string, cells []bool) {
	a.WriteString("| " + row)
	for _, yes := range cells {
		a.WriteString(map[bool]string{true: " | yes", false: " | no"}[yes])
	}
	a.WriteString(" |\n")
}

// check compares the table with a file. With -update it writes the file.
func (a *table) check(t *testing.T, file string) {
	t.Helper()
	if flag.Lookup("update").Value.String() == "true" {
		noError(t, os.WriteFile(file, []byte(a.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	noError(t, err)
	if string(want) != a.String() {
		t.Errorf("%s is another table now:\n%s", file, a)
	}
}

func required(t *testing.T, module string) string {
	t.Helper()
	text, err := os.ReadFile("go.mod")
	noError(t, err)
	_, rest, found := bytes.Cut(text, []byte(module+" v"))
	if !found {
		t.Fatalf("go.mod does not require %s", module)
	}
	version, _, _ := bytes.Cut(rest, []byte("\n"))
	return string(version)
}

// The constant briefly limits hangs, such as questions whose answer went to another replica.
const briefly = 10 * time.Second

func everyAnswer() answers {
	return answers{"Which region?": `{"name":"eu"}`, "How big in eu?": `{"cores":8}`,
		"Who is told?":        `{"email":"ada@example.com"}`,
		"Deploy to prod?":     `{"reason":"it is tested"}`,
		"Open vault://codes?": `{"reason":"it is tested"}`,
		"Delete it?":          `{"reason":"it is tested"}`,
	}
}

func succeeds(t *testing.T, dial dialer, endpoint string, r request, want string) bool {
	t.Helper()
	got, err := dial(t, endpoint, newPerson(t, everyAnswer()), false).do(within(t, patience), r)
	t.Logf("%q, %v", got, err)
	return err == nil && strings.HasPrefix(got, want)
}

func asksAll(t *testing.T, dial dialer, endpoint string) bool {
	t.Helper()
	return succeeds(t, dial, endpoint, tool("wizard", nil),
		"8 cores in eu for ada@example.com, saw eu")
}

var deployProd = tool("deploy", map[string]string{"env": "prod"})

func oneHandlerAsksBoth(t *testing.T, l library) bool {
	for _, serve := range []func(*testing.T, *replicas.Options) http.Handler{l.modern, l.legacy} {
		endpoint, said := listen(t, serve(t, nil))
		const deployed = "deployed to prod"
		if succeeds(t, dialRondo, endpoint, deployProd, deployed) &&
			legs(said(), protocol.MethodInitialize) == 0 &&
			succeeds(t, dialRondoLegacy, endpoint, deployProd, deployed) {
			return true
		}
	}
	return false
}

// carelessToolStops calls the tool with a client that cannot answer questions.
func carelessToolStops(t *testing.T, l library) bool {
	modern, _ := listen(t, l.inPlaceModern(t))
	legacy, _ := listen(t, l.inPlaceLegacy(t))
	for endpoint, dial := range map[string]dialer{modern: dialRondo, legacy: dialRondoLegacy} {
		got, err := dial(t, endpoint, newPerson(t, nil), true).do(within(t, patience),
			tool("open", nil))
		t.Logf("%q, %v", got, err)
		if err == nil && got == "deleted" {
			return false
		}
	}
	return true
}

// unfitAnswerStops sends a number instead of a string. In a session no client checks it.
func unfitAnswerStops(t *testing.T, l library) bool {
	if forge(t, l, func(p *protocol.CallToolParams) {
		p.InputResponses[0].Result = json.RawMessage(`{"action":"accept","content":{"reason":1}}`)
	}) {
		return false
	}
	endpoint, _ := listen(t, l.legacy(t, nil))
	const unfit = `{"reason":1}`
	who := newPerson(t, answers{"Deploy to prod?": unfit,
		"Reason must be a text. Deploy to prod?": unfit})
	got, err := dialMCPGo(t, endpoint, who).do(within(t, patience), deployProd)
	t.Logf("%q, %v", got, err)
	return err != nil || !strings.HasPrefix(got, "deployed")
}

// forge changes the request that approves a deployment to staging. True: something is deployed.
func forge(t *testing.T, l library, change func(*protocol.CallToolParams)) bool {
	t.Helper()
	endpoint, _ := listen(t, l.modern(t, nil))
	raw := over(t, endpoint)
	params := firstRound(t, raw)
	if text, err := sendRound(t, raw, params); err != nil || !strings.HasPrefix(text, "deployed") {
		t.Fatalf("an honest answer: %q, %v", text, err)
	}
	params = firstRound(t, raw)
	change(params)
	text, err := sendRound(t, raw, params)
	t.Logf("%q, %v", text, err)
	return err == nil && strings.HasPrefix(text, "deployed")
}

// firstRound calls the tool, and returns the request with the client's answer.
func firstRound(t *testing.T, raw protocol.Peer) *protocol.CallToolParams {
	t.Helper()
	params := &protocol.CallToolParams{Name: "deploy",
		Arguments: json.RawMessage(`{"env":"staging"}`),
		RequestMeta: protocol.RequestMeta{Version: protocol.V20260728,
			ClientInfo: &protocol.Implementation{Name: "comparison", Version: "1.0.0"},
			Capabilities: &protocol.ClientCapabilities{
				Elicitation: &protocol.ElicitationCapability{Form: true}}}}
	asked, ok := callRaw(t, raw, params).(*protocol.InputRequiredResult)
	if !ok || len(asked.InputRequests) != 1 {
		t.Fatal("the tool does not ask")
	}
	params.RequestState = asked.RequestState
	params.InputResponses = protocol.InputResponses{{Key: asked.InputRequests[0].Key,
		Result: json.RawMessage(`{"action":"accept","content":{"reason":"it is tested"}}`)}}
	return params
}

func sendRound(t *testing.T, raw protocol.Peer, params *protocol.CallToolParams) (string, error) {
	t.Helper()
	switch result := callRaw(t, raw, params).(type) {
	case *protocol.CallToolResult:
		if text := textOf(result.Content); !result.IsError {
			return text, nil
		} else {
			return "", fmt.Errorf("the tool failed: %s", text)
		}
	case *protocol.InputRequiredResult:
		return "", fmt.Errorf("asked again")
	default:
		return "", fmt.Errorf("refused")
	}
}

// callRaw sends a request unchanged. If the server refuses it, the result is nil.
func callRaw(t *testing.T, raw protocol.Peer, params *protocol.CallToolParams) protocol.Result {
	t.Helper()
	encoded, err := protocol.EncodeParams(params)
	noError(t, err)
	resp, err := raw.Handle(within(t, patience), &protocol.Request{ID: protocol.IntID(1),
		Method: protocol.MethodCallTool, Params: encoded,
		Mirror: protocol.Mirror{Version: protocol.V20260728, Name: params.Name}}, nil)
	if err != nil || resp.Error != nil {
		t.Logf("refused: %v, %+v", err, resp)
		return nil
	}
	result, err := protocol.DecodeResult(protocol.V20260728, protocol.MethodCallTool, resp.Result)
	noError(t, err)
	return result
}

// answerActsOnce counts the tool's effects when the answer arrives twice.
func answerActsOnce(t *testing.T, l library) bool {
	file := filepath.Join(t.TempDir(), "effects")
	t.Setenv(effectsFile, file)
	endpoint, _ := listen(t, l.modern(t, nil))
	raw := over(t, endpoint)
	params := firstRound(t, raw)
	for range 2 {
		text, err := sendRound(t, raw, params)
		t.Logf("%q, %v", text, err)
	}
	effects, err := os.ReadFile(file)
	noError(t, err)
	return bytes.Count(effects, []byte("\n")) == 1
}

func anyReplicaGoesOn(t *testing.T, l library) bool {
	fleet := servertest.StartFleet(t, 2, func(o *replicas.Options) http.Handler {
		return l.modern(t, o)
	})
	params := firstRound(t, over(t, fleet.Servers[0].URL+"/mcp"))
	text, err := sendRound(t, over(t, fleet.Servers[1].URL+"/mcp"), params)
	t.Logf("%q, %v", text, err)
	return err == nil
}

// anyReplicaServesSession sends a session's requests to the replicas in turn.
func anyReplicaServesSession(t *testing.T, l library) bool {
	fleet := servertest.StartFleet(t, 2, func(o *replicas.Options) http.Handler {
		return l.legacy(t, o)
	})
	endpoint, said := listen(t, fleet.Balancer())
	c := dialRondoLegacy(t, endpoint, newPerson(t, everyAnswer()), false)
	for range 3 {
		got, err := c.do(within(t, briefly), deployProd)
		t.Logf("%q, %v", got, err)
		if err != nil || !strings.HasPrefix(got, "deployed") {
			return false
		}
	}
	return legs(said(), protocol.MethodInitialize) == 1
}

func servesStreams(t *testing.T, l library) bool {
	for _, connect := range []func(*testing.T, protocol.Peer, *person, bool) peer{connectRondo,
		connectRondoLegacy} {
		ours, theirs, _ := stream(t)
		serve(t, theirs, func(ctx context.Context) { l.serve(ctx, t, theirs) })
		got, err := connect(t, overLines(ours.r, ours.w), newPerson(t, everyAnswer()), false).do(
			within(t, patience), deployProd)
		t.Logf("%q, %v", got, err)
		if err != nil || !strings.HasPrefix(got, "deployed") {
			return false
		}
	}
	return true
}

func servesSSE(t *testing.T, l library) bool {
	h := l.legacy(t, nil)
	if l.sse != nil {
		h = l.sse()
	}
	endpoint, _ := listen(t, h)
	c := mcp.NewClient(&mcp.Implementation{Name: "comparison", Version: "1.0.0"}, nil)
	session, err := c.Connect(within(t, patience),
		&mcp.SSEClientTransport{Endpoint: endpoint, HTTPClient: newHTTPClient(t)}, nil)
	if err != nil {
		t.Log(err)
		return false
	}
	defer session.Close()
	got, err := goSDK{session}.do(within(t, patience), tool("plain", nil))
	t.Logf("%q, %v", got, err)
	return err == nil && got == "plain"
}

func dialMCPGo(t *testing.T, endpoint string, who *person) peer {
	t.Helper()
	streamable, err := transport.NewStreamableHTTP(endpoint,
		transport.WithHTTPLogger(slog.New(slog.DiscardHandler)),
		transport.WithHTTPBasicClient(newHTTPClient(t)))
	noError(t, err)
	return connectMCPGo(t, who, false, v20251125, streamable)
}
