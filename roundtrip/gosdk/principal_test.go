package gosdk_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

func TestPrincipalOf(t *testing.T) {
	over := func(extra *mcp.RequestExtra) mcp.Request { return &mcp.CallToolRequest{Extra: extra} }
	tests := []struct {
		name string
		req  mcp.Request
		want protocol.Principal
	}{
		{"stream", over(nil), protocol.LocalPrincipal()},
		{"stream with something", over(&mcp.RequestExtra{}), protocol.LocalPrincipal()},
		{"HTTP", over(&mcp.RequestExtra{Header: http.Header{}}), protocol.Principal{}},
		{"token", over(&mcp.RequestExtra{Header: http.Header{},
			TokenInfo: &auth.TokenInfo{UserID: "ada"}}), protocol.Principal{Subject: "ada"}},
		{"issuer", over(&mcp.RequestExtra{Header: http.Header{},
			TokenInfo: &auth.TokenInfo{UserID: "ada",
				Extra: map[string]any{"iss": "https://id.example.com"}}}),
			protocol.Principal{Issuer: "https://id.example.com", Subject: "ada"}},
		{"token without a user", over(&mcp.RequestExtra{Header: http.Header{},
			TokenInfo: &auth.TokenInfo{Extra: map[string]any{"iss": "x"}}}), protocol.Principal{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := gosdk.PrincipalOf(tt.req); got != tt.want {
				t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
			}
		})
	}
}

// A state is of the user that it was given to, and where only the author's own middleware knows
// its callers, of the holder of the token that it was given to, whichever way the handler asks.
func TestStatesOfOtherCallers(t *testing.T) {
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
	}
	elicit := func(ctx context.Context, req *toolRequest) (*mcp.ElicitResult, error) {
		return gosdk.Elicit(ctx, req.Session, formQuestion())
	}
	for name, test := range map[string]struct {
		ask     func(context.Context, *toolRequest) (*mcp.ElicitResult, error)
		protect func(http.Handler) http.Handler
	}{
		"users":  {elicit, auth.RequireBearerToken(verify, nil)},
		"tokens": {elicit, func(h http.Handler) http.Handler { return h }},
		"tokens, unmodified": {func(ctx context.Context,
			req *toolRequest) (*mcp.ElicitResult, error) {
			return req.Session.Elicit(ctx, formQuestion())
		}, func(h http.Handler) http.Handler { return h }},
	} {
		t.Run(name, func(t *testing.T) {
			watch := &observer{}
			acted := 0
			server := single(t, func(ctx context.Context,
				req *toolRequest) (*mcp.CallToolResult, error) {
				answer, err := test.ask(ctx, req)
				if err != nil {
					return nil, err
				}
				acted++
				return toolText(answer.Action), nil
			}, withUnmodifiedHandlers(), withFunnel(roundtrip.Options{Observer: watch}))
			endpoint, recorder := serve(t, test.protect(handlerOf(t, server,
				&mcp.StreamableHTTPOptions{JSONResponse: true})))
			as := func(token string) *wire {
				return &wire{t: t, endpoint: endpoint, capabilities: everything,
					client: &http.Client{Transport: bearer{token, recorder}}}
			}
			first := as("alice").call("t", "")
			yes := accepts(first.onlyKey())
			as("bob").retry("t", first, yes).wantError(protocol.CodeInvalidParams,
				http.StatusBadRequest)
			if acted != 0 {
				t.Error("alice's state was accepted with bob's token")
			}
			if watch.count(func(e event.Event) bool {
				rejected, ok := e.(event.StateRejected)
				return ok && rejected.Reason == event.ReasonPrincipal
			}) != 1 {
				t.Errorf("the observer saw %v", watch.all())
			}
			as("alice").retry("t", first, yes).wantText("accept")
		})
	}
}

type bearer struct {
	token string
	base  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.base.RoundTrip(r)
}

// Handlers see the headers of the request, and nothing of ours beside them.
func TestHeadersOfHandlers(t *testing.T) {
	w := dialWire(t, single(t, func(_ context.Context, req *toolRequest) (*mcp.CallToolResult,
		error) {
		if req.Extra == nil || req.Extra.Header.Get("Mcp-Name") != "t" {
			t.Errorf("the handler sees %+v", req.Extra)
		}
		for name := range req.Extra.Header {
			if strings.Contains(name, "rondo") {
				t.Errorf("the handler sees %q", name)
			}
		}
		return toolText("done"), nil
	}))
	w.call("t", "").wantText("done")
}

// TestAnonymousCallersLeaveRoomWherePrincipalsAreTold: the guard has four places. Where the host
// tells principals, anonymous callers get three of them.
func TestAnonymousCallersLeaveRoomWherePrincipalsAreTold(t *testing.T) {
	nobody := withPrincipal(func(mcp.Request) protocol.Principal { return protocol.Principal{} })
	for want, options := range map[int][]option{3: {nobody}, 4: nil} {
		guard := withFunnel(roundtrip.Options{Guard: store.NewMemoryGuard(4)})
		w := dialWire(t, single(t, asks(&mcp.CallToolResult{
			InputRequests: mcp.InputRequestMap{"q": formQuestion()}}), append(options, guard)...))
		served := 0
		for range 4 {
			if w.retry("t", w.call("t", ""), accepts("q")).Error == nil {
				served++
			}
		}
		if served != want {
			t.Errorf("%d anonymous callers are served, want %d", served, want)
		}
	}
}
