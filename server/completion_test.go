package server_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// The function completing returns a server whose prompt p and template x:{id} have the completer c,
// and other definitions without one.
func completing(t *testing.T, opts *server.Options, c server.Completer) *harness {
	h := newHarness(t, opts)
	server.AddPrompt(h.Server, server.Prompt{Name: "p", Complete: c}, getNothing)
	server.AddResourceTemplate(h.Server,
		server.ResourceTemplate{URITemplate: "x:{id}", Name: "x", Complete: c}, readNothing)
	server.AddPrompt(h.Server, server.Prompt{Name: "plain"}, getNothing)
	server.AddResourceTemplate(h.Server, server.ResourceTemplate{URITemplate: "y:{id}", Name: "y"},
		readNothing)
	server.AddResource(h.Server, server.Resource{URI: "z:z", Name: "z"}, readNothing)
	return h
}

const (
	ofPrompt   = `"ref":{"type":"ref/prompt","name":"p"}`
	ofTemplate = `"ref":{"type":"ref/resource","uri":"x:{id}"}`
	typed      = `,"argument":{"name":"a","value":"v"}`
)

func TestCompletion(t *testing.T) {
	tests := []struct{ name, members, want string }{
		{"prompt", ofPrompt + typed, `{"values":["v1","v2"],"total":2`},
		{"template", ofTemplate + typed, `{"values":["v1","v2"],"total":2`},
		{"nothing typed", ofPrompt + `,"argument":{"name":"a","value":""}`,
			`{"values":["1","2"],"total":2`},
		{"known arguments", ofPrompt + typed + `,"context":{"arguments":{"b":"w"}}`,
			`{"values":["v1","v2","w"],"total":3`},
		{"prompt without suggestions", `"ref":{"type":"ref/prompt","name":"plain"}` + typed, `{"values":[]`},
		{"template without suggestions", `"ref":{"type":"ref/resource","uri":"y:{id}"}` + typed, `{"values":[]`},
		{"resource", `"ref":{"type":"ref/resource","uri":"z:z"}` + typed, `{"values":[]`},
	}
	h := completing(t, nil, func(_ context.Context, c *server.CompleteCall) ([]string, error) {
		if c.Argument != "a" || c.Version != protocol.V20260728 ||
			c.Principal != protocol.LocalPrincipal() {
			t.Errorf("call is %+v", c)
		}
		values := []string{c.Value + "1", c.Value + "2"}
		if b, ok := c.Known["b"]; ok {
			values = append(values, b)
		}
		return values, nil
	})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := h.send(protocol.MethodComplete, tt.members)
			wantPart(t, "the result", r.raw, `"completion":`+tt.want)
		})
	}
}

func TestCompletionIsCut(t *testing.T) {
	for _, n := range []int{0, 1, 100, 101, 1000} {
		h := completing(t, nil, func(context.Context, *server.CompleteCall) ([]string, error) {
			var values []string
			for i := range n {
				values = append(values, fmt.Sprint(i))
			}
			return values, nil
		})
		r := h.send(protocol.MethodComplete, ofPrompt+typed)
		values, _ := at(r.result, "completion", "values").([]any)
		if len(values) != min(n, 100) || at(r.result, "completion", "total") != float64(n) {
			t.Errorf("%d values: got %d of %v", n, len(values), at(r.result, "completion", "total"))
		}
		if more, _ := at(r.result, "completion", "hasMore").(bool); more != (n > 100) {
			t.Errorf("%d values: hasMore is %v", n, more)
		}
	}
}

func TestCompletionFails(t *testing.T) {
	never := func(context.Context, *server.CompleteCall) ([]string, error) {
		t.Error("the completer ran")
		return nil, nil
	}
	for _, tt := range []struct {
		name, members string
		code          int64
		word          string
	}{
		{"unknown prompt", `"ref":{"type":"ref/prompt","name":"q"}` + typed, protocol.CodeInvalidParams, "q"},
		{"unknown template", `"ref":{"type":"ref/resource","uri":"q:{id}"}` + typed, protocol.CodeInvalidParams, "q:{id}"},
		{"name of a template", `"ref":{"type":"ref/resource","uri":"x"}` + typed, protocol.CodeInvalidParams, "x"},
		{"prompt as a resource", `"ref":{"type":"ref/resource","uri":"p"}` + typed, protocol.CodeInvalidParams, "p"},
		{"unknown type", `"ref":{"type":"ref/tool","name":"p"}` + typed, protocol.CodeInvalidParams,
			"ref/tool"},
		{"no type", `"ref":{"name":"p"}` + typed, protocol.CodeInvalidParams, "ref"},
		{"no name", `"ref":{"type":"ref/prompt"}` + typed, protocol.CodeInvalidParams, "ref"},
		{"null", `"ref":null` + typed, protocol.CodeInvalidParams, "ref"},
		{"no ref", strings.TrimPrefix(typed, ","), protocol.CodeInvalidParams, "ref"},
		{"no argument", ofPrompt, protocol.CodeInvalidParams, "argument"},
		{"argument without name", ofPrompt + `,"argument":{"value":"v"}`,
			protocol.CodeInvalidParams, "argument"},
		{"value not a string", ofPrompt + `,"argument":{"name":"a","value":5}`,
			protocol.CodeInvalidParams, "argument"},
		{"context not an object", ofPrompt + typed + `,"context":[]`,
			protocol.CodeInvalidParams, "context"},
		{"known not strings", ofPrompt + typed + `,"context":{"arguments":{"b":1}}`,
			protocol.CodeInvalidParams, "arguments"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			completing(t, nil, never).send(protocol.MethodComplete, tt.members).refused(tt.code,
				tt.word)
		})
	}
	// Without a completer the method does not exist.
	h := newHarness(t, nil)
	server.AddPrompt(h.Server, server.Prompt{Name: "p"}, getNothing)
	h.send(protocol.MethodComplete, ofPrompt+typed).refused(protocol.CodeMethodNotFound,
		protocol.MethodComplete)
	if c := at(h.send(protocol.MethodDiscover, "").result, "capabilities",
		"completions"); c != nil {
		t.Errorf("completions are declared: %v", c)
	}
	h = completing(t, nil, never)
	if c := at(h.send(protocol.MethodDiscover, "").result, "capabilities",
		"completions"); !reflect.DeepEqual(c, map[string]any{}) {
		t.Errorf("completions are declared as %v, want {}", c)
	}
}

func TestCompleterMisbehaves(t *testing.T) {
	for _, tt := range []struct {
		name      string
		completer server.Completer
		code      int64
		word      string
	}{
		{"error", func(context.Context, *server.CompleteCall) ([]string, error) {
			return nil,
				errors.New("secret")
		}, protocol.CodeInternalError, ""},
		{"protocol error", func(context.Context, *server.CompleteCall) ([]string, error) {
			return nil, fmt.Errorf("wrapped: %w", protocol.Errorf(protocol.CodeBusy, "later"))
		}, protocol.CodeBusy, "later"},
		{"panic", func(context.Context, *server.CompleteCall) ([]string, error) { panic("secret") },
			protocol.CodeInternalError, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := completing(t, nil, tt.completer)
			r := h.send(protocol.MethodComplete, ofPrompt+typed)
			r.refused(tt.code, tt.word)
			wantNoPart(t, "the client learns of it", r.raw, "secret")
			if tt.code == protocol.CodeInternalError && !h.events.panicked() &&
				h.events.bugs() == "" {
				t.Error("the observer is not told")
			}
		})
	}
}
