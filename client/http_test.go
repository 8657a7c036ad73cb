package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// overHTTP serves a handler and returns a client of it, which asks it at once
// what it is asked, rather than what it speaks.
func overHTTP(t *testing.T, h http.Handler, transport *clienthttp.Options, opts *client.Options) *client.Client {
	t.Helper()
	modern := client.Options{}
	if opts != nil {
		modern = *opts
	}
	modern.Era, opts = protocol.Modern, &modern
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	tr, err := clienthttp.New(web.URL, transport)
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, tr, opts)
}

type query struct {
	Region string `json:"region"`
	Query  string `json:"query"`
}

// addSQL adds a tool whose region goes into a header.
func addSQL(s *server.Server) {
	server.AddTool(s, server.Tool{
		Name: "sql", Description: "asks a database",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"query":{"type":"string"}}}`),
	}, func(_ context.Context, _ *server.ToolCall, in query) (protocol.CallToolOutcome, error) {
		return server.Text(in.Region), nil
	})
}

func TestMirroredArgumentsOverHTTP(t *testing.T) {
	for _, region := range []string{"us-west1", "", "  é\n", "=?base64?eA==?="} {
		for _, listed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%q listed %v", region, listed), func(t *testing.T) {
				s := newServer(t, nil)
				addSQL(s)
				var seen []string
				inner := serverhttp.New(s, nil)
				c := overHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					seen = append(seen, fmt.Sprintf("%s %q", r.Header.Get("Mcp-Method"), r.Header.Values("Mcp-Param-Region")))
					inner.ServeHTTP(w, r)
				}), nil, nil)
				if listed {
					if _, err := c.ListTools(t.Context(), ""); err != nil {
						t.Fatal(err)
					}
				}
				for range 2 {
					r, err := c.CallTool(t.Context(), "sql", query{Region: region})
					if err != nil || r.Content[0].(*protocol.TextContent).Text != region {
						t.Fatalf("got %+v, %v", r, err)
					}
				}
				call := fmt.Sprintf("tools/call %q", []string{protocol.EncodeHeaderValue(region)})
				want := []string{"tools/list []", call, call}
				if !listed {
					want = append([]string{"tools/call []"}, want...)
				}
				if strings.Join(seen, ", ") != strings.Join(want, ", ") {
					t.Errorf("got %v, want %v", seen, want)
				}
			})
		}
	}
}

func TestIntegersThatNoHeaderCanCarry(t *testing.T) {
	peer := script(`{"tools":[{"name":"t","inputSchema":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}]}`, done)
	c := newClient(t, peer, nil)
	if _, err := c.ListTools(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	_, err := c.CallTool(t.Context(), "t", json.RawMessage(`{"n":9007199254740993}`))
	if err == nil || !strings.Contains(err.Error(), "argument n") || len(peer.requests()) != 1 {
		t.Errorf("got %v after %d requests", err, len(peer.requests()))
	}
}

// The first POST is refused, whatever it asks: the client must not give up.
func TestRefusedVersionOverHTTP(t *testing.T) {
	s := newServer(t, nil)
	addTool(s, "one")
	inner := serverhttp.New(s, nil)
	var posts atomic.Int32
	c := overHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if posts.Add(1) > 1 {
			inner.ServeHTTP(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		m, err := protocol.DecodeMessage(body)
		if err != nil {
			t.Error(err)
			return
		}
		refusal, _ := protocol.AppendMessage(nil, &protocol.Response{
			ID:    m.(*protocol.Request).ID,
			Error: protocol.UnsupportedVersion("2026-07-28", []protocol.Version{protocol.V20260728}),
		})
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write(refusal)
	}), nil, nil)
	for tool, err := range c.Tools(t.Context()) {
		if err != nil || tool.Name != "one" {
			t.Errorf("got %v, %v", tool.Name, err)
		}
	}
	if posts.Load() != 2 {
		t.Errorf("got %d requests, want 2", posts.Load())
	}
}

func TestListenOverHTTP(t *testing.T) {
	start := func(t *testing.T) (*server.Server, *client.Client, *httptest.Server) {
		s := newServer(t, nil)
		addTool(s, "one")
		web := httptest.NewServer(serverhttp.New(s, nil))
		t.Cleanup(web.Close)
		tr, err := clienthttp.New(web.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s, newClient(t, tr, nil), web
	}
	t.Run("events and a good end", func(t *testing.T) {
		s, c, _ := start(t)
		var got []string
		err := c.Listen(t.Context(), everything(), func(ctx context.Context, e client.Event) {
			got = append(got, fmt.Sprintf("%T", e))
			switch e.(type) {
			case client.Acknowledged:
				addTool(s, "two")
			case client.ToolsChanged:
				for tool, err := range c.Tools(ctx) {
					got = append(got, fmt.Sprint(tool.Name, err))
				}
				go func() { _ = s.Shutdown(context.Background()) }()
			}
		})
		if want := "client.Acknowledged client.ToolsChanged one<nil> two<nil>"; err != nil || strings.Join(got, " ") != want {
			t.Errorf("got %v, %v, want %s", got, err, want)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		_, c, _ := start(t)
		ctx, cancel := context.WithCancel(t.Context())
		err := c.Listen(ctx, everything(), func(context.Context, client.Event) { cancel() })
		if err != context.Canceled {
			t.Errorf("got %v", err)
		}
	})
	t.Run("lost", func(t *testing.T) {
		_, c, web := start(t)
		err := c.Listen(t.Context(), everything(), func(context.Context, client.Event) { web.CloseClientConnections() })
		if _, ok := errors.AsType[*client.TransportError](err); !ok {
			t.Errorf("got %v, want a transport error", err)
		}
	})
}

// Where credentials may differ from call to call, a private result is nobody's
// to reuse unless it is known whose it is.
func TestVaryingCredentialsKeepPrivateResultsOut(t *testing.T) {
	authorize := func(ctx context.Context) (http.Header, error) {
		user, _ := ctx.Value(userKey{}).(string)
		return http.Header{"Authorization": {"Bearer " + user}}, nil
	}
	user := func(ctx context.Context) string { name, _ := ctx.Value(userKey{}).(string); return name }
	cases := []struct {
		name, scope string
		transport   *clienthttp.Options
		opts        *client.Options
		want        string
	}{
		{"private", "private", &clienthttp.Options{Authorize: authorize}, nil, "ada bob ada bob 4"},
		{"partitioned", "private", &clienthttp.Options{Authorize: authorize}, &client.Options{Cache: &client.CacheOptions{Partition: user}}, "ada bob ada bob 2"},
		{"public", "public", &clienthttp.Options{Authorize: authorize}, nil, "ada ada ada ada 1"},
		{"fixed credentials", "private", &clienthttp.Options{Header: http.Header{"Authorization": {"Bearer eve"}}}, nil, "eve eve eve eve 1"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			n := 0
			c := overHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n++
				body, _ := io.ReadAll(r.Body)
				m, _ := protocol.DecodeMessage(body)
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"contents":[{"uri":"u:1","text":%q}],"ttlMs":60000,"cacheScope":%q}}`,
					m.(*protocol.Request).ID, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), tc.scope)
			}), tc.transport, tc.opts)
			var got []string
			for _, name := range []string{"ada", "bob", "ada", "bob"} {
				got = append(got, readText(context.WithValue(t.Context(), userKey{}, name), c))
			}
			if s := fmt.Sprint(strings.Join(got, " "), " ", n); s != tc.want {
				t.Errorf("got %s, want %s", s, tc.want)
			}
		})
	}
}
