package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
)

// hinted answers every cacheable method with the given hints. Its results
// contain the number of the request.
func hinted(hints string) *fakePeer {
	var n atomic.Int32
	return answering(func(req *protocol.Request) (*protocol.Response, error) {
		name := fmt.Sprintf("n%d", n.Add(1))
		result := map[string]string{
			protocol.MethodDiscover: `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{},"resources":{}},"instructions":"` + name + `"`,
			protocol.MethodListTools: `"tools":[{"name":"` + name +
				`","inputSchema":{"type":"object"}}]`,
			protocol.MethodListPrompts: `"prompts":[{"name":"` + name + `"}]`,
			protocol.MethodListResources: `"resources":[{"uri":"u:1","name":"` +
				name + `"}]`,
			protocol.MethodListResourceTemplates: `"resourceTemplates":[{"uriTemplate":"u:{x}","name":"` + name + `"}]`,
			protocol.MethodReadResource: `"contents":[{"uri":"u:1","text":"` +
				name + `"}]`,
			protocol.MethodCallTool:  `"content":[{"type":"text","text":"` + name + `"}]`,
			protocol.MethodGetPrompt: `"messages":[{"role":"user","content":{"type":"text","text":"` + name + `"}}]`,
			protocol.MethodComplete:  `"completion":{"values":["` + name + `"]}`,
		}[req.Method]
		return &protocol.Response{
			ID: req.ID, Result: json.RawMessage(`{"resultType":"complete",` + result + hints + `}`),
		}, nil
	})
}

const minute = `,"ttlMs":60000,"cacheScope":"private"`

// readText reads u:1 and returns its text, or the error's.
func readText(ctx context.Context, c *client.Client) string {
	r, err := c.ReadResource(ctx, "u:1")
	if err != nil {
		return err.Error()
	}
	return r.Contents[0].Text
}

// cacheable has a call of every method whose results may be kept. Each returns
// the identity of the result.
var cacheable = []struct {
	method string
	call   func(context.Context, *client.Client) (string, error)
}{
	{protocol.MethodDiscover, func(ctx context.Context, c *client.Client) (string, error) {
		r, err := c.Discover(ctx)
		if err != nil {
			return "", err
		}
		return r.Instructions, nil
	}},
	{protocol.MethodListTools, func(ctx context.Context, c *client.Client) (string, error) {
		r, err := c.ListTools(ctx, "")
		if err != nil {
			return "", err
		}
		return r.Tools[0].Name, nil
	}},
	{protocol.MethodListPrompts, func(ctx context.Context, c *client.Client) (string, error) {
		r, err := c.ListPrompts(ctx, "")
		if err != nil {
			return "", err
		}
		return r.Prompts[0].Name, nil
	}},
	{protocol.MethodListResources, func(ctx context.Context, c *client.Client) (string, error) {
		r, err := c.ListResources(ctx, "")
		if err != nil {
			return "", err
		}
		return r.Resources[0].Name, nil
	}},
	{protocol.MethodListResourceTemplates,
		func(ctx context.Context, c *client.Client) (string, error) {
			r, err := c.ListResourceTemplates(ctx, "")
			if err != nil {
				return "", err
			}
			return r.ResourceTemplates[0].Name, nil
		}},
	{protocol.MethodReadResource, func(ctx context.Context, c *client.Client) (string, error) {
		return readText(ctx, c), nil
	}},
}

func TestCacheHonoursTTL(t *testing.T) {
	for _, m := range cacheable {
		t.Run(m.method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, hinted(minute), nil)
				var got []string
				for _, wait := range []time.Duration{0, 0, 59 * time.Second, 999 * time.Millisecond,
					time.Millisecond, 0} {
					time.Sleep(wait)
					name, err := m.call(t.Context(), c)
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, name)
				}
				if want := "n1 n1 n1 n1 n2 n2"; strings.Join(got, " ") != want {
					t.Errorf("got %v, want %s", got, want)
				}
			})
		})
	}
}

func TestCacheHints(t *testing.T) {
	cases := []struct {
		name, hints string
		after       time.Duration
		want        string
	}{
		{"fresh", minute, time.Second, "n1"},
		{"public", `,"ttlMs":60000,"cacheScope":"public"`, time.Second, "n1"},
		{"no scope", `,"ttlMs":60000`, time.Second, "n1"},
		{"unknown scope", `,"ttlMs":60000,"cacheScope":"galaxy"`, time.Second, "n1"},
		{"zero", `,"ttlMs":0,"cacheScope":"public"`, 0, "n2"},
		{"negative", `,"ttlMs":-1,"cacheScope":"public"`, 0, "n2"},
		{"absent", ``, 0, "n2"},
		{"not a number", `,"ttlMs":"60000","cacheScope":"public"`, 0, "n2"},
		{"fraction", `,"ttlMs":0.5,"cacheScope":"public"`, 0, "n2"},
		{
			"huge, just before the cap", `,"ttlMs":9223372036854775807`,
			(24 * time.Hour) - time.Millisecond, "n1",
		},
		{"huge, at the cap", `,"ttlMs":9223372036854775807`, (24 * time.Hour), "n2"},
		{"overflowing nanoseconds", `,"ttlMs":9223372036855`, time.Hour, "n1"},
		{"beyond int64", `,"ttlMs":1e30`, 0, "n2"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, hinted(tc.hints), nil)
				readText(t.Context(), c)
				time.Sleep(tc.after)
				if got := readText(t.Context(), c); got != tc.want {
					t.Errorf("got %s, want %s", got, tc.want)
				}
			})
		})
	}
}

func TestCacheReportsWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, hinted(minute), nil)
		for _, want := range []int64{60000, 45000} {
			r, err := c.ReadResource(t.Context(), "u:1")
			if err != nil || r.Cache.TTLMillis != want {
				t.Errorf("got %+v, %v, want %d ms", r, err, want)
			}
			time.Sleep(15 * time.Second)
		}
	})
}

func TestOtherResultsAreNotKept(t *testing.T) {
	c := newClient(t, hinted(minute), nil)
	calls := map[string]func(context.Context) error{
		"tool": func(ctx context.Context) error {
			_, err := c.CallTool(ctx, "t", nil)
			return err
		},
		"prompt": func(ctx context.Context) error {
			_, err := c.GetPrompt(ctx, "p", nil)
			return err
		},
		"complete": func(ctx context.Context) error {
			p := &protocol.CompleteParams{
				Ref:      protocol.CompletionRef{Prompt: "p"},
				Argument: protocol.CompletionArgument{Name: "a"},
			}
			_, err := c.Complete(ctx, p)
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			peer := hinted(minute)
			c = newClient(t, peer, nil)
			for range 2 {
				if err := call(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if n := len(peer.requests()); n != 2 {
				t.Errorf("got %d requests, want 2", n)
			}
		})
	}
}

func TestCacheKeys(t *testing.T) {
	read := func(uri string, change func(*protocol.ReadResourceParams)) func(context.Context,
		*client.Client) error {
		return func(ctx context.Context, c *client.Client) error {
			p := &protocol.ReadResourceParams{URI: uri}
			if change != nil {
				change(p)
			}
			_, err := c.ReadResourceParams(ctx, p)
			return err
		}
	}
	list := func(cursor string) func(context.Context, *client.Client) error {
		return func(ctx context.Context, c *client.Client) error {
			_, err := c.ListResources(ctx, cursor)
			return err
		}
	}
	templates := func(ctx context.Context, c *client.Client) error {
		_, err := c.ListResourceTemplates(ctx, "")
		return err
	}
	meta := func(text string) func(*protocol.ReadResourceParams) {
		return func(p *protocol.ReadResourceParams) { p.Extra = protocol.Meta(text) }
	}
	cases := []struct {
		name          string
		first, second func(context.Context, *client.Client) error
		requests      int
	}{
		{"same URI", read("u:1", nil), read("u:1", nil), 1},
		{"other URI", read("u:1", nil), read("u:2", nil), 2},
		{"URIs that differ in case", read("u:a", nil), read("u:A", nil), 2},
		{"same cursor", list("a"), list("a"), 1},
		{"other cursor", list(""), list("a"), 2},
		{"other method", list(""), templates, 2},
		{"cursor like a URI", list("u:1"), read("u:1", nil), 2},
		{"trace context", read("u:1", nil), read("u:1", meta(`{"traceparent":"00-1"}`)), 1},
		{"other metadata", read("u:1", nil), read("u:1", meta(`{"com.example/tenant":"b"}`)), 2},
		{"other metadata first", read("u:1", meta(`{"com.example/tenant":"b"}`)),
			read("u:1", nil), 2},
		{
			"state", read("u:1", nil),
			read("u:1", func(p *protocol.ReadResourceParams) {
				p.RequestState = protocol.StateText("")
			}), 2,
		},
		{
			"state first",
			read("u:1", func(p *protocol.ReadResourceParams) {
				p.RequestState = protocol.StateText("s")
			}),
			read("u:1", nil), 2,
		},
		{
			"answers", read("u:1", nil),
			read(
				"u:1", func(p *protocol.ReadResourceParams) {
					p.InputResponses = protocol.InputResponses{}
				},
			),
			2,
		},
		{
			"progress token", read("u:1", nil),
			read("u:1", func(p *protocol.ReadResourceParams) {
				p.ProgressToken = protocol.StringID("p")
			}),
			1,
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			peer := hinted(minute)
			c := newClient(t, peer, nil)
			if err := errors.Join(tc.first(t.Context(), c), tc.second(t.Context(), c)); err != nil {
				t.Fatal(err)
			}
			if n := len(peer.requests()); n != tc.requests {
				t.Errorf("got %d requests, want %d", n, tc.requests)
			}
		})
	}
}

