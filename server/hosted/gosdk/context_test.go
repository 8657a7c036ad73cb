//lint:file-ignore SA1019 log messages are deprecated, and supported for as long as they exist

package gosdk_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
	"github.com/rondo-mcp/rondo/server/hosted/gosdk"
)

type key string

// seen describes what a handler sees of its call.
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

// around is middleware of the author that sets a value.
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
	addTool(s, "see", func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
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
	lists := func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == "tools/list" {
				see(ctx, req)
			}
			return next(ctx, method, req)
		}
	}
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
		c := openAt(t, p, caller.Caller, noCapabilities)
		for _, request := range [][2]string{
			{"tools/call", `{"name":"see"}`},
			{"tools/call", `{"name":"see","requestState":"1"}`}, // has a session of its own
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
			_, err := c.send(ctx, request[0], request[1], nil)
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
	addTool(s, "who", func(_ context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		info := req.Extra.TokenInfo
		return textf("%s %v %t", info.UserID, info.Scopes, info.Expiration.After(time.Now())), nil
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
		c := openAt(t, gosdk.Peer(s, test.opts), ann, noCapabilities)
		for _, params := range []string{`{"name":"who"}`, `{"name":"who","requestState":"x"}`} {
			made = 0
			want(t, "token", textOf(c.send(test.ctx, "tools/call", params, nil)), test.want)
			if made > 1 {
				t.Errorf("%s: the token was made %d times", params, made)
			}
		}
	}
}

func TestHandlersEndWithTheirCall(t *testing.T) {
	ended := errors.New("the client has left")
	for _, test := range []struct {
		what      string
		end       func(context.Context) (context.Context, func())
		err       error
		cause     error
		inSession string
	}{
		{"cancelled", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(ended) }
		}, context.Canceled, ended, "pushing"},
		{"late", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			return ctx, func() { <-ctx.Done(); cancel() }
		}, context.DeadlineExceeded, context.DeadlineExceeded, "pushing"},
		{"cancelled", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(ended) }
		}, context.Canceled, ended, "returning"},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := make(chan struct{})
			var got, cause error
			s := newServer(nil)
			addRaw(s, "wait", func(ctx context.Context, _ *toolRequest) (
				*mcp.CallToolResult, error) {
				close(began)
				child, cancel := context.WithCancel(ctx)
				defer cancel()
				<-child.Done()
				got, cause = child.Err(), context.Cause(child)
				return nil, got
			})
			ctx, end := test.end(t.Context())
			c, params := open(t, s), `{"name":"wait"}`
			if test.inSession == "returning" {
				params = `{"name":"wait","requestState":"x"}`
			}
			answered := make(chan string)
			go func() { answered <- textOf(c.send(ctx, "tools/call", params, nil)) }()
			<-began
			end()
			want(t, test.what, <-answered, "-32603 "+test.err.Error())
			if got != test.err || cause != test.cause {
				t.Errorf("%s: the handler got %v, because of %v", test.what, got, cause)
			}
		})
	}
}

func TestHandlersThatIgnoreTheEndOfTheirCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(nil)
		goOn, began := make(chan struct{}), make(chan struct{})
		addTool(s, "stay", func(ctx context.Context, req *toolRequest) (
			*mcp.CallToolResult, error) {
			close(began)
			<-goOn
			_ = req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: "late"})
			return textf("late"), nil
		})
		addTool(s, "other", func(context.Context, *toolRequest) (*mcp.CallToolResult, error) {
			return textf("other"), nil
		})
		c := open(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		b := &back{}
		go func() { <-began; cancel() }()
		start := time.Now()
		got := textOf(c.send(ctx, "tools/call", `{"name":"stay"}`, b))
		if took := time.Since(start); took != 5*time.Second ||
			!strings.Contains(got, "goes on after its call: context canceled") {
			t.Errorf("got %s after %v", got, took)
		}
		want(t, "other calls", c.call("other", nil), "other")
		closing := time.Now()
		_ = c.session.Close()
		if took := time.Since(closing); took != 0 {
			t.Errorf("the session was closed after %v", took)
		}
		close(goOn)
		synctest.Wait()
		want(t, "sent", b.list(), "")
		for range s.Sessions() {
			t.Error("a session is left")
		}
	})
}

// A closer is a back whose client waits on a connection that can be closed.
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
	addTool(s, "close", func(_ context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: time.Minute})
		return textf("closed"), nil
	})
	c, b := open(t, s), &closer{}
	want(t, "without a connection", c.call("close", &back{}), "closed")
	if _, err := c.session.Handle(t.Context(), &protocol.Request{ID: protocol.IntID(1),
		Method: "tools/call", Params: []byte(`{"name":"close"}`)}, b); err != nil {
		t.Error(err)
	}
	if b.retry != time.Minute {
		t.Errorf("the client is to wait %v", b.retry)
	}
}
