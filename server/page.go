package server

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/rondo-mcp/rondo/protocol"
)

// A snapshot is the immutable state of a registry. Pages are encoded on demand.
type snapshot[E entry] struct {
	entries []E
	index   map[string]E
	render  func(entries []E, next string, cache protocol.CacheHints) protocol.Result
	size    int            // entries of a page
	cursors map[string]int // where the pages after the first begin, by cursor
	public  func() []*page
	private func() []*page
}

type page struct {
	result  protocol.Result
	encoded json.RawMessage
	err     error
}

func newSnapshotLocked[E entry](r *registry[E]) *snapshot[E] {
	s := &snapshot[E]{entries: slices.Clone(r.entries), index: maps.Clone(r.index),
		render: r.render}
	s.size = r.server.opts.PageSize
	if s.size < 0 {
		s.size = max(len(s.entries), 1)
	}
	s.setCursors(r.method)
	encoded := func(private bool) func() []*page {
		return sync.OnceValue(func() []*page {
			var pages []*page
			for at := 0; at == 0 || at < len(s.entries); at += s.size {
				entries, next := pageAt(s.entries, r.method, at, s.size)
				hints := r.server.listHints(private)
				p := &page{result: s.render(entries, next, hints)}
				p.encoded, p.err = r.encodePage(entries, next, hints)
				pages = append(pages, p)
			}
			return pages
		})
	}
	s.public, s.private = encoded(false), encoded(true)
	return s
}

func (s *snapshot[E]) setCursors(method string) {
	s.cursors = map[string]int{}
	for at := s.size; at < len(s.entries); at += s.size {
		s.cursors[newCursor(method, at)] = at
	}
}

// pageAt returns size entries starting at at, and the cursor of the next page.
func pageAt[E entry](all []E, method string, at, size int) (entries []E, next string) {
	end := min(at+size, len(all))
	if end < len(all) {
		next = newCursor(method, end)
	}
	return all[at:end], next
}

// newCursor returns the cursor of a page, the same on all replicas with the same list.
func newCursor(method string, at int) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s %d", method, at))
}

func definitionsOf[E, D any](entries []E, definition func(E) D) []D {
	list := make([]D, len(entries))
	for i, e := range entries {
		list[i] = definition(e)
	}
	return list
}

func (s *Server) answerList(request *Request, p *protocol.ListParams) (protocol.Result, error) {
	switch request.Message.Method {
	case protocol.MethodListTools:
		return listPage(s, request, KindTool, toolsOf, p.Cursor)
	case protocol.MethodListPrompts:
		return listPage(s, request, KindPrompt, promptsOf, p.Cursor)
	case protocol.MethodListResources:
		return listPage(s, request, KindResource, resourcesOf, p.Cursor)
	}
	return listPage(s, request, KindResourceTemplate, templatesOf, p.Cursor)
}

func newCursorError() *protocol.Error {
	return protocol.Errorf(protocol.CodeInvalidParams,
		"invalid params: cursor: does not lead to a page of this list; list again without it")
}

func listPage[E entry](s *Server, request *Request, kind Kind,
	of func(*Catalog) *registry[E], cursor string) (protocol.Result, error) {
	snap := snapshotFor(s, request, of)
	at, ok := snap.cursors[cursor]
	if !ok && cursor != "" {
		return nil, newCursorError()
	}
	method := request.Message.Method
	switch {
	case s.opts.Visible != nil:
		// Page anew: gaps in common pages would reveal how much is hidden.
		seen := slices.DeleteFunc(slices.Clone(snap.entries),
			func(e E) bool { return !s.isVisible(request.Principal, kind, e.entryKey()) })
		if at > 0 && at >= len(seen) {
			return nil, newCursorError()
		}
		entries, next := pageAt(seen, method, at, snap.size)
		return snap.render(entries, next, s.listHints(true)), nil
	case len(s.opts.Middleware) > 0: // only middleware may name catalogs
		// Middleware may filter the result, so nothing is shared.
		entries, next := pageAt(snap.entries, method, at, snap.size)
		return snap.render(entries, next, s.listHints(request.private)), nil
	}
	pages := snap.public
	if request.private {
		pages = snap.private
	}
	request.encodedPage = pages()[at/snap.size]
	return request.encodedPage.result, nil
}

func (s *Server) listHints(private bool) protocol.CacheHints {
	return protocol.CacheHints{TTLMillis: s.opts.ListTTL.Milliseconds(),
		Public: s.isPublic(private)}
}

// isPublic reports whether all callers get the same list.
func (s *Server) isPublic(private bool) bool {
	return !private && !s.opts.PrivateLists && s.opts.Visible == nil
}
