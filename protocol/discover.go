package protocol

import (
	"fmt"
)

// DiscoverResult describes a server to its clients (server/discover).
type DiscoverResult struct {
	SupportedVersions []Version
	Capabilities      ServerCapabilities
	Instructions      string // for the model; may be empty
	Cache             CacheHints
	Meta              Meta // [MetaServerInfo] holds the server's name
}

// ServerInfo returns the server's self-reported name, nil if absent or unreadable.
func (r *DiscoverResult) ServerInfo() *Implementation { return serverInfo(r.Meta) }

func serverInfo(m Meta) *Implementation {
	info := &Implementation{}
	raw, ok := m.Get(MetaServerInfo)
	if !ok || readObject(raw, info, nil) != nil {
		return nil
	}
	return info
}

func (r *DiscoverResult) checkComplete() error {
	if len(r.SupportedVersions) == 0 {
		return fmt.Errorf("supportedVersions: must be present")
	}
	return nil
}

func (r *DiscoverResult) codeMembers(w *objectWriter, m member) error {
	return firstError(
		w.codeValue(m, "supportedVersions", &r.SupportedVersions, true),
		w.codeServerCapabilities(m, &r.Capabilities),
		w.codeNonEmptyText(m, "instructions", &r.Instructions),
		w.codeHints(m, &r.Cache),
		w.codeMeta(m, &r.Meta))
}
