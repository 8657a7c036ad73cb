package interop_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/server/hosted"
	"github.com/rondo-mcp/rondo/server/hosted/gosdk"
	"github.com/rondo-mcp/rondo/server/hosted/mcpgo"
)

// A hostedServer is an SDK's scripted server behind rondo. Its handlers return their questions in
// the SDK's own types, or push them as if there were sessions.
type hostedServer struct {
	name string
	open func() (*hosted.Server, error)
}

func hostedServers() []hostedServer {
	official := func(push bool) func() (*hosted.Server, error) {
		return func() (*hosted.Server, error) { return gosdk.New(newGoSDKServer(push), nil) }
	}
	mcpGo := func(push bool) func() (*hosted.Server, error) {
		return func() (*hosted.Server, error) { return mcpgo.New(newMCPGoServer(push), nil) }
	}
	return []hostedServer{
		{"official returned", official(false)}, {"official pushed", official(true)},
		{"mcp-go returned", mcpGo(false)}, {"mcp-go pushed", mcpGo(true)},
	}
}

// TestHostedServers connects clients of all makes to hosted servers of both SDKs.
func TestHostedServers(t *testing.T) {
	for _, h := range hostedServers() {
		t.Run(h.name, func(t *testing.T) {
			parallelMatrix(t, modern, wiretest.Server, h.routes(modern), h.defects(modern))
			parallelMatrix(t, v20251125, wiretest.Server, h.routes(v20251125),
				h.defects(v20251125))
		})
	}
}

// defects returns the scenarios that a hosted server or a client handles wrongly.
func (h hostedServer) defects(revision string) map[string]defect {
	defects := map[string]defect{}
	pushes, mcpGo := strings.HasSuffix(h.name, "pushed"), strings.HasPrefix(h.name, "mcp-go")
	if revision == modern {
		unnamed := defect{what: "the error does not say what is missing, although the server does",
			want: `missing required client capability: ""`, fails: true, legs: 1, asked: 1}
		for _, scenario := range []string{"cannot be asked", "cannot visit"} {
			defects[scenario+"/mcp-go-http"], defects[scenario+"/mcp-go-stream"] = unnamed, unnamed
		}
	}
	switch {
	case pushes && revision == modern:
		defects["all at once"] = defect{what: "none: what is pushed at the same time, without " +
			"keys, is asked one after the other",
			want: "accepted it is tested, It is short., file:///src, visit accepted", legs: 5,
			asked: 1}
		defects["state alone"] = defect{what: "none: a handler that pushes needs no state",
			want: "ready", legs: 1, asked: 1}
	case !pushes && revision == modern:
		hollow := defect{what: "a result that only asks to come back is taken as final, and empty",
			want: "", legs: 1, asked: 1}
		defects["state alone/official-http"] = hollow
		defects["state alone/official-stream"] = hollow
	}
	if mcpGo && !pushes {
		const cannotAsk = "a handler of resources has contents to return and nothing else"
		defects["resource"] = defect{what: cannotAsk, want: "opened", legs: 1}
		defects["resource template"] = defect{what: cannotAsk, want: "opened", legs: 1}
		defects["resource twice"] = defect{what: cannotAsk, want: "opened", legs: 2}
	}
	return defects
}

func (h hostedServer) start(t *testing.T) *hosted.Server {
	t.Helper()
	front, err := h.open()
	noError(t, err)
	t.Cleanup(func() { _ = front.Close() })
	return front
}

func (h hostedServer) listen(t *testing.T) (endpoint string, _ said) {
	handler, err := h.start(t).Handler(nil)
	noError(t, err)
	t.Cleanup(func() { _ = handler.Shutdown(within(t, patience)) })
	return listen(t, handler)
}

func (h hostedServer) stream(t *testing.T) (line, said) {
	ours, theirs, said := stream(t)
	front := h.start(t)
	serve(t, theirs, func(ctx context.Context) {
		_ = front.Server().ServeStream(ctx, theirs.r, theirs.w, nil)
	})
	return ours, said
}

func (h hostedServer) routes(revision string) []route {
	return []route{
		{"mcp-go-http", func(t *testing.T, who *person, mute bool) (peer, said) {
			endpoint, said := h.listen(t)
			over, err := transport.NewStreamableHTTP(endpoint,
				transport.WithHTTPBasicClient(newHTTPClient(t)),
				transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
			noError(t, err)
			return connectMCPGo(t, who, mute, revision, over), said
		}},
		{"mcp-go-stream", func(t *testing.T, who *person, mute bool) (peer, said) {
			ours, said := h.stream(t)
			return connectMCPGo(t, who, mute, revision,
				transport.NewIO(ours.r, ours.w, io.NopCloser(strings.NewReader("")))), said
		}},
		{"official-http", func(t *testing.T, who *person, mute bool) (peer, said) {
			endpoint, said := h.listen(t)
			return connectGoSDK(t, who, mute, revision,
				&mcp.StreamableClientTransport{Endpoint: endpoint,
					HTTPClient: newHTTPClient(t)}), said
		}},
		{"official-stream", func(t *testing.T, who *person, mute bool) (peer, said) {
			ours, said := h.stream(t)
			return connectGoSDK(t, who, mute, revision,
				&mcp.IOTransport{Reader: ours.r, Writer: ours.w}), said
		}},
	}
}

// serveHosted serves a hosted server over standard input and output.
func serveHosted(name string) error {
	for _, h := range hostedServers() {
		if h.name == name {
			front, err := h.open()
			if err != nil {
				return err
			}
			return front.Server().ServeStdio(context.Background())
		}
	}
	return fmt.Errorf("there is no server %q", name)
}
