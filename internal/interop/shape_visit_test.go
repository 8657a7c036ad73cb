package interop_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	mcpgomcp "github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/roundtrip"
)

// TestVisitWithNonce: the second question is a visit to a page where the person signs in. Its URL
// has a nonce by which the server knows them when the page calls back. The nonce is the one line in
// a handler that differs from the author's: random bytes of the handler's own would be others in
// each round.
func TestVisitWithNonce(t *testing.T) {
	for sdk, x := range visitsWithNonce() {
		t.Run(sdk, x.check) // the person signs in before the client answers
		for _, revision := range []string{modern, v20251125} {
			for name, dial := range shapeClients() {
				t.Run(sdk+"/"+revision+"/"+name+"/signs in after the answer",
					func(t *testing.T) { x.checkLateVisit(t, dial, revision) })
			}
		}
	}
}

// TestVisitWithFreshNonce: without that line a client of revision 2026-07-28 is told that the
// question is another one each time. The person is not asked twice, and nothing is done.
func TestVisitWithFreshNonce(t *testing.T) {
	for sdk, x := range visitsWithNonce() {
		for name, dial := range shapeClients() {
			t.Run(sdk+"/"+name, func(t *testing.T) {
				s := newSite(modern)
				s.freshNonces = true
				who := newPerson(t, x.agreeing("books"))
				c, _ := x.dial(t, dial, x.open(t, s), modern, who, false)
				got, err := c.do(within(t, patience), removal("books"))
				if text := fmt.Sprint(got, err); !strings.Contains(text, "Nonce") {
					t.Errorf("got %q, %v, want an error that names what mends it", got, err)
				}
				who.wantAsked(1)
				s.wantActs(t)
			})
		}
	}
}

// TestFinishedVisitThatIsRefused: the server keeps what a visit brought, and looks there before it
// asks. The person signs in, and the client reports that they refused. A session's handler reads
// that. One that runs again finds the person signed in and does not ask: its result is withheld.
func TestFinishedVisitThatIsRefused(t *testing.T) {
	for sdk, x := range visitsWithNonce() {
		for _, revision := range []string{modern, v20251125} {
			for name, dial := range shapeClients() {
				for _, refusal := range []string{"decline", "cancel"} {
					t.Run(sdk+"/"+revision+"/"+name+"/"+refusal, func(t *testing.T) {
						s := newSite(revision)
						s.keepsSignIn = true
						given := x.agreeing("books")
						given["Remove drafts of books?"] = refusal
						who := newPerson(t, given)
						c, _ := x.dial(t, dial, x.open(t, s), revision, who, false)
						got, err := c.do(within(t, patience), removal("books"))
						text := fmt.Sprint(got, err)
						if revision == modern && !strings.Contains(text, "its result is withheld") {
							t.Errorf("got %q, %v, want a refusal", got, err)
						}
						if revision != modern && got != leftText("books") {
							t.Errorf("got %q, %v", got, err)
						}
						if strings.Contains(text, "removed") {
							t.Errorf("got %q", text)
						}
						who.wantAsked(1)
						if revision != modern {
							s.wantActs(t)
						}
					})
				}
			}
		}
	}
}

func visitsWithNonce() shapes {
	return shapes{
		"official": {visits: true, serve: func(t *testing.T, s *site) http.Handler {
			srv, page := s.newOfficial(), newLoginPage(t)
			s.logins = page
			srv.AddTool(&mcp.Tool{Name: "remove", InputSchema: removeArgs},
				func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					visit := func(ctx context.Context, message, at, id string) (string, error) {
						answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Mode: "url",
							Message: message, URL: at, ElicitationID: id})
						if err != nil {
							return "", err
						}
						return answer.Action, nil
					}
					return s.removeOfficial(ctx, req,
						s.signIn(page, askOfficial(req.Session), visit))
				})
			return s.serveOneOfficial(t, srv)
		}},
		"mcp-go": {visits: true, serve: func(t *testing.T, s *site) http.Handler {
			srv, page := s.newMCPGo(), newLoginPage(t)
			s.logins = page
			visit := func(ctx context.Context, message, at, id string) (string, error) {
				answer, err := srv.RequestElicitation(ctx, mcpgomcp.ElicitationRequest{
					Params: mcpgomcp.ElicitationParams{Mode: mcpgomcp.ElicitationModeURL,
						Message: message, URL: at, ElicitationID: id}})
				if err != nil {
					return "", err
				}
				return string(answer.Action), nil
			}
			srv.AddTool(mcpgomcp.NewToolWithRawSchema("remove", "", removeArgs),
				func(ctx context.Context, r mcpgomcp.CallToolRequest) (*mcpgomcp.CallToolResult,
					error) {
					return s.removeMCPGo(ctx, r, s.signIn(page, askMCPGo(srv), visit))
				})
			return s.serveOneMCPGo(t, srv)
		}},
	}
}

