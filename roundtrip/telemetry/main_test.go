package telemetry_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/telemetry"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/replicas"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

var noError = testkit.NoError

func TestMain(m *testing.M) { testkit.Main(m) }

// A book keeps the spans of all processes of a test.
type book struct {
	testing.TB
	exporter *tracetest.InMemoryExporter
	sampler  sdk.Sampler // of servers; nil: every trace
}

func newBook(t testing.TB) *book {
	return &book{TB: t, exporter: tracetest.NewInMemoryExporter()}
}

func (b *book) provider(process string, sampler sdk.Sampler) *sdk.TracerProvider {
	options := []sdk.TracerProviderOption{sdk.WithSyncer(named{b.exporter, process})}
	if sampler != nil {
		options = append(options, sdk.WithSampler(sampler))
	}
	return sdk.NewTracerProvider(options...)
}

// The type named exports spans with their process's name.
type named struct {
	*tracetest.InMemoryExporter
	process string
}

func (n named) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	for _, span := range spans {
		stub := tracetest.SpanStubFromReadOnlySpan(span)
		stub.InstrumentationScope.Version = n.process
		err := n.InMemoryExporter.ExportSpans(ctx, []sdk.ReadOnlySpan{stub.Snapshot()})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *book) tel(process string, opts telemetry.Options) *telemetry.Telemetry {
	b.Helper()
	opts.TracerProvider = b.provider(process, b.sampler)
	t, err := telemetry.New(&opts)
	noError(b, err)
	return t
}

func everybody(*server.Request) bool { return true }

// tree returns the spans of traces for which pick is true, each below its parent, with their links.
func (b *book) tree(pick func(tracetest.SpanStub) bool) string {
	spans := b.exporter.GetSpans()
	names, chosen := map[trace.SpanID]string{}, map[trace.TraceID]bool{}
	for _, s := range spans {
		names[s.SpanContext.SpanID()] = describe(s)
		if pick(s) {
			chosen[s.SpanContext.TraceID()] = true
		}
	}
	slices.SortStableFunc(spans, func(x, y tracetest.SpanStub) int {
		return x.StartTime.Compare(y.StartTime)
	})
	var out strings.Builder
	var write func(parent trace.SpanID, indent string)
	write = func(parent trace.SpanID, indent string) {
		for _, s := range spans {
			_, known := names[s.Parent.SpanID()]
			root := parent == trace.SpanID{} && !known
			if !chosen[s.SpanContext.TraceID()] || !root && s.Parent.SpanID() != parent {
				continue
			}
			fmt.Fprintf(&out, "%s%s", indent, describe(s))
			for _, link := range s.Links {
				name := names[link.SpanContext.SpanID()]
				if name == "" {
					name = "?"
				}
				fmt.Fprintf(&out, " -> %s", name)
			}
			out.WriteByte('\n')
			write(s.SpanContext.SpanID(), indent+"  ")
		}
	}
	write(trace.SpanID{}, "")
	return out.String()
}

func describe(s tracetest.SpanStub) string {
	text := s.InstrumentationScope.Version + " " + s.SpanKind.String() + " " + s.Name
	for _, a := range s.Attributes {
		if a.Key == "rondo.round" {
			text += " round " + a.Value.String()
		}
	}
	if failed := attributeOf(s, "error.type"); failed != "" {
		text += " failed " + failed
	}
	return text
}

func attributeOf(s tracetest.SpanStub, key attribute.Key) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}

// The function rooted picks traces that begin with the caller's span.
func rooted(s tracetest.SpanStub) bool { return s.Name == "caller" }

