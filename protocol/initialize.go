package protocol

import (
	"fmt"
)

// InitializeParams are the parameters of initialize, which opens a session in legacy revisions
// (basic/lifecycle of those revisions).
type InitializeParams struct {
	ProtocolVersion Version
	Capabilities    ClientCapabilities
	ClientInfo      Implementation
	RequestMeta
}

// InitializeResult opens a session in the revision it names, not necessarily the requested one.
type InitializeResult struct {
	ProtocolVersion Version
	Capabilities    ServerCapabilities
	ServerInfo      Implementation
	Instructions    string // may be empty
	Meta            Meta

	hasInfo bool // only while decoding
}

// SetLevelParams are the parameters of logging/setLevel.
type SetLevelParams struct {
	Level LoggingLevel
	RequestMeta
}

// SubscribeParams are the parameters of resources/subscribe and resources/unsubscribe.
type SubscribeParams struct {
	URI string
	RequestMeta
}

func (p *InitializeParams) checkComplete() error {
	return requireText("protocolVersion", string(p.ProtocolVersion))
}

func (p *InitializeParams) codeMembers(w *objectWriter, m member) error {
	if m.reads("capabilities") {
		var err error
		p.Capabilities, err = decodeClientCapabilities(m.value)
		return nameMember(m.key, err)
	}
	return firstError(
		w.codeText(m, "protocolVersion", (*string)(&p.ProtocolVersion)),
		w.codeValue(m, "capabilities", &p.Capabilities, true),
		w.codeValue(m, "clientInfo", &p.ClientInfo, true))
}

func (p *SetLevelParams) checkComplete() error {
	if !p.Level.Valid() {
		return fmt.Errorf("level: unknown level %s", quoteClipped(string(p.Level)))
	}
	return nil
}

func (p *SetLevelParams) codeMembers(w *objectWriter, m member) error {
	return w.codeText(m, "level", (*string)(&p.Level))
}

func (p *SubscribeParams) checkComplete() error { return requireText("uri", p.URI) }

func (p *SubscribeParams) codeMembers(w *objectWriter, m member) error {
	return w.codeText(m, "uri", &p.URI)
}

func (r *InitializeResult) checkComplete() error {
	hasInfo := r.hasInfo
	if r.hasInfo = false; r.ProtocolVersion == "" || !hasInfo {
		return fmt.Errorf("protocolVersion and serverInfo must be present")
	}
	return nil
}

func (r *InitializeResult) codeMembers(w *objectWriter, m member) error {
	if w != nil && w.version.Era() != Legacy {
		return fmt.Errorf("revision %s has no initialize", w.version)
	}
	if w == nil && m.reads("serverInfo") { // results may be encoded concurrently
		r.hasInfo = true
	}
	return firstError(
		w.codeText(m, "protocolVersion", (*string)(&r.ProtocolVersion)),
		w.codeServerCapabilities(m, &r.Capabilities),
		w.codeValue(m, "serverInfo", &r.ServerInfo, true),
		w.codeNonEmptyText(m, "instructions", &r.Instructions),
		w.codeMeta(m, &r.Meta))
}
