//lint:file-ignore SA1019 sampling and roots are deprecated, but supported

package gosdk

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
)

// declaredCapabilities returns what client.ClientCapabilities returns. The SDK encodes the
// _meta of the request and decodes it again, for each call; what has the usual form is
// converted here, and all else is left to the SDK.
func declaredCapabilities(meta mcp.Meta, client clientOf) *mcp.ClientCapabilities {
	if caps, ok := convertCapabilities(meta[protocol.MetaClientCapabilities]); ok {
		return caps
	}
	return client.ClientCapabilities()
}

// declaredClientInfo returns what client.ClientInfo returns, see [declaredCapabilities].
func declaredClientInfo(meta mcp.Meta, client clientOf) *mcp.Implementation {
	if info, ok := convertClientInfo(meta[protocol.MetaClientInfo]); ok {
		return info
	}
	return client.ClientInfo()
}

// convertCapabilities converts decoded JSON. It reports false for what it does not convert.
func convertCapabilities(declared any) (*mcp.ClientCapabilities, bool) {
	members, ok := declared.(map[string]any)
	if !ok {
		return nil, false
	}
	caps := &mcp.ClientCapabilities{}
	for name, value := range members {
		settings, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		switch name {
		case "elicitation":
			caps.Elicitation, ok = convertElicitation(settings)
		case "sampling":
			caps.Sampling, ok = convertSampling(settings)
		case "roots":
			caps.RootsV2, ok = convertRoots(settings)
		default: // experimental, extensions, and what later revisions have
			ok = false
		}
		if !ok {
			return nil, false
		}
	}
	if caps.RootsV2 != nil {
		caps.Roots = *caps.RootsV2
	}
	return caps, true
}

func convertElicitation(settings map[string]any) (*mcp.ElicitationCapabilities, bool) {
	c := &mcp.ElicitationCapabilities{}
	for mode, value := range settings {
		_, ok := value.(map[string]any)
		switch {
		case ok && mode == "form":
			c.Form = &mcp.FormElicitationCapabilities{}
		case ok && mode == "url":
			c.URL = &mcp.URLElicitationCapabilities{}
		default:
			return nil, false
		}
	}
	return c, true
}

func convertSampling(settings map[string]any) (*mcp.SamplingCapabilities, bool) {
	c := &mcp.SamplingCapabilities{}
	for name, value := range settings {
		_, ok := value.(map[string]any)
		switch {
		case ok && name == "context":
			c.Context = &mcp.SamplingContextCapabilities{}
		case ok && name == "tools":
			c.Tools = &mcp.SamplingToolsCapabilities{}
		default:
			return nil, false
		}
	}
	return c, true
}

func convertRoots(settings map[string]any) (*mcp.RootCapabilities, bool) {
	c := &mcp.RootCapabilities{}
	for name, value := range settings {
		changes, ok := value.(bool)
		if !ok || name != "listChanged" {
			return nil, false
		}
		c.ListChanged = changes
	}
	return c, true
}

// convertClientInfo converts decoded JSON. It reports false for what it does not convert.
func convertClientInfo(declared any) (*mcp.Implementation, bool) {
	members, ok := declared.(map[string]any)
	if !ok {
		return nil, false
	}
	info := &mcp.Implementation{}
	for name, value := range members {
		text, ok := value.(string)
		if !ok {
			return nil, false
		}
		switch name {
		case "name":
			info.Name = text
		case "title":
			info.Title = text
		case "description":
			info.Description = text
		case "version":
			info.Version = text
		case "websiteUrl":
			info.WebsiteURL = text
		default: // icons, and what later revisions have
			return nil, false
		}
	}
	return info, true
}