func (b *book) find(name string) (found []tracetest.SpanStub) {
	for _, s := range b.exporter.GetSpans() {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

// secretAnswer must not be in any span.
const secretAnswer = "the answer of the person"

type target struct {
	Where string `json:"where"`
}

func deploy(ctx context.Context, _ *server.ToolCall, _ target) (protocol.CallToolOutcome, error) {
	for _, key := range []string{"one", "two"} {
		if _, err := roundtrip.Ask[target](ctx, key, "secret question "+key+"?"); err != nil {
			return nil, err
		}
	}
	return server.Text("done"), nil
}

// serve returns a server with the tool deploy, as a replica of others with the same keys.
func (b *book) serve(tel *telemetry.Telemetry) *server.Server {
	b.Helper()
	srv, err := server.New(&server.Options{
		Info:       protocol.Implementation{Name: "ops", Version: "1"},
		Observer:   tel,
		Middleware: []server.Middleware{tel.Wrap},
		Roundtrip: roundtrip.Options{Sealer: servertest.NewKeyring("states"), Tracer: tel,
			MinHumanTime: -1},
	})
	noError(b, err)
	server.AddTool(srv, server.Tool{Name: "deploy"}, deploy)
	return srv
}

func (b *book) fleet(build func(name string, o *replicas.Options) http.Handler) string {
	f := servertest.StartFleet(b, 2, func(o *replicas.Options) http.Handler {
		return build(o.Name, o)
	})
	balancer := httptest.NewServer(f.Balancer())
	b.Cleanup(func() {
		balancer.CloseClientConnections()
		balancer.Close()
	})
	return balancer.URL
}

func (b *book) servers(name string, opts telemetry.Options) string {
	return b.fleet(func(replica string, o *replicas.Options) http.Handler {
		h, err := serverhttp.New(b.serve(b.tel(name+"-"+replica, opts)),
			&serverhttp.Options{Replicas: o})
		noError(b, err)
		return h
	})
}

func (b *book) overHTTP(url string) protocol.Peer {
	peer, err := clienthttp.New(url, nil)
	noError(b, err)
	return peer
}

func (b *book) overStream(srv *server.Server) protocol.Peer {
	r, w := servertest.ServeLines(b, func(ctx context.Context, in io.Reader, out io.Writer) {
		_ = srv.ServeStream(ctx, in.(io.ReadCloser), out.(io.WriteCloser), nil)
	})
	return client.NewStream(r, w, nil)
}

// dial returns a client whose person answers everything.
func (b *book) dial(tel *telemetry.Telemetry, peer protocol.Peer, era protocol.Era) *client.Client {
	b.Helper()
	c, err := client.New(tel.Peer(peer), tel.Questions(&client.Options{Era: era,
		ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			time.Sleep(20 * time.Millisecond) // people are slower than a flow
			return client.Accept(target{secretAnswer})
		}}))
	noError(b, err)
	b.Cleanup(func() { _ = c.Close() })
	return c
}

const secretArgument = "the argument of the call"

// call calls a tool within a span of the caller, and drops earlier spans.
func (b *book) call(c *client.Client, tool string) {
	b.Helper()
	if _, err := c.Negotiate(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.exporter.Reset()
	ctx, span := b.provider("client", nil).Tracer("test").Start(b.Context(), "caller")
	defer span.End()
	result, err := c.CallTool(ctx, tool, target{secretArgument})
	if err != nil || result.IsError {
		b.Fatalf("got %+v, %v", result, err)
	}
}

func (b *book) awaitTool(c *client.Client, name string) {
	b.Helper()
	for range 500 {
		for tool, err := range c.Tools(b.Context()) {
			if err == nil && tool.Name == name {
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.Fatalf("the tool %s is not published", name)
}

// The method wants compares trees, ignoring which replica served a request.
func (b *book) wants(got, want string) {
	b.Helper()
	got = regexp.MustCompile(`(server|upstream)-[ab] `).ReplaceAllString(got, "$1 ")
	if want = strings.TrimLeft(want, "\n"); got != want {
		b.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func (b *book) holdsNoSecrets() {
	b.Helper()
	text := fmt.Sprintf("%+v", b.exporter.GetSpans())
	for _, secret := range []string{secretAnswer, secretArgument, "secret question"} {
		if strings.Contains(text, secret) {
			b.Errorf("spans hold %q:\n%s", secret, text)
		}
	}
}
