package interop_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// TestGoSDKRetrofit: everybody's clients, the official Go SDK's server with the adapter. Its
// handlers return their questions, in the SDK's own types, or push them as if there were sessions.
func TestGoSDKRetrofit(t *testing.T) {
	for name, push := range map[string]bool{"returned": false, "pushed": true} {
		t.Run(name, func(t *testing.T) {
			parallelMatrix(t, modern, wiretest.Server, retrofitRoutes(modern, push),
				retrofitDefects(push))
		})
	}
}

// TestGoSDKRetrofitLegacy: the same, in sessions.
func TestGoSDKRetrofitLegacy(t *testing.T) {
	for name, push := range map[string]bool{"returned": false, "pushed": true} {
		t.Run(name, func(t *testing.T) {
			parallelMatrix(t, v20251125, wiretest.Server, retrofitRoutes(v20251125, push), nil)
		})
	}
}

func retrofitDefects(push bool) map[string]defect {
	if push {
		own := defect{what: "an unmodified handler fails by itself where the client declares " +
			"nothing", want: "elicitation", within: true, legs: 1, asked: 1}
		return map[string]defect{
			"all at once": {what: "none: what is pushed at the same time, without keys, is asked " +
				"one after the other",
				want: "accepted it is tested, It is short., file:///src, visit accepted", legs: 5,
				asked: 1},
			"state alone": {what: "none: a handler that pushes needs no state", want: "ready",
				legs: 1, asked: 1},
			"cannot be asked": own, "cannot visit": own,
		}
	}
	hollow := defect{what: "a result that only asks to come back is taken as final, and empty",
		want: "", legs: 1, asked: 1}
	unnamed := defect{what: "the error does not say what is missing, although the server does", want: `missing required client capability: ""`, fails: true, legs: 1, asked: 1}
	return map[string]defect{
		"state alone/official-http": hollow, "state alone/official-stream": hollow,
		"cannot be asked/mcp-go-http": unnamed, "cannot be asked/mcp-go-stream": unnamed,
		"cannot visit/mcp-go-http": unnamed, "cannot visit/mcp-go-stream": unnamed,
	}
}

// newRetrofit returns the scripted server of the official Go SDK, and an adapter for it.
func newRetrofit(t *testing.T, push bool) (*mcp.Server, *gosdk.Adapter) {
	t.Helper()
	s, a, err := retrofitted(push)
	if err != nil {
		t.Fatal(err)
	}
	return s, a
}

func retrofitted(push bool) (*mcp.Server, *gosdk.Adapter, error) {
	s := newGoSDKServer(push)
	a, err := gosdk.New(&gosdk.Options{ExactWire: true, UnmodifiedHandlers: push})
	return s, a, err
}

// listenRetrofit serves one over HTTP, to both eras.
func listenRetrofit(t *testing.T, push bool) (endpoint string, _ said) {
	s, a := newRetrofit(t, push)
	closeSessionsAfter(t, s)
	h, err := a.Handler(func(*http.Request) *mcp.Server { return s }, nil)
	if err != nil {
		t.Fatal(err)
	}
	return listen(t, h)
}

func retrofitRoutes(revision string, push bool) []route {
	serveStream := func(t *testing.T) (line, said) {
		ours, theirs, said := stream(t)
		s, a := newRetrofit(t, push)
		serve(t, theirs, func(ctx context.Context) {
			_ = s.Run(ctx, a.Transport(s, &mcp.IOTransport{Reader: theirs.r,
				Writer: theirs.w}))
		})
		return ours, said
	}
	return []route{
		{"mcp-go-http", func(t *testing.T, who *person, mute bool) (peer, said) {
			endpoint, said := listenRetrofit(t, push)
			over, err := transport.NewStreamableHTTP(endpoint,
				transport.WithHTTPBasicClient(newHTTPClient(t)),
				transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
			if err != nil {
				t.Fatal(err)
			}
			return connectMCPGo(t, who, mute, revision, over), said
		}},
		{"mcp-go-stream", func(t *testing.T, who *person, mute bool) (peer, said) {
			ours, said := serveStream(t)
			return connectMCPGo(t, who, mute, revision,
				transport.NewIO(ours.r, ours.w, io.NopCloser(strings.NewReader("")))), said
		}},
		{"official-http", func(t *testing.T, who *person, mute bool) (peer, said) {
			endpoint, said := listenRetrofit(t, push)
			return connectGoSDK(t, who, mute, revision,
				&mcp.StreamableClientTransport{Endpoint: endpoint,
					HTTPClient: newHTTPClient(t)}), said
		}},
		{"official-stream", func(t *testing.T, who *person, mute bool) (peer, said) {
			ours, said := serveStream(t)
			return connectGoSDK(t, who, mute, revision,
				&mcp.IOTransport{Reader: ours.r, Writer: ours.w}), said
		}},
	}
}
