package server

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/protocol"
)

// maxDeclared is how much memory a session keeps for what its client declares about itself,
// roughly, beside the capabilities that the protocol names: half for the settings of experimental
// capabilities and extensions, half for its name and description. Clients that exist declare a few
// hundred bytes. A session may live for long while nothing is asked of it, so 10,000 of them must
// fit.
const maxDeclared = 4 << 10

const (
	// settingOverhead is what an entry of a map takes beside its text.
	settingOverhead = 128
	// maxClientName is how long the name and the version of a client may be.
	// What is longer is cut, as both are shown and logged.
	maxClientName = 256
)

// limitDeclared returns what a session keeps of what its client declared. What does not fit is as
// if it had not been declared, so that a handler that needs it refuses the call.
func limitDeclared(c protocol.ClientCapabilities,
	info protocol.Implementation) (protocol.ClientCapabilities, protocol.Implementation) {
	left := maxDeclared / 2
	c.Experimental = limitSettings(c.Experimental, &left)
	c.Extensions = limitSettings(c.Extensions, &left)
	return c, limitInfo(info)
}

// limitSettings keeps the first settings by name that fit into what is left.
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

// limitInfo cuts the name and the version, and leaves out of the rest what does not fit.
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

// clipDeclared cuts text to at most n bytes. What is cut is copied, so that the rest is not held.
func clipDeclared(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.Clone(errtext.Clip(text, n))
}
