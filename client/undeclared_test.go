package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// lists reads all four lists and returns how long each is, -1 for an error.
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

// listing answers the lists that a server has with one entry each; others it
// does not know.
func listing(has ...string) func(m oldMessage) string {
	return func(m oldMessage) string {
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

// What a legacy server does not declare is an empty list, for which nothing is
// sent; what it declares and does not have is an error, templates aside.
func TestListsThatALegacyServerDoesNotDeclare(t *testing.T) {
	for _, test := range []struct {
		caps string
		has  []string
		want [4]int
		sent []string
	}{
		{`{"tools":{}}`, []string{"tools/list"}, [4]int{1, 0, 0, 0}, []string{"tools/list"}},
		{`{"prompts":{}}`, []string{"prompts/list"}, [4]int{0, 1, 0, 0}, []string{"prompts/list"}},
		{`{"resources":{}}`, []string{"resources/list"}, [4]int{0, 0, 1, 0}, []string{"resources/list", "resources/templates/list"}},
		{`{"resources":{}}`, []string{"resources/list", "resources/templates/list"}, [4]int{0, 0, 1, 1}, []string{"resources/list", "resources/templates/list"}},
		{`{"logging":{}}`, nil, [4]int{}, nil},
		{`{"tools":{},"prompts":{}}`, nil, [4]int{-1, -1, 0, 0}, []string{"tools/list", "prompts/list"}},
	} {
		for _, way := range []string{"lines", "get stream"} {
			t.Run(fmt.Sprintf("%s %v over %s", test.caps, test.has, way), func(t *testing.T) {
				s := &oldServer{caps: test.caps, handle: listing(test.has...)}
				c := s.reach(t, way, nil)
				if got := lists(t.Context(), c); got != test.want {
					t.Errorf("got %v, want %v", got, test.want)
				}
				sent := slices.DeleteFunc(s.methods(), func(m string) bool { return !strings.HasSuffix(m, "/list") })
				if !slices.Equal(sent, test.sent) {
					t.Errorf("sent %v, want %v", sent, test.sent)
				}
				for tool, err := range c.Tools(t.Context()) {
					if test.want[0] == 0 {
						t.Errorf("got tool %v, %v", tool, err)
					}
				}
			})
		}
	}
}

// A modern server is not asked for what it does not declare as long as its
// declaration is fresh. After that, and when it never was asked to declare
// anything, a refusal is an empty list if it does not declare the list.
func TestListsThatAModernServerDoesNotDeclare(t *testing.T) {
	serve := func(caps, hints string, knows bool) *fakePeer {
		return answering(func(req *protocol.Request) (*protocol.Response, error) {
			body := map[string]string{
				"server/discover": `"supportedVersions":["2026-07-28"],"capabilities":` + caps + hints,
				"tools/list":      `"tools":[{"name":"t","inputSchema":{"type":"object"}}]`,
			}[req.Method]
			if body == "" || req.Method == "tools/list" && !knows {
				return &protocol.Response{ID: req.ID, Error: protocol.Errorf(protocol.CodeMethodNotFound, "m")}, nil
			}
			return &protocol.Response{ID: req.ID, Result: json.RawMessage(`{"resultType":"complete",` + body + `}`)}, nil
		})
	}
	for _, test := range []struct {
		name     string
		peer     *fakePeer
		discover bool
		want     [4]int
		sent     string
	}{
		{"fresh", serve(`{"tools":{}}`, minute, true), true, [4]int{1, 0, 0, 0}, "server/discover tools/list"},
		{"not fresh", serve(`{"tools":{}}`, "", true), true, [4]int{1, 0, 0, 0},
			"server/discover tools/list prompts/list server/discover resources/list resources/templates/list"},
		{"never asked", serve(`{"tools":{}}`, "", true), false, [4]int{1, 0, 0, 0},
			"tools/list prompts/list server/discover resources/list resources/templates/list"},
		{"declared and not known", serve(`{"tools":{},"prompts":{}}`, minute, false), true, [4]int{-1, -1, 0, 0}, "server/discover tools/list prompts/list"},
		{"not declared and known", serve(`{}`, "", true), false, [4]int{1, 0, 0, 0},
			"tools/list prompts/list server/discover resources/list resources/templates/list"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newClient(t, test.peer, nil)
			if test.discover {
				if _, err := c.Discover(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if got := lists(t.Context(), c); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
			if got := methods(test.peer); got != test.sent {
				t.Errorf("sent %s, want %s", got, test.sent)
			}
		})
	}
}
