package elicitation

import (
	"github.com/rondo-mcp/rondo/protocol"
)

// supportedModes are the modes of elicitation that a client can be asked in. URL mode
// begins with revision 2025-11-25, whatever a client declares; elicitation as a
// whole with 2025-06-18.
func supportedModes(c protocol.ClientCapabilities, v protocol.Version) (form, url bool) {
	if c.Elicitation == nil || v < protocol.V20250618 {
		return false, false
	}
	return c.Elicitation.Form, c.Elicitation.URL && v >= protocol.V20251125
}

func upstreamCapabilities(c protocol.ClientCapabilities, v protocol.Version) protocol.ClientCapabilities {
	form, url := supportedModes(c, v)
	if !form && !url {
		return protocol.ClientCapabilities{}
	}
	return protocol.ClientCapabilities{Elicitation: &protocol.ElicitationCapability{Form: form, URL: url}}
}

// checkCapabilities refuses what the client of a call has not declared. It is asked before
// anything is sent, and, with an empty kind, before the question is even read.
func (c *Call) checkCapabilities(kind protocol.InputKind) *Error {
	version := c.origin.Session.info.Version
	form, url := supportedModes(c.capabilities(), version)
	if c.via.frames != nil && version.Era() == protocol.Modern {
		form, url = false, false // servers send no requests there
	}
	switch {
	case !form && !url:
		return newRefusal(ReasonCapability, protocol.Errorf(protocol.CodeMethodNotFound, "Client does not support elicitation"))
	case kind == protocol.KindElicitForm && !form:
		return newRefusal(ReasonMode, protocol.Errorf(protocol.CodeInvalidParams, "Client does not support form elicitation"))
	case kind == protocol.KindElicitURL && !url:
		return newRefusal(ReasonMode, protocol.Errorf(protocol.CodeInvalidParams, "Client does not support URL elicitation"))
	}
	return nil
}
