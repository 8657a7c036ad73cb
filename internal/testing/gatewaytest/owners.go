package gatewaytest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
)

// AcceptOwners holds that who knows the id of another user's session, and authenticates as
// somebody else, can do nothing with it: above all not answer.
func AcceptOwners(t *testing.T, build Build, owner, other http.Header) {
	router := newRouter(t, nil)
	url := serve(t, build, router, &Backend{Upstream: NewUpstream(t)})
	alice := Connect(t, url, forms, `"result":`+because, owner)
	stream := alice.StartCall(t, ToolAsk, plain)
	defer stream.Close()
	question := stream.WaitForQuestion(t)
	mallory := alice.As(other)
	for name, message := range map[string]struct{ method, body string }{
		"answer": {http.MethodPost,
			fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"decline"}}`, question.ID)},
		"call": {http.MethodPost, `{"jsonrpc":"2.0","id":77,"method":"tools/call",` +
			`"params":{"name":"` + ToolAsk + `","arguments":{}}}`},
		"cancellation": {http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0",`+
			`"method":"notifications/cancelled","params":{"requestId":%d}}`, stream.id)},
		"stream": {http.MethodGet, ""},
		"delete": {http.MethodDelete, ""},
	} {
		response := mallory.send(t, message.method, "%s", message.body)
		response.Body.Close()
		if response.StatusCode != http.StatusForbidden {
			t.Errorf("%s: mallory gets %d", name, response.StatusCode)
		}
	}
	expectPending(t, router, 1) // alice's
	alice.Send(t, question)
	if got := stream.Result(t); got != because {
		t.Errorf("the upstream reads %s, want %s", got, because)
	}
	if got := alice.Delete(t); got >= http.StatusMultipleChoices {
		t.Errorf("alice gets %d", got)
	}
}

// AcceptPerPrincipal holds that what a server asks over lines, after the end of one user's call, is
// not put to another whose call is in flight, where each principal has a key.
func AcceptPerPrincipal(t *testing.T, build Build) {
	router, up := newRouter(t, nil), NewUpstream(t)
	url := serve(t, build, router, &Backend{Upstream: up, Lines: true,
		Key: func(_ context.Context, who protocol.Principal) (string, error) {
			return who.Subject, nil
		}})
	alice := Connect(t, url, forms, `"result":`+because, As("alice"))
	bob := Connect(t, url, forms, `"result":`+because, As("bob"))
	alice.Call(t, ToolPlain, plain)
	askLate := up.lateAsker()
	stream := bob.StartCall(t, ToolAsk, plain)
	defer stream.Close()
	question := stream.WaitForQuestion(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	const want = `{"code":-32601,"message":"No client session available"}`
	if got := askLate(ctx, plain); !matchesJSON(got, want) {
		t.Errorf("the late question gets %s, want %s", got, want)
	}
	bob.Send(t, question)
	if got := stream.Result(t); got != because {
		t.Errorf("bob's upstream reads %s", got)
	}
	if got := alice.Call(t, ToolAsk, plain); got != because {
		t.Errorf("alice's upstream reads %s", got)
	}
}

// AcceptAbandoned holds that a question about a call whose client has given it up ends, and that
// what the upstream asks about it afterwards is not put to the next client on the connection.
func AcceptAbandoned(t *testing.T, build Gateway) {
	for _, mode := range []Mode{SharedHTTP, TurnsLines} {
		t.Run(string(mode), func(t *testing.T) {
			core, logs := observer.New(zap.DebugLevel)
			router, up := newRouter(t,
				&elicitation.Options{Log: zaplog.New(zap.New(core))}), NewUpstream(t)
			url := build(t, router, up, mode)
			alice := Connect(t, url, forms, "", nil)
			bob := Connect(t, url, forms, `"result":`+because, nil)
			stream := alice.StartCall(t, ToolAsk, plain)
			defer stream.Close()
			stream.WaitForQuestion(t)
			askLate := up.lateAsker()
			alice.cancel(t, stream.id)
			result := make(chan string, 1)
			go func() { result <- bob.Call(t, ToolWait, plain) }()
			up.steps <- struct{}{}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			const want = `{"code":-32601,"message":"No client session available"}`
			if got := askLate(ctx, plain); !matchesJSON(got, want) {
				t.Errorf("the late question gets %s, want %s", got, want)
			}
			for logs.FilterMessage("elicitation.cancelled").Len() == 0 && ctx.Err() == nil {
				runtime.Gosched()
			}
			if logs.FilterMessage("elicitation.cancelled").Len() != 1 ||
				logs.FilterMessage("elicitation.delivered").Len() != 0 {
				t.Errorf("logged %v", logs.All())
			}
			up.steps <- struct{}{}
			if got := <-result; got != "done" {
				t.Errorf("bob gets %s", got)
			}
			expectPending(t, router, 0)
		})
	}
}

// AcceptKeys holds that sessions upstream are shared by callers with equal keys alone, that all
// requests on one have the credentials of its key, the lists those of the gateway, and that a
// caller without a key does not reach the upstream.
func AcceptKeys(t *testing.T, build Build) {
	up := NewLibrary(t)
	var mu sync.Mutex
	keys, callers := map[string]string{}, map[string]string{} // by session; sessions by text
	up.Intercept = func(_ http.ResponseWriter, r *http.Request, m *Message) bool {
		mu.Lock()
		defer mu.Unlock()
		session, key := r.Header.Get("Mcp-Session-Id"), r.Header.Get(keyHeader)
		if known, ok := keys[session]; ok && session != "" && known != key {
			t.Errorf("%s has the credentials of %q and of %q", m.Method, known, key)
		}
		keys[session] = key
		if m.Method == "tools/call" {
			callers[key] += session + " "
		}
		if strings.HasSuffix(m.Method, "/list") && key != "gateway" {
			t.Errorf("%s has the credentials of %q", m.Method, key)
		}
		return false
	}
	teams := map[string]string{"": "gateway", "ann": "team", "bob": "team", "carol": "carol"}
	url := serve(t, build, newRouter(t, nil), &Backend{Upstream: up, Publish: true,
		Key: func(_ context.Context, who protocol.Principal) (string, error) {
			if key, ok := teams[who.Subject]; ok {
				return key, nil
			}
			return "", errors.New("who is that?")
		}})
	for _, user := range []string{"ann", "bob", "carol", "ann"} {
		c := Connect(t, url, forms, `"result":`+because, As(user))
		if got := c.Call(t, "up_ask", plain); got != because {
			t.Errorf("%s: got %s", user, got)
		}
	}
	c := Connect(t, url, forms, "", As("mallory"))
	if got := c.Call(t, "up_ask", plain); !strings.Contains(got, "no credentials") {
		t.Errorf("mallory: got %s", got)
	}
	mu.Lock()
	defer mu.Unlock()
	team, carol := strings.Fields(callers["team"]), strings.Fields(callers["carol"])
	if len(callers) != 2 || len(team) != 3 || len(slices.Compact(team)) != 1 || len(carol) != 1 ||
		team[0] == carol[0] {
		t.Errorf("sessions by key: %q", callers)
	}
}
