package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rondo-mcp/rondo/protocol"
)

// A registry holds the entries of one list, in the order of registration. Requests read an
// immutable snapshot, which the first request after a change builds.
type registry[E entry] struct {
	catalog *Catalog
	server  *Server
	method  string // of the list
	render  func(entries []E, next string, cache protocol.CacheHints) protocol.Result

	mu      sync.Mutex
	entries []E
	index   map[string]E
	used    atomic.Bool // something was registered once
	current atomic.Pointer[snapshot[E]]
}

type entry interface {
	comparable
	entryKey() string
}

func (r *registry[E]) initRegistry(c *Catalog, method string,
	render func([]E, string, protocol.CacheHints) protocol.Result) {
	r.catalog, r.server, r.method, r.render = c, c.server, method, render
	r.index = map[string]E{}
}

// addEntry registers e. It fails if e cannot be encoded, which would break lists, or if its key is
// taken in the server's own catalog; in other catalogs e replaces the old entry.
func (r *registry[E]) addEntry(e E) error {
	if _, err := r.encodePage([]E{e}, "", protocol.CacheHints{}); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch old, taken := r.index[e.entryKey()]; {
	case !taken:
		r.entries = append(r.entries, e)
	case r.catalog == &r.server.own:
		return fmt.Errorf("is registered already; remove it first")
	default:
		r.entries[slices.Index(r.entries, old)] = e
	}
	r.index[e.entryKey()] = e
	r.used.Store(true)
	r.current.Store(nil)
	r.server.hub.noteListChanged(r.catalog, r.method)
	return nil
}

// removeEntry reports whether there was an entry under key.
func (r *registry[E]) removeEntry(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.index[key]
	if !ok {
		return false
	}
	delete(r.index, key)
	r.entries = slices.DeleteFunc(r.entries, func(other E) bool { return other == e })
	r.current.Store(nil)
	r.server.hub.noteListChanged(r.catalog, r.method)
	return true
}

func (r *registry[E]) loadSnapshot() *snapshot[E] {
	if s := r.current.Load(); s != nil {
		return s
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.current.Load(); s != nil {
		return s
	}
	s := newSnapshotLocked(r)
	r.current.Store(s)
	return s
}

func (r *registry[E]) encodePage(entries []E, next string,
	cache protocol.CacheHints) (json.RawMessage, error) {
	return protocol.AppendResult(nil, protocol.Latest, r.method, r.render(entries, next, cache),
		r.server.name)
}
