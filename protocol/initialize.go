package protocol

import (
	"fmt"

	"github.com/rondo-mcp/rondo/internal/jsonx"
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
func (*InitializeResult) ResultType() string { return ResultComplete }

func (*InitializeResult) result() {}

func (p *InitializeParams) member(key, value []byte) (err error) {
	switch string(key) {
	case "protocolVersion":
		err = textMember((*string)(&p.ProtocolVersion), key, value)
	case "capabilities":
		p.Capabilities, err = decodeClientCapabilities(value)
		err = about(key, err)
	case "clientInfo":
		var info *Implementation
		if info, err = decodeImplementation(value); err == nil {
			p.ClientInfo = *info
		}
		err = about(key, err)
	}
	return err
}

func (p *InitializeParams) complete() error {
	return present("protocolVersion", string(p.ProtocolVersion))
}

func (p *InitializeParams) members(w *objectWriter) {
	w.text("protocolVersion", string(p.ProtocolVersion))
	w.key("capabilities")
	w.dst = p.Capabilities.append(w.dst)
	w.value("clientInfo", p.ClientInfo)
}

func (p *PingParams) member(_, _ []byte) error { return nil }
func (p *PingParams) complete() error          { return nil }
func (p *PingParams) members(*objectWriter)    {}

func (p *SetLevelParams) member(key, value []byte) error {
	if string(key) == "level" {
		return textMember((*string)(&p.Level), key, value)
	}
	return nil
}

func (p *SetLevelParams) complete() error {
	if !p.Level.Valid() {
		return fmt.Errorf("level: unknown level %s", clip(string(p.Level)))
	}
	return nil
}

func (p *SetLevelParams) members(w *objectWriter) { w.text("level", string(p.Level)) }

func (p *SubscribeParams) member(key, value []byte) error {
	if string(key) == "uri" {
		return textMember(&p.URI, key, value)
	}
	return nil
}

func (p *SubscribeParams) complete() error         { return present("uri", p.URI) }
func (p *SubscribeParams) members(w *objectWriter) { w.text("uri", p.URI) }

func (r *InitializeResult) append(w *objectWriter, v Version) error {
	if v.Era() != Legacy {
		return fmt.Errorf("revision %s has no initialize", v)
	}
	w.text("protocolVersion", string(r.ProtocolVersion))
	w.value("capabilities", r.Capabilities)
	w.value("serverInfo", r.ServerInfo)
	w.optional("instructions", r.Instructions)
	w.object("_meta", r.Meta)
	return nil
}

func decodeInitialize(data []byte) (Result, error) {
	r := &InitializeResult{}
	info := false
	err := jsonx.Members(data, func(key, value []byte) error {
		switch string(key) {
		case "protocolVersion":
			return textMember((*string)(&r.ProtocolVersion), key, value)
		case "capabilities":
			return decodeMember(&r.Capabilities, key, value)
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
