package mcpgo_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/roundtriptest"
	"github.com/rondo-mcp/rondo/roundtrip/visit"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/hosted"
	"github.com/rondo-mcp/rondo/server/hosted/mcpgo"
	"github.com/rondo-mcp/rondo/server/middleware"
	"github.com/rondo-mcp/rondo/server/middleware/sloglog"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

const site = "https://id.example" // issues tokens and cookies

// userOf stands for the checks of a token and of a cookie.
func userOf(r *http.Request) (protocol.Principal, error) {
	if name := r.Header.Get("X-User"); name != "" {
		return protocol.Principal{Issuer: site, Subject: name}, nil
	}
	return protocol.Principal{}, errors.New("not logged in")
}

func loggedIn(w http.ResponseWriter, r *http.Request) (protocol.Principal, bool) {
	user, err := userOf(r) // by the cookie of your site
	if err != nil {
		http.Redirect(w, r, "/login?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
	}
	return user, err == nil
}

func newFront(mcpServer *mcpserver.MCPServer, address string, log *slog.Logger) (
	*hosted.Server, *visit.Questions, error) {
	observer, chain, err := middleware.Production(sloglog.New(log), nil,
		&middleware.Options{CallsPerPrincipal: 8})
	if err != nil {
		return nil, nil, err
	}
	page, err := visit.NewQuestions(address+"/approve", &visit.QuestionOptions{
		Options: visit.Options{Visitor: loggedIn, Observer: observer}})
	if err != nil {
		return nil, nil, err
	}
	front, err := mcpgo.New(mcpServer, &hosted.Options{Server: server.Options{
		Observer:   observer,
		Middleware: chain,
		Roundtrip: roundtrip.Options{
			HumanTimeout: 5 * time.Minute,  // for a question, in a session
			RoundTTL:     30 * time.Minute, // for a question, on 2026-07-28
			Page:         page,             // for clients that do not ask
		},
	}})
	return front, page, err
}

func newRouter(front *hosted.Server, page *visit.Questions) (http.Handler, error) {
	handler, err := front.Handler(&serverhttp.Options{Authenticate: userOf})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	mux.Handle("/approve", page)
	return mux, nil
}

// connectWithPage asks with the SDK's method and serves the page at the same address.
func connectWithPage(t testing.TB, user string) protocol.Peer {
	mcpServer := mcpserver.NewMCPServer("notes", "1.0.0", mcpserver.WithElicitation())
	mcpServer.AddTool(mcp.NewTool("delete"), func(ctx context.Context, _ mcp.CallToolRequest) (
		*mcp.CallToolResult, error) {
		answer, err := mcpServer.RequestElicitation(ctx, mcp.ElicitationRequest{
			Params: mcp.ElicitationParams{Message: "Delete all?", RequestedSchema: map[string]any{
				"type": "object", "required": []string{"sure"},
				"properties": map[string]any{"sure": map[string]any{"type": "boolean"}},
			}}})
		if err != nil {
			return nil, err
		}
		return mcp.NewToolResultText(string(answer.Action)), nil
	})

	web := httptest.NewUnstartedServer(nil)
	address := "http://" + web.Listener.Addr().String()
	front, page, err := newFront(mcpServer, address, slog.New(slog.DiscardHandler))
	noError(t, err)
	if web.Config.Handler, err = newRouter(front, page); err != nil {
		t.Fatal(err)
	}
	web.Start()
	t.Cleanup(func() { _ = front.Close(); web.Close() })
	peer, err := clienthttp.New(address+"/mcp",
		&clienthttp.Options{Header: http.Header{"X-User": {"ann" + user}}})
	noError(t, err)
	return peer
}

type as string

func (a as) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-User", "ann"+string(a))
	return http.DefaultTransport.RoundTrip(r)
}

// TestAPageAnswersTheSDKsQuestions of clients that show links only, or nothing.
func TestAPageAnswersTheSDKsQuestions(t *testing.T) {
	roundtriptest.Run(t, roundtriptest.Subject{Connect: connectWithPage,
		Browser: func(user string) *http.Client { return &http.Client{Transport: as(user)} },
	}, roundtriptest.Flow{Name: "page", Request: roundtriptest.Tool("delete", nil),
		Answers: roundtriptest.Answers{
			"question-1": roundtriptest.Accept(map[string]bool{"sure": true})},
		Want: "accept"})
}
