package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

func TestIteratorsWalkAllPages(t *testing.T) {
	s := newServer(t, &server.Options{PageSize: 3})
	for i := range 7 {
		name := fmt.Sprintf("n%d", i)
		addTool(s, name)
		server.AddPrompt(s, server.Prompt{Name: name, Description: name}, neverPrompt)
		server.AddResource(s, server.Resource{URI: "x:" + name, Name: name}, neverResource)
		server.AddResourceTemplate(s,
			server.ResourceTemplate{URITemplate: "x:" + name + "/{id}", Name: name}, neverResource)
	}
	c := newClient(t, s, nil)
	var got []string
	note := func(name string, err error) {
		noError(t, err)
		got = append(got, name)
	}
	for tool, err := range c.Tools(t.Context()) {
		note(tool.Name, err)
	}
	for prompt, err := range c.Prompts(t.Context()) {
		note(prompt.Name, err)
	}
	for resource, err := range c.Resources(t.Context()) {
		note(resource.Name, err)
	}
	for template, err := range c.ResourceTemplates(t.Context()) {
		note(template.Name, err)
	}
	want := strings.TrimSpace(strings.Repeat("n0 n1 n2 n3 n4 n5 n6 ", 4))
	wantEqual(t, "list", strings.Join(got, " "), want)
}

func neverPrompt(context.Context, *server.PromptCall) (protocol.GetPromptOutcome, error) {
	return nil, errors.New("not called")
}

func neverResource(context.Context, *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
	return nil, errors.New("not called")
}

// The function endless answers tools/list with one tool and a cursor derived from the request's.
func endless(t *testing.T, next func(cursor string) string) *fakePeer {
	return answering(func(req *protocol.Request) (response, error) {
		var cursor string
		if raw := member(t, req, "cursor"); raw != "" {
			noError(t, json.Unmarshal([]byte(raw), &cursor))
		}
		return reply(req,
			fmt.Sprintf(`{"tools":[{"name":"t","inputSchema":{"type":"object"}}],"nextCursor":%q}`, next(cursor)))
	})
}

func TestEndlessLists(t *testing.T) {
	cases := []struct {
		name  string
		next  func(string) string
		tools int
		text  string
	}{
		{"same cursor", func(string) string { return "a" }, 2, `cursor "a" twice`},
		{"always another", func(c string) string { return c + "x" }, 1000, "more than 1000 pages"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			peer := endless(t, c.next)
			tools, failed := 0, error(nil)
			for _, err := range newClient(t, peer, nil).Tools(t.Context()) {
				if failed != nil {
					t.Fatal("something came after the error")
				}
				if failed = err; err == nil {
					tools++
				}
			}
			wantError(t, failed, "client: tools/list: ", c.text)
			if tools != c.tools || len(peer.requests()) != c.tools {
				t.Errorf("got %v after %d tools and %d requests, want %d", failed, tools,
					len(peer.requests()), c.tools)
			}
		})
	}
}

func TestIteratorStopsWhenTheLoopDoes(t *testing.T) {
	peer := endless(t, func(c string) string { return c + "x" })
	c := newClient(t, peer, nil)
	for range c.Tools(t.Context()) {
		break
	}
	wantEqual(t, "requests", len(peer.requests()), 1)
}

func TestIteratorReportsErrors(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	var failed error
	for _, err := range newClient(t, endless(t, func(c string) string { return c + "x" }),
		nil).Tools(ctx) {
		n++
		if failed = err; n == 2 {
			cancel()
		}
	}
	if !errors.Is(failed, context.Canceled) || n != 3 {
		t.Errorf("got %v at %d", failed, n)
	}
}

