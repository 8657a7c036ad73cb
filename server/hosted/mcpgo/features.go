package mcpgo

import (
	"maps"
	"slices"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// The type features has session data for mcp-go, from server.SessionWithTools to
// SessionWithResourceSubscriptions. The embedded in-process session may ask in any revision.
type features struct {
	*server.InProcessSession

	mu        sync.Mutex
	tools     map[string]server.ServerTool
	resources map[string]server.ServerResource
	templates map[string]server.ServerResourceTemplate
	uris      map[string]struct{}
}

// Initialize makes handlers send all log messages: rondo's server drops unwanted ones.
func (f *features) Initialize() {
	f.InProcessSession.Initialize()
	f.SetLogLevel(mcp.LoggingLevelDebug)
}

func (f *features) GetSessionTools() map[string]server.ServerTool {
	return readMap(f, &f.tools)
}

func (f *features) SetSessionTools(tools map[string]server.ServerTool) {
	writeMap(f, &f.tools, tools)
}

func (f *features) GetSessionResources() map[string]server.ServerResource {
	return readMap(f, &f.resources)
}

func (f *features) SetSessionResources(resources map[string]server.ServerResource) {
	writeMap(f, &f.resources, resources)
}

func (f *features) GetSessionResourceTemplates() map[string]server.ServerResourceTemplate {
	return readMap(f, &f.templates)
}

func (f *features) SetSessionResourceTemplates(to map[string]server.ServerResourceTemplate) {
	writeMap(f, &f.templates, to)
}

func (f *features) SubscribeToResource(uri string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.uris[uri] = struct{}{}
}

func (f *features) UnsubscribeFromResource(uri string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.uris, uri)
}

func (f *features) SubscribedResources() []string {
	return slices.Sorted(maps.Keys(readMap(f, &f.uris)))
}

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
