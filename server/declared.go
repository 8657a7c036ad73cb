package server

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/protocol"
)

// maxDeclared limits, roughly, the bytes that a session keeps of a client's declaration besides the
// protocol's capabilities: half for settings of experimental capabilities and extensions, half for
// name and description. Clients declare a few hundred bytes; 10,000 sessions must fit into memory.
const maxDeclared = 4 << 10

const (
	settingOverhead = 128 // bytes of a map entry besides its text
	maxClientName   = 256 // bytes kept of a client's name and version, which are shown and logged
)

// limitDeclared returns the part of a declaration that a session keeps. The rest is undeclared.
func limitDeclared(c protocol.ClientCapabilities,
	info protocol.Implementation) (protocol.ClientCapabilities, protocol.Implementation) {
	left := maxDeclared / 2
	c.Experimental = limitSettings(c.Experimental, &left)
	c.Extensions = limitSettings(c.Extensions, &left)
	return c, limitInfo(info)
}

// limitSettings keeps the first settings, by name, that fit into left.
func limitSettings(settings map[string]json.RawMessage, left *int) map[string]json.RawMessage {
	total := 0
	for name, value := range settings {
		total += settingOverhead + len(name) + len(value)
	}
	if total <= *left {
		*left -= total
		return settings
	}
	kept := map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		size := settingOverhead + len(name) + len(settings[name])
		if size <= *left {
			kept[name] = settings[name]
			*left -= size
		}
	}
	return kept
}

// limitInfo truncates name and version, and drops other members that do not fit.
func limitInfo(info protocol.Implementation) protocol.Implementation {
	kept := protocol.Implementation{Name: clipDeclared(info.Name, maxClientName),
		Version: clipDeclared(info.Version, maxClientName)}
	left := maxDeclared/2 - len(kept.Name) - len(kept.Version)
	for _, text := range []struct {
		to   *string
		from string
	}{{&kept.Title, info.Title}, {&kept.WebsiteURL, info.WebsiteURL},
		{&kept.Description, info.Description}} {
		if len(text.from) <= left {
			*text.to = text.from
			left -= len(text.from)
		}
	}
	size := 0
	for _, icon := range info.Icons {
		size += settingOverhead + len(icon.Src) + len(icon.MIMEType) + len(icon.Theme)
		for _, s := range icon.Sizes {
			size += settingOverhead/8 + len(s)
		}
	}
	if size <= left {
		kept.Icons = info.Icons
	}
	return kept
}

// clipDeclared truncates text to n bytes, copied to free the rest.
func clipDeclared(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.Clone(errtext.Clip(text, n))
}
