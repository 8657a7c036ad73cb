package server

import (
	"maps"
	"slices"

	"github.com/rondo-mcp/rondo/protocol"
)

// A Catalog holds tools, prompts, resources and templates for requests whose [Request].Catalogs
// include it, in addition to the server's own. Methods may be called concurrently.
type Catalog struct {
	server     *Server
	subscribed func() // may be nil

	tools     registry[*tool]
	prompts   registry[*prompt]
	resources registry[*resource]
	templates registry[*template]
}

// A Registrar accepts definitions: a [*Server] or a [*Catalog].
type Registrar interface{ registrations() *Catalog }

func (s *Server) registrations() *Catalog  { return &s.own }
func (c *Catalog) registrations() *Catalog { return c }

// NewCatalog returns an empty catalog. Registering a name again replaces the definition atomically.
// subscribed, which may be nil, is called when subscriptions to its resources may have changed; it
// must not block or call the server. Declare what only catalogs have in Options.Capabilities.
func (s *Server) NewCatalog(subscribed func()) *Catalog {
	c := &Catalog{subscribed: subscribed}
	c.initCatalog(s)
	return c
}

func (c *Catalog) initCatalog(s *Server) {
	c.server = s
	c.tools.initRegistry(c, protocol.MethodListTools, renderTools)
	c.prompts.initRegistry(c, protocol.MethodListPrompts, renderPrompts)
	c.resources.initRegistry(c, protocol.MethodListResources, renderResources)
	c.templates.initRegistry(c, protocol.MethodListResourceTemplates, renderTemplates)
}

// Remove removes the definition of that kind with a name, URI or template, and reports whether it
// existed. Running calls go on.
func (c *Catalog) Remove(kind Kind, name string) bool {
	switch kind {
	case KindTool:
		return c.tools.removeEntry(name)
	case KindPrompt:
		return c.prompts.removeEntry(name)
	case KindResource:
		return c.resources.removeEntry(name)
	}
	return c.templates.removeEntry(name)
}

// ResourceUpdated is [Server.ResourceUpdated] for clients that see the catalog.
func (c *Catalog) ResourceUpdated(uri string) { c.server.hub.noteResourceUpdated(c, uri) }

// SubscribedResources returns, sorted, the URIs to which clients that see the catalog are
// subscribed. The catalog need not have the resources.
func (c *Catalog) SubscribedResources() []string {
	uris := map[string]bool{}
	c.server.hub.forEach(func(sub *subscriber) {
		if sub.sees(c) {
			for uri := range sub.resources {
				uris[uri] = true
			}
		}
	})
	return slices.Sorted(maps.Keys(uris))
}

// Watched reports whether any session or subscription sees the catalog.
func (c *Catalog) Watched() (watched bool) {
	c.server.hub.forEach(func(sub *subscriber) { watched = watched || sub.sees(c) })
	return watched
}

func toolsOf(c *Catalog) *registry[*tool]         { return &c.tools }
func promptsOf(c *Catalog) *registry[*prompt]     { return &c.prompts }
func resourcesOf(c *Catalog) *registry[*resource] { return &c.resources }
func templatesOf(c *Catalog) *registry[*template] { return &c.templates }

// find returns the definition registered under key, if the request may see it.
func find[E entry](s *Server, request *Request, kind Kind,
	of func(*Catalog) *registry[E], key string) (e E, ok bool) {
	for _, c := range request.Catalogs {
		if e, ok = of(c).loadSnapshot().index[key]; ok {
			break
		}
	}
	if !ok {
		e, ok = of(&s.own).loadSnapshot().index[key]
	}
	return e, ok && s.isVisible(request.Principal, kind, key)
}

// snapshotFor returns the definitions of one kind that the request sees.
func snapshotFor[E entry](
	s *Server, request *Request, of func(*Catalog) *registry[E],
) *snapshot[E] {
	own := of(&s.own).loadSnapshot()
	if len(request.Catalogs) == 0 {
		return own
	}
	all := &snapshot[E]{render: own.render, size: own.size}
	for _, c := range request.Catalogs {
		all.entries = append(all.entries, of(c).loadSnapshot().entries...)
	}
	all.entries = append(all.entries, own.entries...)
	if s.opts.PageSize < 0 {
		all.size = max(len(all.entries), 1)
	}
	all.setCursors(request.Message.Method)
	return all
}
