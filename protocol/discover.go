package protocol

// DiscoverParams are the parameters of server/discover.
type DiscoverParams struct{ RequestMeta }

// DiscoverResult tells a client what a server is and can do (server/discover).
type DiscoverResult struct {
	SupportedVersions []Version
	Capabilities      ServerCapabilities
	// Instructions tell a model how to use the server; empty: none.
	Instructions string
	Cache        CacheHints
	// Meta holds the server's name under [MetaServerInfo].
	Meta Meta
}

// ServerInfo returns the server's self-reported name, nil when it gives none.
func (r *DiscoverResult) ServerInfo() *Implementation { return serverInfo(r.Meta) }

func serverInfo(m Meta) *Implementation {
	raw, ok := m.Get(MetaServerInfo)
	if !ok {
		return nil
	}
	info, err := decodeImplementation(raw)
	if err != nil {
		return nil
	}
	return info
}