// A read that took questions depends on more than its URI.
func TestRetriedReadIsNotKeptForLater(t *testing.T) {
	content := `{"resultType":"complete","contents":[{"uri":"u:1","text":"for Ada only"}],"ttlMs":60000,"cacheScope":"public"}`
	for name, interim := range map[string]string{
		"answers": ask(`"inputRequests":{"who":` + nameForm +
			`},"ttlMs":60000,"cacheScope":"public"`),
		"state": ask(`"requestState":"s","ttlMs":60000,"cacheScope":"public"`),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				peer := script(interim, content, interim, content)
				c := newClient(t, peer, &client.Options{ElicitForm: acceptName})
				for range 2 {
					if got := readText(t.Context(), c); got != "for Ada only" {
						t.Errorf("got %s", got)
					}
				}
				if n := len(peer.requests()); n != 4 {
					t.Errorf("got %d requests, want 4", n)
				}
			})
		})
	}
}

func TestWithRefresh(t *testing.T) {
	c := newClient(t, hinted(minute), nil)
	refresh := client.WithRefresh(t.Context())
	var got []string
	for _, ctx := range []context.Context{t.Context(), refresh, t.Context()} {
		got = append(got, readText(ctx, c))
	}
	if want := "n1 n2 n2"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestCacheDisabled(t *testing.T) {
	c := newClient(t, hinted(minute), &client.Options{Cache: &client.CacheOptions{Disabled: true}})
	if got := readText(t.Context(), c) + readText(t.Context(), c); got != "n1n2" {
		t.Errorf("got %s, want n1n2", got)
	}
	if _, err := c.ListTools(t.Context(), "gone"); err != nil {
		t.Error(err)
	}
}

func TestCacheIsBounded(t *testing.T) {
	long := strings.Repeat("x", 600) // takes about 1000 bytes with its result
	count := func(t *testing.T, opts *client.CacheOptions, uris ...string) int {
		peer := hinted(minute)
		c := newClient(t, peer, &client.Options{Cache: opts})
		for _, uri := range uris {
			uri += long
			if _, err := c.ReadResource(t.Context(), uri); err != nil {
				t.Fatal(err)
			}
		}
		return len(peer.requests())
	}
	cases := []struct {
		name string
		opts client.CacheOptions
		uris string
		want int
	}{
		{"all fit", client.CacheOptions{MaxBytes: 2500}, "a b a b", 2},
		{"the oldest goes", client.CacheOptions{MaxBytes: 2500}, "a b c a", 4},
		{"use counts", client.CacheOptions{MaxBytes: 2500}, "a b a c a", 3},
		{"too large alone", client.CacheOptions{MaxBytes: 300}, "a a", 2},
		{"no limit", client.CacheOptions{MaxBytes: -1}, "a b c a b c", 3},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if got := count(t, &tc.opts, strings.Fields(tc.uris)...); got != tc.want {
				t.Errorf("got %d requests, want %d", got, tc.want)
			}
		})
	}
}

type userKey struct{}

func TestCachePartitions(t *testing.T) {
	user := func(ctx context.Context) string {
		name,
			_ := ctx.Value(userKey{}).(string)
		return name
	}
	for scope, want := range map[string]string{"private": "n1 n2 n1 n2", "public": "n1 n1 n1 n1"} {
		t.Run(scope, func(t *testing.T) {
			c := newClient(t, hinted(`,"ttlMs":60000,"cacheScope":"`+scope+`"`), &client.Options{
				Cache: &client.CacheOptions{Partition: user},
			})
			var got []string
			for _, name := range []string{"ada", "bob", "ada", "bob"} {
				got = append(got, readText(context.WithValue(t.Context(), userKey{}, name), c))
			}
			if strings.Join(got, " ") != want {
				t.Errorf("got %v, want %s", got, want)
			}
		})
	}
}

