package skills

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

const (
	// pageEntries and pageBytes bound a page. An entry is never divided.
	pageEntries = 100
	pageBytes   = 512 << 10
)

// list answers skills/list.
func (c *catalog) list(_ context.Context, call *server.ExtensionCall) (protocol.Result, error) {
	var seen []item
	for _, s := range c.skills {
		if s.visible(call) {
			seen = append(seen, item{s.uri, s.entry})
		}
	}
	return answerPage(call, "skills", seen)
}

// get answers skills/get.
func (c *catalog) get(_ context.Context, call *server.ExtensionCall) (protocol.Result, error) {
	uri, err := uriOf(call)
	if err != nil {
		return nil, err
	}
	for _, s := range c.skills {
		if s.uri == uri && s.visible(call) {
			return answer(call, map[string]any{"skill": s.entry})
		}
	}
	return nil, protocol.ResourceNotFound(uri)
}

// visible reports whether the caller may see a skill, that is all of its files.
func (s *skill) visible(call *server.ExtensionCall) bool {
	return !slices.ContainsFunc(s.files,
		func(f fileEntry) bool { return !call.SeesResource(f.URI) })
}

// readDirectory answers resources/directory/read. A folder is there where the caller sees a file
// in it.
func (c *catalog) readDirectory(_ context.Context, call *server.ExtensionCall) (
	protocol.Result, error) {
	uri, err := uriOf(call)
	if err != nil {
		return nil, err
	}
	var seen []item
	if c.isWithinSkill(uri) {
		if seen, err = c.children(call, uri+"/"); err != nil {
			return nil, err
		}
	}
	if len(seen) == 0 {
		return nil, protocol.ResourceNotFound(uri)
	}
	return answerPage(call, "resources", seen)
}

// children returns what is directly in a folder, whose URI ends with a slash.
func (c *catalog) children(call *server.ExtensionCall, folder string) ([]item, error) {
	var seen []item
	last := ""
	at, _ := slices.BinarySearchFunc(c.files, folder,
		func(f *file, uri string) int { return strings.Compare(f.entry.URI, uri) })
	for _, f := range c.files[at:] {
		rest, within := strings.CutPrefix(f.entry.URI, folder)
		if !within {
			break
		}
		name, _, isFolder := strings.Cut(rest, "/")
		if !call.SeesResource(f.entry.URI) || isFolder && name == last {
			continue
		}
		r := f.resource()
		listed := map[string]any{"uri": r.URI, "name": r.Name, "mimeType": r.MIMEType,
			"size": *r.Size}
		if r.Description != "" {
			listed["description"] = r.Description
		}
		if isFolder {
			last = name
			depth := strings.Count(folder, "/") - strings.Count(scheme, "/")
			listed = map[string]any{"uri": folder + name, "mimeType": "inode/directory",
				"name": strings.Split(f.name, "/")[depth]}
		}
		encoded, err := json.Marshal(listed)
		if err != nil {
			return nil, err
		}
		seen = append(seen, item{folder + name, encoded})
	}
	return seen, nil
}

// isWithinSkill reports whether a URI is that of a skill's folder, or below.
func (c *catalog) isWithinSkill(uri string) bool {
	return slices.ContainsFunc(c.skills, func(s *skill) bool {
		root := strings.TrimSuffix(s.uri, "/"+manifest)
		return uri == root || strings.HasPrefix(uri, root+"/")
	})
}

// An item is one entry of a list.
type item struct {
	uri     string
	encoded json.RawMessage
}

// answerPage answers with the page that the cursor leads to. A cursor names the last item of the
// page before, so that any replica understands it.
func answerPage(call *server.ExtensionCall, member string, all []item) (protocol.Result, error) {
	cursor, present, err := paramsOf(call).Text("cursor")
	if err != nil {
		return nil, err
	}
	if present {
		last, err := base64.RawURLEncoding.DecodeString(cursor)
		at := slices.IndexFunc(all, func(i item) bool { return i.uri == string(last) })
		if err != nil || at < 0 {
			return nil, protocol.Errorf(protocol.CodeInvalidParams, "invalid params: cursor: "+
				"does not lead to a page of this list; list again without it")
		}
		all = all[at+1:]
	}
	page := []json.RawMessage{}
	size := 0
	for _, i := range all {
		if size += len(i.encoded); len(page) == pageEntries || len(page) > 0 && size > pageBytes {
			break
		}
		page = append(page, i.encoded)
	}
	members := map[string]any{member: page}
	if len(page) < len(all) {
		members["nextCursor"] = base64.RawURLEncoding.EncodeToString([]byte(all[len(page)-1].uri))
	}
	return answer(call, members)
}

// answer answers with the hints for caches that lists have.
func answer(call *server.ExtensionCall, members map[string]any) (protocol.Result, error) {
	cache := call.ListCache()
	members["ttlMs"], members["cacheScope"] = cache.TTLMillis, cache.Scope
	encoded, err := json.Marshal(members)
	return &protocol.ExtensionResult{Members: encoded}, err
}

func paramsOf(call *server.ExtensionCall) *protocol.ExtensionParams {
	return call.Params.(*protocol.ExtensionParams)
}

func uriOf(call *server.ExtensionCall) (string, error) {
	uri, present, err := paramsOf(call).Text("uri")
	if err == nil && !present {
		err = protocol.Errorf(protocol.CodeInvalidParams, "invalid params: uri: is missing")
	}
	return uri, err
}
