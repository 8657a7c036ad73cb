package interop_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"testing"

	mcpgomcp "github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestQuestionsInsideRoundTripper: a client library of the author's sends what the tool wants done
// to a backend, and its HTTP round tripper asks before anything leaves. The handler sees what
// became of the question as an error that two layers have wrapped, and answers with a failed tool.
func TestQuestionsInsideRoundTripper(t *testing.T) { checkAll(t, roundTrippers()) }

func roundTrippers() shapes {
	return shapes{
		"official": {serve: func(t *testing.T, s *site) http.Handler {
			srv, backend := s.newOfficial(), newBackend(t, s)
			srv.AddTool(&mcp.Tool{Name: "remove", InputSchema: removeArgs},
				func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					name, err := officialName(req)
					if err != nil {
						return nil, err
					}
					text, err := backend.remove(withQuestioner(ctx, askOfficial(req.Session)), name)
					if err != nil {
						failed := officialText(err.Error())
						failed.IsError = true
						return failed, nil
					}
					return officialText(text), nil
				})
			return s.serveOneOfficial(t, srv)
		}},
		"mcp-go": {serve: func(t *testing.T, s *site) http.Handler {
			srv, backend := s.newMCPGo(), newBackend(t, s)
			srv.AddTool(mcpgomcp.NewToolWithRawSchema("remove", "", removeArgs),
				func(ctx context.Context, r mcpgomcp.CallToolRequest) (*mcpgomcp.CallToolResult,
					error) {
					text, err := backend.remove(withQuestioner(ctx, askMCPGo(srv)),
						r.GetString("name", ""))
					if err != nil {
						return mcpgomcp.NewToolResultError(err.Error()), nil
					}
					return mcpgomcp.NewToolResultText(text), nil
				})
			return s.serveOneMCPGo(t, srv)
		}},
	}
}

// A backend is what a server stands in front of: an API that removes what it is told to.
type backend struct{ client *http.Client }

const backendURL = "http://backend.invalid/"

func newBackend(t *testing.T, s *site) *backend {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.act(s.ctx, path.Base(r.URL.Path)); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}))
	own := &http.Transport{DialContext: func(ctx context.Context, network,
		_ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, api.Listener.Addr().String())
	}}
	t.Cleanup(func() {
		own.CloseIdleConnections()
		api.Close()
	})
	return &backend{&http.Client{Transport: &confirming{s, own}}}
}

// remove is the client library.
func (b *backend) remove(ctx context.Context, name string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, backendURL+name, nil)
	if err != nil {
		return "", err
	}
	resp, err := b.client.Do(req) // wraps the error of the round tripper
	if errors.Is(err, errRefused) {
		return "left " + name + " alone", nil
	}
	if err != nil {
		return "", fmt.Errorf("the backend does not remove %s: %w", name, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the backend does not remove %s: %s", name, resp.Status)
	}
	return "removed a part of " + name, nil
}

// confirming asks before it sends a request.
type confirming struct {
	site *site
	base http.RoundTripper
}

var errRefused = errors.New("the person refused")

// RoundTrip asks, and sends r when both questions were accepted.
func (c *confirming) RoundTrip(r *http.Request) (*http.Response, error) {
	ask, _ := r.Context().Value(questionerKey{}).(questioner)
	var resp *http.Response
	_, err := c.site.removePart(r.Context(), path.Base(r.URL.Path), ask,
		func(ctx context.Context) (err error) {
			resp, err = c.base.RoundTrip(r)
			return err
		})
	if err == nil && resp == nil {
		err = errRefused
	}
	return resp, err
}

type questionerKey struct{}

func withQuestioner(ctx context.Context, ask questioner) context.Context {
	return context.WithValue(ctx, questionerKey{}, ask)
}