// If credentials may vary from call to call, a private result must not be
// reused without a partition.
func TestVaryingCredentialsKeepPrivateResultsOut(t *testing.T) {
	authorize := func(ctx context.Context) (http.Header, error) {
		user, _ := ctx.Value(userKey{}).(string)
		return http.Header{"Authorization": {"Bearer " + user}}, nil
	}
	user := func(ctx context.Context) string {
		name,
			_ := ctx.Value(userKey{}).(string)
		return name
	}
	cases := []struct {
		name, scope string
		transport   *clienthttp.Options
		opts        *client.Options
		want        string
	}{
		{"private", "private", &clienthttp.Options{Authorize: authorize}, nil, "ada bob ada bob 4"},
		{
			"partitioned", "private", &clienthttp.Options{Authorize: authorize},
			&client.Options{Cache: &client.CacheOptions{Partition: user}}, "ada bob ada bob 2",
		},
		{"public", "public", &clienthttp.Options{Authorize: authorize}, nil, "ada ada ada ada 1"},
		{
			"fixed credentials", "private",
			&clienthttp.Options{Header: http.Header{"Authorization": {"Bearer eve"}}}, nil,
			"eve eve eve eve 1",
		},
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
					m.(*protocol.Request).ID, strings.TrimPrefix(r.Header.Get("Authorization"),
						"Bearer "), tc.scope)
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

func TestCachedResultsAreNotShared(t *testing.T) {
	peer := script(
		`{"tools":[{"name":"a","inputSchema":{"type":"object"}},{"name":"b","inputSchema":{"type":"object"}}],"ttlMs":60000,"_meta":{"k":"v"}}`,
	)
	c := newClient(t, peer, nil)
	for i := range 3 {
		r, err := c.ListTools(t.Context(), "")
		if err != nil || len(r.Tools) != 2 || r.Tools[0].Name != "a" ||
			string(r.Tools[0].InputSchema) != `{"type":"object"}` || string(r.Meta) != `{"k":"v"}` {
			t.Fatalf("%d: got %+v, %v", i, r, err)
		}
		copy(r.Tools[0].InputSchema, `{"evil":"yes!!!"}`)
		copy(r.Meta, `{"k":"w"}`)
		r.Tools[0].Name, r.Tools = "changed", r.Tools[:1]
	}
	if n := len(peer.requests()); n != 1 {
		t.Errorf("got %d requests, want 1", n)
	}
}

func TestClosedClientAnswersNothing(t *testing.T) {
	c, err := client.New(hinted(minute), nil)
	if err != nil {
		t.Fatal(err)
	}
	readText(t.Context(), c)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReadResource(t.Context(), "u:1"); !errors.Is(err, client.ErrClosed) {
		t.Errorf("got %v, want %v", err, client.ErrClosed)
	}
}

func TestInvalidCursorDropsThePages(t *testing.T) {
	peer := answering(func(req *protocol.Request) (*protocol.Response, error) {
		if member(t, req, "cursor") == `"2"` {
			return &protocol.Response{
				ID: req.ID, Error: protocol.Errorf(protocol.CodeInvalidParams, "cursor"),
			}, nil
		}
		return &protocol.Response{
			ID: req.ID, Result: json.RawMessage(`{"prompts":[],"nextCursor":"2","ttlMs":60000}`),
		}, nil
	})
	c := newClient(t, peer, nil)
	for range 2 {
		for _, err := range c.Prompts(t.Context()) {
			if e, ok := protocol.AsError(err); !ok || e.Code != protocol.CodeInvalidParams {
				t.Errorf("got %v", err)
			}
		}
	}
	if got := methods(peer); got != "prompts/list prompts/list prompts/list prompts/list" {
		t.Errorf("got %s, want the first page read again", got)
	}
}

// A refused call shows that the cached tool list is out of date, even if it is
// still fresh.
func TestRelearningPassesTheCache(t *testing.T) {
	lists := 0
	peer := answering(func(req *protocol.Request) (*protocol.Response, error) {
		resp := &protocol.Response{ID: req.ID}
		switch {
		case req.Method == protocol.MethodListTools:
			lists++
			header := map[int]string{1: "Old"}[lists]
			if header == "" {
				header = "New"
			}
			resp.Result = json.RawMessage(
				`{"tools":[{"name":"sql","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"` + header + `"}}}}],"ttlMs":60000}`,
			)
		case req.Mirror.Params[0].Name == "New":
			resp.Result = json.RawMessage(done)
		default:
			resp.Error = protocol.Errorf(protocol.CodeHeaderMismatch, "Mcp-Param-New is missing")
		}
		return resp, nil
	})
	c := newClient(t, peer, nil)
	if _, err := c.ListTools(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	r, err := c.CallTool(t.Context(), "sql", map[string]any{"region": "us"})
	wantDone(t, r, err)
	if _, err := c.ListTools(t.Context(), ""); err != nil || lists != 3 {
		t.Errorf("got %v and %d lists, want what was cached dropped", err, lists)
	}
}

func BenchmarkCachedList(b *testing.B) {
	var tools []string
	for i := range 50 {
		tools = append(
			tools,
			fmt.Sprintf(
				`{"name":"tool%d","description":"does something useful","inputSchema":{"type":"object","properties":{"a":{"type":"string"}}}}`,
				i,
			),
		)
	}
	c, err := client.New(script(`{"tools":[`+strings.Join(tools, ",")+`],"ttlMs":3600000}`), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.ListTools(b.Context(), ""); err != nil {
			b.Fatal(err)
		}
	}
}
