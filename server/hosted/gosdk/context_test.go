//lint:file-ignore SA1019 log messages are deprecated, and supported for as long as they exist

package gosdk_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/testing/hostedtest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
	"github.com/rondo-mcp/rondo/server/hosted/gosdk"
)

type key string

// The function seen describes a handler's view of its call.
func seen(ctx context.Context, session *mcp.ServerSession, extra *mcp.RequestExtra) string {
	user := "nobody"
	if extra.TokenInfo != nil {
		user = extra.TokenInfo.UserID
	}
	client := session.InitializeParams().ClientInfo
	_, limited := ctx.Deadline()
	return fmt.Sprintf("session %s user %s header %q client %s %s values %v %v caller %v "+
		"limited %t", session.ID(), user, extra.Header.Get("X-Tenant"), client.Name,
		client.Version, ctx.Value(key("web")), ctx.Value(key("sdk")),
		hosted.CallerFrom(ctx).Principal, limited)
}

func around(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		ctx = context.WithValue(ctx, key("sdk"), "around "+method)
		return next(ctx, method, req)
	}
}

func TestHandlersSeeTheirCall(t *testing.T) {
	var got string
	see := func(ctx context.Context, req mcp.Request) {
		got = seen(ctx, req.GetSession().(*mcp.ServerSession), req.GetExtra())
	}
	s := newServer(&mcp.ServerOptions{
		CompletionHandler: func(ctx context.Context, req *mcp.CompleteRequest) (
			*mcp.CompleteResult, error) {
			see(ctx, req)
			return &mcp.CompleteResult{}, nil
		},
		SubscribeHandler: func(ctx context.Context, req *mcp.SubscribeRequest) error {
			see(ctx, req)
			return nil
		},
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	addTool(s, "see", func(ctx context.Context, req *toolRequest) (*toolResult, error) {
		see(ctx, req)
		return textf("seen"), nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "see"}, func(ctx context.Context, req *mcp.GetPromptRequest) (
		*mcp.GetPromptResult, error) {
		see(ctx, req)
		return &mcp.GetPromptResult{}, nil
	})
	s.AddResource(&mcp.Resource{URI: "x://y", Name: "y"}, func(ctx context.Context,
		req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		see(ctx, req)
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{Text: "seen"}}}, nil
	})
	lists := before(func(ctx context.Context, method string, req mcp.Request) {
		if method == "tools/list" {
			see(ctx, req)
		}
	})
	s.AddReceivingMiddleware(around, lists)
	p := gosdk.Peer(s, nil)
	for _, caller := range []struct {
		*hosted.Caller
		user, tenant string
	}{
		{&hosted.Caller{SessionID: "1"}, "nobody", ""},
		{&hosted.Caller{SessionID: "2", Principal: protocol.LocalPrincipal()}, "nobody", ""},
		{&hosted.Caller{SessionID: "3", Principal: protocol.Principal{Subject: "ann"},
			Header: http.Header{"X-Tenant": {"acme"}}}, "ann", "acme"},
	} {
		c := hostedtest.OpenAs(t, p, caller.Caller, noCapabilities)
		for _, request := range [][2]string{
			{"tools/call", `{"name":"see"}`},
			{"tools/call", `{"name":"see","requestState":"1"}`}, // each has its own session
			{"prompts/get", `{"name":"see"}`},
			{"resources/read", `{"uri":"x://y"}`},
			{"resources/subscribe", `{"uri":"x://y"}`},
			{"completion/complete", `{"ref":{"type":"ref/prompt","name":"see"},` +
				`"argument":{"name":"a","value":"b"}}`},
			{"tools/list", "{}"},
		} {
			got = "nothing"
			ctx, cancel := context.WithTimeout(
				context.WithValue(t.Context(), key("web"), "web"), time.Hour)
			_, err := c.Send(ctx, request[0], request[1], nil)
			cancel()
			if err != nil {
				t.Error(err)
			}
			want(t, request[0]+request[1], got, fmt.Sprintf("session %s user %s header %q client "+
				"teller 3 values web around %s caller %v limited true", caller.SessionID,
				caller.user, caller.tenant, request[0], caller.Principal))
		}
	}
}

func TestTokensOfCallers(t *testing.T) {
	s := newServer(nil)
	addText(s, "who", func(_ context.Context, req *toolRequest) (string, error) {
		info := req.Extra.TokenInfo
		return fmt.Sprint(info.UserID, " ", info.Scopes, " ",
			info.Expiration.After(time.Now())), nil
	})
	ann := &hosted.Caller{Principal: protocol.Principal{Issuer: "i", Subject: "ann"}}
	ctx := t.Context()
	verify := func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: "web", Scopes: []string{"read"},
			Expiration: time.Now().Add(time.Minute)}, nil
	}
	auth.RequireBearerToken(verify, nil)(http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) { ctx = r.Context() },
	)).ServeHTTP(nil, &http.Request{Header: http.Header{"Authorization": {"Bearer x"}}})
	made := 0
	own := &gosdk.Options{TokenInfo: func(_ context.Context, c *hosted.Caller) *auth.TokenInfo {
		made++
		return &auth.TokenInfo{UserID: c.Principal.String()}
	}}
	for _, test := range []struct {
		ctx  context.Context
		opts *gosdk.Options
		want string
	}{
		{t.Context(), nil, "ann [] true"},
		{ctx, nil, "web [read] true"},
		{ctx, own, ann.Principal.String() + " [] false"},
	} {
		c := hostedtest.OpenAs(t, gosdk.Peer(s, test.opts), ann, noCapabilities)
		for _, params := range []string{`{"name":"who"}`, `{"name":"who","requestState":"x"}`} {
			made = 0
			want(t, "token", textOf(c.Send(test.ctx, "tools/call", params, nil)), test.want)
			if made > 1 {
				t.Errorf("%s: the token was made %d times", params, made)
			}
		}
	}
}

// A closer is a back whose connection can be closed.
type closer struct {
	back
	retry time.Duration
}

func (c *closer) CloseStream(_ context.Context, retry time.Duration) error {
	c.retry = retry
	return nil
}

func TestHandlersCloseTheConnectionOfTheirClient(t *testing.T) {
	s := newServer(nil)
	addTool(s, "close", func(_ context.Context, req *toolRequest) (*toolResult, error) {
		req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: time.Minute})
		return textf("closed"), nil
	})
	c, b := open(t, s), &closer{}
	want(t, "without a connection", c.Call("close", &back{}), "closed")
	if _, err := c.Session.Handle(t.Context(), &protocol.Request{ID: protocol.IntID(1),
		Method: "tools/call", Params: []byte(`{"name":"close"}`)}, b); err != nil {
		t.Error(err)
	}
	if b.retry != time.Minute {
		t.Errorf("the client is to wait %v", b.retry)
	}
}