// A malformed result that is read in spite of its faults is reported once, in both eras.
func TestMalformedPartsAreReported(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 61) + "1" + strings.Repeat("}", 61)
	results := map[string]string{
		"server/discover": `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`,
		"tools/list": `{"tools":[{"name":"bad"},{"name":"good","inputSchema":{}},null,` +
			`{"name":"deep","description":"\ud800","inputSchema":` + deep + `}]}`,
		"tools/call": `{"content":[{"type":"text"},{"type":"x","a":` + deep + `}]}`,
	}
	modern := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		noError(t, err)
		m, err := protocol.DecodeMessage(body)
		noError(t, err)
		req := m.(*protocol.Request)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, req.ID, results[req.Method])
	})
	answer := func(legacyMessage, pusher) string { return results["tools/call"] }
	session := &legacyServer{caps: `{"tools":{}}`, call: answer}
	session.handle = func(m legacyMessage) string {
		if m.Method != "tools/list" {
			return ""
		}
		return `"result":` + results[m.Method]
	}
	for era, dial := range map[string]func(*client.Options) *client.Client{
		"modern": func(opts *client.Options) *client.Client {
			return newClient(t, dialHTTP(t, modern, nil), opts)
		},
		"legacy": func(opts *client.Options) *client.Client {
			opts.Era = protocol.Legacy
			return session.reach(t, "lines", opts)
		},
	} {
		var reports []string
		c := dial(&client.Options{Warn: func(_ context.Context, err error) {
			reports = append(reports, err.Error())
		}})
		tools, err := c.ListTools(t.Context(), "")
		if err != nil || len(tools.Tools) != 1 || tools.Tools[0].Name != "good" {
			t.Errorf("%s: got %+v, %v", era, tools, err)
		}
		result, err := c.CallTool(t.Context(), "good", nil)
		if err != nil || len(result.Content) != 1 {
			t.Errorf("%s: got %+v, %v", era, result, err)
		}
		want := []string{"client: tools/list: tools: 3 entries are left out; the first is [0]: " +
			"inputSchema: must be an object",
			"client: tools/call: content: a block of text without text is read as empty",
			"client: tools/call: content: 1 entries are left out; " +
				"the first is [1]: nests too deep"}
		if !slices.Equal(reports, want) {
			t.Errorf("%s: reported %q, want %q", era, reports, want)
		}
	}
}

// The function lists reads all four lists and returns their lengths, -1 for an error.
func lists(ctx context.Context, c *client.Client) (n [4]int) {
	tools, err := c.ListTools(ctx, "")
	n[0] = length(err, func() int { return len(tools.Tools) })
	prompts, err := c.ListPrompts(ctx, "")
	n[1] = length(err, func() int { return len(prompts.Prompts) })
	resources, err := c.ListResources(ctx, "")
	n[2] = length(err, func() int { return len(resources.Resources) })
	templates, err := c.ListResourceTemplates(ctx, "")
	n[3] = length(err, func() int { return len(templates.ResourceTemplates) })
	return n
}

func length(err error, of func() int) int {
	if err != nil {
		return -1
	}
	return of()
}

// The function listing answers the list methods in has with one entry each, and no others.
func listing(has ...string) func(m legacyMessage) string {
	return func(m legacyMessage) string {
		body := map[string]string{
			"tools/list":               `"tools":[{"name":"t","inputSchema":{"type":"object"}}]`,
			"prompts/list":             `"prompts":[{"name":"p"}]`,
			"resources/list":           `"resources":[{"uri":"u:1","name":"r"}]`,
			"resources/templates/list": `"resourceTemplates":[{"uriTemplate":"u:{x}","name":"x"}]`,
		}[m.Method]
		switch {
		case body == "":
			return ""
		case slices.Contains(has, m.Method):
			return `"result":{` + body + `}`
		}
		return `"error":{"code":-32601,"message":"Method not found"}`
	}
}

// A legacy server's list that is not declared is empty, and no request is sent. A list that is
// declared but missing is an error, except for templates.
func TestListsThatALegacyServerDoesNotDeclare(t *testing.T) {
	for _, test := range []struct {
		caps string
		has  []string
		want [4]int
		sent []string
	}{
		{`{"tools":{}}`, []string{"tools/list"}, [4]int{1, 0, 0, 0}, []string{"tools/list"}},
		{`{"prompts":{}}`, []string{"prompts/list"}, [4]int{0, 1, 0, 0}, []string{"prompts/list"}},
		{`{"resources":{}}`, []string{"resources/list"}, [4]int{0, 0, 1, 0},
			[]string{"resources/list", "resources/templates/list"}},
		{`{"resources":{}}`, []string{"resources/list", "resources/templates/list"},
			[4]int{0, 0, 1, 1},
			[]string{"resources/list", "resources/templates/list"}},
		{`{"logging":{}}`, nil, [4]int{}, nil},
		{`{"tools":{},"prompts":{}}`, nil, [4]int{-1, -1, 0, 0},
			[]string{"tools/list", "prompts/list"}},
	} {
		for _, way := range []string{"lines", "get stream"} {
			t.Run(fmt.Sprintf("%s %v over %s", test.caps, test.has, way), func(t *testing.T) {
				s := &legacyServer{caps: test.caps, handle: listing(test.has...)}
				c := s.reach(t, way, nil)
				wantEqual(t, "lengths of the lists", lists(t.Context(), c), test.want)
				sent := slices.DeleteFunc(s.methods(),
					func(m string) bool { return !strings.HasSuffix(m, "/list") })
				wantEqual(t, "sent", fmt.Sprint(sent), fmt.Sprint(test.sent))
				for tool, err := range c.Tools(t.Context()) {
					if test.want[0] == 0 {
						t.Errorf("got tool %v, %v", tool, err)
					}
				}
			})
		}
	}
}