// signIn returns a questioner that asks the second question by a visit to the page, and waits until
// the person has signed in there.
func (s *site) signIn(page *loginPage, ask questioner,
	visit func(ctx context.Context, message, at, id string) (string, error)) questioner {
	first := true
	return func(ctx context.Context, message string, form map[string]any) (string,
		map[string]any, error) {
		if first {
			first = false
			return ask(ctx, message, form)
		}
		nonce, err := s.nonce(ctx)
		if err != nil {
			return "", nil, err
		}
		if s.keepsSignIn && page.hasSigned(nonce) {
			return "accept", map[string]any{"sure": true}, nil
		}
		action, err := visit(ctx, message, page.url+"?state="+url.QueryEscape(nonce), nonce)
		if err != nil || action != "accept" {
			return action, nil, err
		}
		return action, map[string]any{"sure": true}, page.wait(ctx, nonce)
	}
}

// nonce is where the author called rand.Text.
func (s *site) nonce(ctx context.Context) (string, error) {
	if s.bare || s.freshNonces {
		return rand.Text(), nil
	}
	return roundtrip.Nonce(ctx, "login")
}

// A loginPage is where people sign in.
type loginPage struct {
	url string
	// waits gets a value when a handler begins to wait for a person.
	waits chan struct{}

	mu     sync.Mutex
	signed map[string]chan struct{} // by nonce, closed when the person has signed in
}

func newLoginPage(t *testing.T) *loginPage {
	p := &loginPage{waits: make(chan struct{}, 100), signed: map[string]chan struct{}{}}
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		p.sign(r.URL.Query().Get("state"))
	}))
	t.Cleanup(web.Close)
	p.url = web.URL + "/login"
	return p
}

func (p *loginPage) find(nonce string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.signed[nonce] == nil {
		p.signed[nonce] = make(chan struct{})
	}
	return p.signed[nonce]
}

func (p *loginPage) sign(nonce string) {
	signed := p.find(nonce)
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-signed:
	default:
		close(signed)
	}
}

// hasSigned reports whether the person has signed in.
func (p *loginPage) hasSigned(nonce string) bool {
	select {
	case <-p.find(nonce):
		return true
	default:
		return false
	}
}

func (p *loginPage) wait(ctx context.Context, nonce string) error {
	p.waits <- struct{}{}
	select {
	case <-p.find(nonce):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// openPage does what a browser does.
func openPage(t *testing.T, ctx context.Context, at string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		t.Error(err)
		return
	}
	browser := &http.Transport{DisableKeepAlives: true}
	resp, err := browser.RoundTrip(req)
	if err != nil {
		if ctx.Err() == nil { // else the client has given up
			t.Error(err)
		}
		return
	}
	_ = resp.Body.Close()
}

// checkLateVisit has the person sign in when the server waits for that already.
func (x shape) checkLateVisit(t *testing.T, dial dialerOf, revision string) {
	s := newSite(revision)
	who := newPerson(t, x.agreeing("books"))
	c, _ := x.dial(t, dial, x.open(t, s), revision, who, false)
	ctx := within(t, patience)
	opened := make(chan string, 10)
	who.open = func(_ context.Context, at string) { opened <- at }
	go func() {
		select {
		case <-s.logins.waits:
			openPage(t, ctx, <-opened)
		case <-ctx.Done():
		}
	}()
	got, err := c.do(ctx, removal("books"))
	if want := doneText("books"); err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	who.wantAsked(1)
	s.wantActs(t, "books")
}
