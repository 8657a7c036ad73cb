package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

func tells(name string) server.ResourceHandler {
	return func(_ context.Context, c *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
		return &protocol.ReadResourceResult{
			Contents: []protocol.ResourceContents{{Text: fmt.Sprint(name, c.Variables)}}}, nil
	}
}

func (h *harness) readURI(uri string) reply {
	h.Helper()
	return h.send(protocol.MethodReadResource, fmt.Sprintf(`"uri":%q`, uri))
}

func TestResources(t *testing.T) {
	h := newHarness(t, nil)
	server.AddResourceTemplate(h.Server,
		server.ResourceTemplate{URITemplate: "file:///{name}.txt", Name: "text"}, tells("text"))
	server.AddResourceTemplate(h.Server,
		server.ResourceTemplate{URITemplate: "file:///{+path}", Name: "any"}, tells("any"))
	server.AddResourceTemplate(h.Server,
		server.ResourceTemplate{URITemplate: "db:{table}/{id}?q={+q}", Name: "row"}, tells("row"))
	server.AddResource(h.Server, server.Resource{URI: "file:///readme.txt", Name: "readme"},
		tells("readme"))
	tests := []struct{ uri, want string }{
		{"file:///readme.txt", "readmemap[]"},
		{"file:///other.txt", "textmap[name:other]"},
		{"file:///a.b.txt", "textmap[name:a.b]"},
		{"file:///a%20b.txt", "textmap[name:a b]"},
		{"file:///a%2Fb.txt", "textmap[name:a/b]"},
		{"file:///ü.txt", "textmap[name:ü]"},
		{"file:///a/b.txt", "anymap[path:a/b.txt]"},
		{"file:///../etc/passwd", "anymap[path:../etc/passwd]"},
		{"file:///a\nb", "anymap[path:a\nb]"},
		{"file:///a.txt.bak", "anymap[path:a.txt.bak]"},
		{"file:///", ""},
		{"file:///%zz.txt", ""},
		{"file:///%ff.txt", ""},
		{"FILE:///readme.txt", ""},
		{"xfile:///readme.txt", ""},
		{"db:users/7?q=a=b&c", "rowmap[id:7 q:a=b&c table:users]"},
		{"db:users/7", ""},
		{"db:users/7/8?q=1", ""},
	}
	for _, tt := range tests {
		t.Run(tt.uri, func(t *testing.T) {
			r := h.readURI(tt.uri)
			if tt.want == "" {
				r.refused(protocol.CodeInvalidParams, "resource not found")
				return
			}
			list, _ := r.result["contents"].([]any)
			if len(list) != 1 || at(list[0], "text") != tt.want || at(list[0], "uri") != tt.uri {
				t.Errorf("%q: result is %s, want %q", tt.uri, r.raw, tt.want)
			}
		})
	}
	wantEqual(t, "data", string(h.readURI("nowhere:").err.Data), `{"uri":"nowhere:"}`)
}

func TestResourceResults(t *testing.T) {
	h := newHarness(t, nil)
	shared := &protocol.ReadResourceResult{Contents: []protocol.ResourceContents{{Text: "a"},
		{URI: "other:", Blob: []byte{0}}}}
	add := func(uri string, result protocol.ReadResourceOutcome, err error) {
		server.AddResource(h.Server, server.Resource{URI: uri, Name: uri},
			func(context.Context, *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
				return result, err
			})
	}
	add("x:", shared, nil)
	add("cached:", &protocol.ReadResourceResult{Cache: protocol.CacheHints{TTLMillis: 5,
		Public: true}}, nil)
	add("gone:", nil, protocol.ResourceNotFound("gone:"))
	add("legacy:", nil, protocol.Errorf(protocol.CodeResourceNotFound, "gone"))
	add("broken:", nil, fmt.Errorf("disk on fire"))
	add("nil:", nil, nil)
	add("typed-nil:", (*protocol.ReadResourceResult)(nil), nil)
	r := h.readURI("x:")
	if r.result["ttlMs"] != 0.0 || r.result["cacheScope"] != "private" {
		t.Errorf("hints are %v %v, want none, private", r.result["ttlMs"], r.result["cacheScope"])
	}
	wantPart(t, "contents are", r.raw, `{"uri":"x:","text":"a"},{"uri":"other:","blob":"AA=="}`)
	wantEqual(t, "URI in the author's result", shared.Contents[0].URI, "")
	if r = h.readURI("cached:"); r.result["ttlMs"] != 5.0 || r.result["cacheScope"] != "public" ||
		!strings.Contains(r.raw, `"contents":[]`) {
		t.Errorf("result is %s", r.raw)
	}
	h.readURI("gone:").refused(protocol.CodeInvalidParams, "gone:")
	h.readURI("legacy:").refused(protocol.CodeInvalidParams, "gone")
	h.readURI("broken:").refused(protocol.CodeHandlerError, "disk on fire")
	h.readURI("nil:").refused(protocol.CodeInternalError)
	h.readURI("typed-nil:").refused(protocol.CodeInternalError)
}

func TestBadResources(t *testing.T) {
	s := newHarness(t, nil).Server
	wantPanic(t, "name", func() { server.AddResource(s, server.Resource{URI: "x:"}, readNothing) })
	wantPanic(t, "name", func() { server.AddResource(s, server.Resource{Name: "x"}, readNothing) })
	wantPanic(t, "scheme", func() {
		server.AddResource(s, server.Resource{URI: "no uri", Name: "x"}, readNothing)
	})
	wantPanic(t, "handler", func() {
		server.AddResource(s, server.Resource{URI: "x:", Name: "x"}, nil)
	})
	for template, word := range map[string]string{
		"":             "must be valid",
		"x:":           "no expression",
		"x:{":          "{ without }",
		"x:}":          "} without {",
		"x:{a}}":       "} without {",
		"x:{}":         "{}",
		"x:{a}{a}":     "twice",
		"x:{/a*}":      "{/a*}",
		"x:{?a,b}":     "{?a,b}",
		"x:{#a}":       "{#a}",
		"x:{a:3}":      "{a:3}",
		"x:{a,b}":      "{a,b}",
		"x:{+}":        "{+}",
		"x:{a..b}":     "{a..b}",
		"x:{a b}":      "{a b}",
		"x:{a}\xff{b}": "must be valid",
	} {
		wantPanic(t, word, func() {
			server.AddResourceTemplate(s, server.ResourceTemplate{URITemplate: template, Name: "x"},
				readNothing)
		})
		wantPanic(t, "resource template", func() {
			server.AddResourceTemplate(s, server.ResourceTemplate{URITemplate: template, Name: "x"},
				readNothing)
		})
	}
}

func TestLongURIsMatchNoTemplate(t *testing.T) {
	h := newHarness(t, nil)
	server.AddResourceTemplate(h.Server,
		server.ResourceTemplate{URITemplate: "x:{+rest}", Name: "x"},
		func(_ context.Context, call *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
			return &protocol.ReadResourceResult{
				Contents: []protocol.ResourceContents{{Text: "read"}}}, nil
		})
	read := func(length int) reply {
		return h.send(protocol.MethodReadResource,
			fmt.Sprintf(`"uri":"x:%s"`, strings.Repeat("a", length-2)))
	}
	if r := read(16 << 10); r.err != nil {
		t.Errorf("16 KiB: %s", r.raw)
	}
	read(16<<10+1).refused(protocol.CodeInvalidParams, "not found")
}
