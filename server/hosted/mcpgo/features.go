package mcpgo

import (
	"maps"
	"slices"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// features are what mcp-go keeps in a session. It embeds mcp-go's own session for clients in the
// same process, which mcp-go lets ask whatever the revision.
type features struct {
	*server.InProcessSession

	mu        sync.Mutex
	tools     map[string]server.ServerTool
	resources map[string]server.ServerResource
	templates map[string]server.ServerResourceTemplate
	uris      map[string]struct{}
}

// Initialize implements [server.ClientSession]. Handlers send all log messages: rondo's server
// drops those that the client does not want.
func (f *features) Initialize() {
	f.InProcessSession.Initialize()
	f.SetLogLevel(mcp.LoggingLevelDebug)
}

// GetSessionTools implements [server.SessionWithTools].
func (f *features) GetSessionTools() map[string]server.ServerTool {
	return readMap(f, &f.tools)
}

// SetSessionTools implements [server.SessionWithTools].
func (f *features) SetSessionTools(tools map[string]server.ServerTool) {
	writeMap(f, &f.tools, tools)
}

// GetSessionResources implements [server.SessionWithResources].
func (f *features) GetSessionResources() map[string]server.ServerResource {
	return readMap(f, &f.resources)
}

// SetSessionResources implements [server.SessionWithResources].
func (f *features) SetSessionResources(resources map[string]server.ServerResource) {
	writeMap(f, &f.resources, resources)
}

// GetSessionResourceTemplates implements [server.SessionWithResourceTemplates].
func (f *features) GetSessionResourceTemplates() map[string]server.ServerResourceTemplate {
	return readMap(f, &f.templates)
}

// SetSessionResourceTemplates implements [server.SessionWithResourceTemplates].
func (f *features) SetSessionResourceTemplates(to map[string]server.ServerResourceTemplate) {
	writeMap(f, &f.templates, to)
}

// SubscribeToResource implements [server.SessionWithResourceSubscriptions].
func (f *features) SubscribeToResource(uri string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.uris[uri] = struct{}{}
}

// UnsubscribeFromResource implements [server.SessionWithResourceSubscriptions].
func (f *features) UnsubscribeFromResource(uri string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.uris, uri)
}

// SubscribedResources implements [server.SessionWithResourceSubscriptions].
func (f *features) SubscribedResources() []string {
	return slices.Sorted(maps.Keys(readMap(f, &f.uris)))
}

// IsSubscribedToResource implements [server.SessionWithResourceSubscriptions].
func (f *features) IsSubscribedToResource(uri string) bool {
	_, ok := readMap(f, &f.uris)[uri]
	return ok
}

func readMap[V any](f *features, m *map[string]V) map[string]V {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(*m)
}

func writeMap[V any](f *features, m *map[string]V, to map[string]V) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*m = maps.Clone(to)
}
