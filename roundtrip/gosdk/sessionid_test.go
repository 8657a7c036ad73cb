package gosdk_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// callerTransport names the caller of each request.
type callerTransport struct{ name string }

func (c callerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Caller", c.name)
	return http.DefaultTransport.RoundTrip(r)
}

// A server that keeps an API client per session gives each caller the own one, in both eras, also
// where the SDK has no sessions.
func TestSessionIDsTellCallersApart(t *testing.T) {
	for _, named := range []bool{true, false} {
		var clients sync.Map // session id → caller
		server := mcp.NewServer(&mcp.Implementation{Name: "host", Version: "1"}, nil)
		mcp.AddTool(server, &mcp.Tool{Name: "t"}, func(_ context.Context, req *mcp.CallToolRequest,
			_ map[string]any) (*mcp.CallToolResult, any, error) {
			if id := req.Session.ID(); id == "" || strings.Contains(id, "ann") {
				t.Errorf("a handler sees the id %q", id)
			}
			name, _ := clients.LoadOrStore(req.Session.ID(), req.Extra.Header.Get("X-Caller"))
			return &mcp.CallToolResult{Content: []mcp.Content{
				&mcp.TextContent{Text: name.(string)}}}, nil, nil
		})
		installWith(t, server, &gosdk.Options{UnmodifiedHandlers: true,
			Principal: func(req mcp.Request) (p protocol.Principal) {
				if named {
					p.Subject = req.GetExtra().Header.Get("X-Caller")
				}
				return p
			}})
		endpoint, _ := serve(t, handlerOf(t, server, nil))
		for _, revision := range []string{legacy, modern} {
			for range 2 {
				for _, caller := range []string{"ann", "bob", "carol", "dave"} {
					got := reached(t, dialSDK(t, newPerson(t, nil), false, revision,
						&mcp.StreamableClientTransport{Endpoint: endpoint,
							HTTPClient: &http.Client{Transport: callerTransport{caller}}}))
					if got != caller {
						t.Errorf("%s, principals %v: %s gets the client of %s", revision, named,
							caller, got)
					}
				}
			}
		}
	}
}