// A modern server is asked for every list. A refused list is empty if it is undeclared.
func TestListsThatAModernServerDoesNotDeclare(t *testing.T) {
	serve := func(caps string, knows bool) *fakePeer {
		return answering(func(req *protocol.Request) (response, error) {
			body := map[string]string{
				"server/discover": `"supportedVersions":["2026-07-28"],"capabilities":` + caps,
				"tools/list":      `"tools":[{"name":"t","inputSchema":{"type":"object"}}]`,
			}[req.Method]
			if body == "" || req.Method == "tools/list" && !knows {
				return refuse(req, protocol.Errorf(protocol.CodeMethodNotFound, "m"))
			}
			return reply(req, `{"resultType":"complete",`+body+`}`)
		})
	}
	for _, test := range []struct {
		name     string
		peer     *fakePeer
		discover bool
		want     [4]int
		sent     string
	}{
		{"asked by the caller", serve(`{"tools":{}}`, true), true, [4]int{1, 0, 0, 0},
			"server/discover tools/list prompts/list server/discover resources/list " +
				"resources/templates/list"},
		{"never asked", serve(`{"tools":{}}`, true), false, [4]int{1, 0, 0, 0},
			"tools/list prompts/list server/discover resources/list resources/templates/list"},
		{"declared and not known", serve(`{"tools":{},"prompts":{}}`, false), false,
			[4]int{-1, -1, 0, 0}, "tools/list server/discover prompts/list resources/list " +
				"resources/templates/list"},
		{"not declared and known", serve(`{}`, true), false, [4]int{1, 0, 0, 0},
			"tools/list prompts/list server/discover resources/list resources/templates/list"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newClient(t, test.peer, nil)
			if test.discover {
				_, err := c.Discover(t.Context())
				noError(t, err)
			}
			wantEqual(t, "lengths of the lists", lists(t.Context(), c), test.want)
			wantEqual(t, "sent", methods(test.peer), test.sent)
		})
	}
}

// A result's hints reach the caller unchanged, and no result is reused.
func TestCacheHintsReachTheCaller(t *testing.T) {
	hints := func(ms int64, public bool) protocol.CacheHints {
		return protocol.CacheHints{TTLMillis: ms, Public: public}
	}
	for _, test := range []struct {
		sent string
		want protocol.CacheHints
	}{
		{`,"ttlMs":60000,"cacheScope":"private"`, hints(60_000, false)},
		{`,"ttlMs":60000,"cacheScope":"public"`, hints(60_000, true)},
		{`,"ttlMs":9223372036854775807,"cacheScope":"private"`,
			hints(math.MaxInt64, false)},
		{`,"ttlMs":60000,"cacheScope":"galaxy"`, hints(60_000, false)},
		{`,"ttlMs":-1,"cacheScope":"public"`, hints(0, true)},
		{`,"ttlMs":"60000","cacheScope":"public"`, hints(0, true)},
		{``, hints(0, false)},
	} {
		t.Run(test.sent, func(t *testing.T) {
			peer := script(`{"resultType":"complete","tools":[],"prompts":[],"resources":[],` +
				`"resourceTemplates":[],"contents":[],"supportedVersions":["2026-07-28"],` +
				`"capabilities":{}` + test.sent + `}`)
			c := newClient(t, peer, nil)
			for range 2 {
				discovered, err1 := c.Discover(t.Context())
				tools, err2 := c.ListTools(t.Context(), "")
				prompts, err3 := c.ListPrompts(t.Context(), "")
				resources, err4 := c.ListResources(t.Context(), "")
				templates, err5 := c.ListResourceTemplates(t.Context(), "")
				read, err6 := c.ReadResource(t.Context(), "u:1")
				noError(t, errors.Join(err1, err2, err3, err4, err5, err6))
				for i, got := range []protocol.CacheHints{discovered.Cache, tools.Cache,
					prompts.Cache, resources.Cache, templates.Cache, read.Cache} {
					wantEqual(t, fmt.Sprint(i), got, test.want)
				}
			}
			wantEqual(t, "requests", len(peer.requests()), 12)
		})
	}
}
