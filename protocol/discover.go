package protocol

import (
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

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

func (r *DiscoverResult) appendMembers(w *objectWriter, v Version) {
	w.addValue("supportedVersions", orEmpty(r.SupportedVersions))
	w.addValue("capabilities", r.Capabilities)
	w.addNonEmptyText("instructions", r.Instructions)
	if v.Era() == Modern {
		r.Cache.appendHints(w)
	}
	w.addRawObject("_meta", r.Meta)
}

func decodeDiscover(data []byte) (Result, error) {
	r := &DiscoverResult{}
	err := decodeCacheable(data, "supportedVersions", func(raw []byte) error {
		return jsonx.Decode(raw, &r.SupportedVersions)
	}, nil, &r.Cache, &r.Meta)
	if err != nil {
		return nil, err
	}
	err = readMembers(data, func(key, value []byte) error {
		switch string(key) {
		case "capabilities":
			return nameMember(key, r.Capabilities.decodeFrom(value))
		case "instructions":
			return textMember(&r.Instructions, key, value)
		}
		return nil
	})
	if err == nil && len(r.SupportedVersions) == 0 {
		err = fmt.Errorf("supportedVersions: must be present")
	}
	return r, err
}
