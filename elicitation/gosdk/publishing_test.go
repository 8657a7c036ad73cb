package gosdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
)

// userHeader names the user of a request, in the place of authentication.
const userHeader = "X-User"

// A publishingGateway offers what an upstream has.
type publishingGateway struct {
	url    string
	server *mcp.Server
	users  *gosdk.Downstream
	// rename renames the prompts of the upstream, nil: their names stay.
	rename func(string) string
}

// serve starts the gateway.
func (g *publishingGateway) serve(t *testing.T, opts gosdk.UpstreamOptions) {
	t.Helper()
	router, err := elicitation.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	server := mcp.NewServer(impl, nil)
	clients, err := gosdk.NewDownstream(router, server, &gosdk.Options{
		Principal: headerAsPrincipal,
	})
	if err != nil {
		t.Fatal(err)
	}
	opts.Name, opts.Implementation = "up", impl
	up, err := clients.NewUpstream(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	if err := errors.Join(up.PublishTools(t.Context(), server, nil),
		up.PublishPrompts(t.Context(), server, g.rename),
		up.PublishResources(t.Context(), server)); err != nil {
		t.Fatal(err)
	}
	down := httptest.NewServer(clients.Handler(mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return server }, nil)))
	t.Cleanup(down.Close)
	g.url, g.server, g.users = down.URL, server, clients
}

// askReason asks for a reason and returns the answer, or the error.
func askReason(ctx context.Context, session *mcp.ServerSession, message string) string {
	answer, err := session.Elicit(ctx, &mcp.ElicitParams{
		Message: message, RequestedSchema: json.RawMessage(reasonSchema)})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(answer.Action, " ", answer.Content["reason"])
}

// user connects a client of the official SDK, which answers each question with its message.
func (g *publishingGateway) user(t *testing.T, name string) *mcp.ClientSession {
	t.Helper()
	return g.connect(t, newUser(name), &mcp.StreamableClientTransport{Endpoint: g.url,
		HTTPClient: &http.Client{Transport: headerTransport{name}}})
}

// newUser returns a client that answers each question with its message.
func newUser(name string) *mcp.Client {
	modes := &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{},
		URL: &mcp.URLElicitationCapabilities{}}
	return mcp.NewClient(impl, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{
		Elicitation: modes,
	}, ElicitationHandler: func(_ context.Context,
		req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		if req.Params.Mode == "url" {
			return &mcp.ElicitResult{Action: "accept"}, nil
		}
		return &mcp.ElicitResult{Action: "accept",
			Content: map[string]any{"reason": name + " to " + req.Params.Message}}, nil
	}})
}

func (g *publishingGateway) connect(t *testing.T, c *mcp.Client, over mcp.Transport,
) *mcp.ClientSession {
	t.Helper()
	session, err := c.Connect(t.Context(), over,
		&mcp.ClientSessionOptions{ProtocolVersion: legacy})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// A headerTransport names the user of each request.
type headerTransport struct{ user string }

func (h headerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(userHeader, h.user)
	return http.DefaultTransport.RoundTrip(r)
}

// usersWithoutHTTP connects clients on lines and within the process.
func (g *publishingGateway) usersWithoutHTTP(t *testing.T) map[string]*mcp.ClientSession {
	t.Helper()
	users := map[string]*mcp.ClientSession{}
	connect := func(name string, there, here mcp.Transport) {
		serving, err := g.server.Connect(t.Context(), there, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = serving.Wait() })
		users[name] = g.connect(t, newUser("ann"), here)
	}
	requests, responses := newPipe(), newPipe()
	connect("lines", &mcp.IOTransport{Reader: requests.r, Writer: responses.w},
		&mcp.IOTransport{Reader: responses.r, Writer: requests.w})
	there, here := mcp.NewInMemoryTransports()
	connect("in process", there, here)
	return users
}

// A pipe is one direction of standard input and output.
type pipe struct {
	r *io.PipeReader
	w *io.PipeWriter
}

func newPipe() pipe {
	r, w := io.Pipe()
	return pipe{r, w}
}
