package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

const pageEntries = 50 // entries per page of a list

func (c *catalog) list(_ context.Context, call *server.ExtensionCall) (protocol.Result, error) {
	var seen []item
	for _, s := range c.skills {
		if s.visible(call) {
			seen = append(seen, item{s.URI, s})
		}
	}
	return answerPage(call, "skills", seen)
}

func (c *catalog) get(_ context.Context, call *server.ExtensionCall) (protocol.Result, error) {
	uri, err := uriOf(call)
	if err != nil {
		return nil, err
	}
	for _, s := range c.skills {
		if s.URI == uri && s.visible(call) {
			return answer(call, map[string]any{"skill": s})
		}
	}
	return nil, protocol.ResourceNotFound(uri)
}

func (s *skill) visible(call *server.ExtensionCall) bool {
	return !slices.ContainsFunc(s.Resources,
		func(f *file) bool { return !call.SeesResource(f.URI) })
}

// readDirectory answers with a folder's direct entries, if the caller sees a file in the folder.
func (c *catalog) readDirectory(_ context.Context, call *server.ExtensionCall) (
	protocol.Result, error) {
	uri, err := uriOf(call)
	if err != nil {
		return nil, err
	}
	if !c.isWithinSkill(uri) {
		return nil, protocol.ResourceNotFound(uri)
	}
	var seen []item
	for _, f := range c.files {
		rest, within := strings.CutPrefix(f.URI, uri+"/")
		if !within || !call.SeesResource(f.URI) {
			continue
		}
		name, _, isFolder := strings.Cut(rest, "/")
		r := f.resource()
		listed := map[string]any{"uri": r.URI, "name": r.Name, "mimeType": r.MIMEType,
			"size": *r.Size}
		if r.Description != "" {
			listed["description"] = r.Description
		}
		if isFolder {
			depth := strings.Count(uri, "/") + 1 - strings.Count(scheme, "/")
			listed = map[string]any{"uri": uri + "/" + name, "mimeType": "inode/directory",
				"name": strings.Split(f.name, "/")[depth]}
		}
		i := item{uri + "/" + name, listed}
		if len(seen) == 0 || seen[len(seen)-1].uri != i.uri {
			seen = append(seen, i)
		}
	}
	if len(seen) == 0 {
		return nil, protocol.ResourceNotFound(uri)
	}
	return answerPage(call, "resources", seen)
}

type item struct {
	uri   string
	entry any
}

// answerPage returns one page. The cursor names the last item before it, so any replica reads it.
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
	page := []any{}
	for _, i := range all[:min(len(all), pageEntries)] {
		page = append(page, i.entry)
	}
	members := map[string]any{member: page}
	if len(page) < len(all) {
		last := all[len(page)-1].uri
		members["nextCursor"] = base64.RawURLEncoding.EncodeToString([]byte(last))
	}
	return answer(call, members)
}

func answer(call *server.ExtensionCall, members map[string]any) (protocol.Result, error) {
	cache := call.ListCache()
	members["ttlMs"], members["cacheScope"] = cache.TTLMillis, "private"
	if cache.Public {
		members["cacheScope"] = "public"
	}
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
