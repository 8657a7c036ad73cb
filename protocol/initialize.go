package protocol

import (
	"fmt"
)

// InitializeParams are the parameters of initialize, with which a client of a
// legacy revision opens a session (basic/lifecycle of those revisions).
type InitializeParams struct {
	ProtocolVersion Version
	Capabilities    ClientCapabilities
	ClientInfo      Implementation
	RequestMeta
}

// InitializeResult accepts a session in the revision it names, which need not
// be the one that the client asked for.
type InitializeResult struct {
	ProtocolVersion Version
	Capabilities    ServerCapabilities
	ServerInfo      Implementation
	Instructions    string // empty: none
	Meta            Meta
}

// PingParams are the parameters of ping.
type PingParams struct{ RequestMeta }

// SetLevelParams are the parameters of logging/setLevel.
type SetLevelParams struct {
	Level LoggingLevel
	RequestMeta
}

// SubscribeParams are the parameters of resources/subscribe and
// resources/unsubscribe.
type SubscribeParams struct {
	URI string
	RequestMeta
}

// ResultType returns "complete".
func (*InitializeResult) ResultType() string { return resultComplete }

func (*InitializeResult) isResult() {}

func (p *InitializeParams) readMember(key, value []byte) (err error) {
	switch string(key) {
	case "protocolVersion":
		err = textMember((*string)(&p.ProtocolVersion), key, value)
	case "capabilities":
		p.Capabilities, err = decodeClientCapabilities(value)
		err = nameMember(key, err)
	case "clientInfo":
		var info *Implementation
		if info, err = decodeImplementation(value); err == nil {
			p.ClientInfo = *info
		}
		err = nameMember(key, err)
	}
	return err
}

func (p *InitializeParams) checkComplete() error {
	return requireText("protocolVersion", string(p.ProtocolVersion))
}

func (p *InitializeParams) appendMembers(w *objectWriter) {
	w.addText("protocolVersion", string(p.ProtocolVersion))
	w.addKey("capabilities")
	w.dst = p.Capabilities.appendJSON(w.dst)
	w.addValue("clientInfo", p.ClientInfo)
}

func (p *PingParams) readMember(_, _ []byte) error { return nil }
func (p *PingParams) checkComplete() error         { return nil }
func (p *PingParams) appendMembers(*objectWriter)  {}

func (p *SetLevelParams) readMember(key, value []byte) error {
	if string(key) == "level" {
		return textMember((*string)(&p.Level), key, value)
	}
	return nil
}

func (p *SetLevelParams) checkComplete() error {
	if !p.Level.Valid() {
		return fmt.Errorf("level: unknown level %s", quoteClipped(string(p.Level)))
	}
	return nil
}

func (p *SetLevelParams) appendMembers(w *objectWriter) { w.addText("level", string(p.Level)) }

func (p *SubscribeParams) readMember(key, value []byte) error {
	if string(key) == "uri" {
		return textMember(&p.URI, key, value)
	}
	return nil
}

func (p *SubscribeParams) checkComplete() error          { return requireText("uri", p.URI) }
func (p *SubscribeParams) appendMembers(w *objectWriter) { w.addText("uri", p.URI) }

func (r *InitializeResult) appendMembers(w *objectWriter, v Version) error {
	if v.Era() != Legacy {
		return fmt.Errorf("revision %s has no initialize", v)
	}
	w.addText("protocolVersion", string(r.ProtocolVersion))
	w.addValue("capabilities", r.Capabilities)
	w.addValue("serverInfo", r.ServerInfo)
	w.addNonEmptyText("instructions", r.Instructions)
	w.addRawObject("_meta", r.Meta)
	return nil
}

func decodeInitialize(data []byte) (Result, error) {
	r := &InitializeResult{}
	info := false
	err := readMembers(data, func(key, value []byte) error {
		switch string(key) {
		case "protocolVersion":
			return textMember((*string)(&r.ProtocolVersion), key, value)
		case "capabilities":
			return nameMember(key, r.Capabilities.decodeFrom(value))
		case "serverInfo":
			info = true
			return decodeMember(&r.ServerInfo, key, value)
		case "instructions":
			return textMember(&r.Instructions, key, value)
		case "_meta":
			return objectMember(&r.Meta, key, value)
		}
		return nil
	})
	if err == nil && (r.ProtocolVersion == "" || !info) {
		err = fmt.Errorf("protocolVersion and serverInfo must be present")
	}
	return r, err
}
