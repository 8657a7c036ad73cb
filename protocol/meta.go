package protocol

import (
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// Keys of _meta that the protocol defines (basic/index, "_meta").
const (
	MetaProtocolVersion    = "io.modelcontextprotocol/protocolVersion"
	MetaClientInfo         = "io.modelcontextprotocol/clientInfo"
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaLogLevel           = "io.modelcontextprotocol/logLevel"
	MetaServerInfo         = "io.modelcontextprotocol/serverInfo"
	MetaSubscriptionID     = "io.modelcontextprotocol/subscriptionId"
	MetaProgressToken      = "progressToken"
	MetaTraceParent        = "traceparent"
	MetaTraceState         = "tracestate"
	MetaBaggage            = "baggage"
)

// Meta is the _meta object of a message, definition or block of content as JSON. Nil means absent.
type Meta json.RawMessage

// Get returns the JSON at key, or false if key is absent or m is not a JSON object.
func (m Meta) Get(key string) (json.RawMessage, bool) {
	var found json.RawMessage
	if len(m) == 0 {
		return nil, false
	}
	err := walkMembers(m, func(k, v []byte) error {
		if string(k) == key {
			found = v
		}
		return nil
	})
	return found, err == nil && found != nil
}

// With returns a copy of m with v, encoded as JSON, at key.
func (m Meta) With(key string, v any) (Meta, error) {
	value, err := jsonx.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("_meta: %s: %w", key, err)
	}
	out := []byte{'{'}
	if len(m) > 0 {
		if out, err = m.appendOthers(out, key); err != nil {
			return nil, fmt.Errorf("_meta: %w", err)
		}
	}
	out = appendMember(out, key, value)
	return append(out, '}'), nil
}

// Without returns m without key, nil if no member is left, m itself if not an object with that key.
func (m Meta) Without(key string) Meta {
	if _, ok := m.Get(key); !ok {
		return m
	}
	out, _ := m.appendOthers([]byte{'{'}, key) // already checked by Get
	if len(out) == 1 {
		return nil
	}
	return append(out, '}')
}

func (m Meta) appendOthers(dst []byte, key string) ([]byte, error) {
	err := walkMembers(m, func(k, v []byte) error {
		if string(k) != key {
			dst = appendMember(dst, string(k), v)
		}
		return nil
	})
	return dst, err
}

func appendMember(dst []byte, key string, value []byte) []byte {
	return jsonx.AppendCompact(jsonx.AppendName(dst, key), value)
}

// MarshalJSON returns the JSON object, null for nil.
func (m Meta) MarshalJSON() ([]byte, error) {
	if m == nil {
		return []byte("null"), nil
	}
	if jsonx.KindOf(m) != jsonx.Object {
		return nil, fmt.Errorf("_meta: must be a JSON object")
	}
	return m, nil
}

// UnmarshalJSON copies raw, which must be an object or null.
func (m *Meta) UnmarshalJSON(raw []byte) error {
	if *m = nil; orAbsent(raw) == nil {
		return nil
	}
	if jsonx.KindOf(raw) != jsonx.Object {
		return fmt.Errorf("_meta: must be an object")
	}
	*m = append(Meta(nil), raw...)
	return nil
}

// An Implementation names a program that speaks the protocol.
type Implementation struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitzero"`
	Version     string `json:"version"`
	Description string `json:"description,omitzero"`
	WebsiteURL  string `json:"websiteUrl,omitzero"`
	Icons       []Icon `json:"icons,omitempty"`
}

// An Icon is an image for a tool, prompt, resource or implementation. Clients must treat Src as
// hostile (basic/index, "icons").
type Icon struct {
	Src      string   `json:"src"`
	MIMEType string   `json:"mimeType,omitzero"`
	Sizes    []string `json:"sizes,omitempty"`
	Theme    string   `json:"theme,omitzero"`
}

// RequestMeta is the _meta of a request.
type RequestMeta struct {
	Version    Version         // the declared revision; may be empty
	ClientInfo *Implementation // nil when not declared
	// Capabilities apply to this request. Modern requests must declare them; nil means undeclared.
	Capabilities  *ClientCapabilities
	LogLevel      LoggingLevel // least severe level to send; empty for no log messages
	ProgressToken ID           // requests progress notifications; zero for none
	// Extra is the whole _meta as received. It is encoded except for the keys of the fields above.
	Extra Meta
}

func decodeRequestMeta(raw []byte) (m RequestMeta, err error) {
	if jsonx.KindOf(raw) != jsonx.Object {
		return m, fmt.Errorf("_meta: must be an object")
	}
	m.Extra = Meta(raw)
	client := new(clientMeta)
	err = readMembers(raw, func(key, value []byte) (err error) {
		switch string(key) {
		case MetaProtocolVersion:
			m.Version, err = decodeVersion(value)
			err = nameMember(key, err)
		case MetaClientInfo:
			m.ClientInfo = &client.info
			err = nameMember(key, readObject(value, m.ClientInfo, nil))
		case MetaClientCapabilities:
			m.Capabilities = &client.capabilities
			*m.Capabilities, err = decodeClientCapabilities(value)
			err = nameMember(key, err)
		case MetaLogLevel:
			var s string
			err = textMember(&s, key, value)
			if m.LogLevel = LoggingLevel(s); err == nil && !m.LogLevel.Valid() {
				err = fmt.Errorf("%s: unknown level %s", key, quoteClipped(s))
			}
		case MetaProgressToken:
			if m.ProgressToken, err = ParseID(value); err != nil {
				err = fmt.Errorf("progressToken: must be a string or an integer")
			}
		}
		return err
	})
	if err != nil {
		return m, fmt.Errorf("_meta: %w", err)
	}
	return m, nil
}

// clientMeta saves an allocation for the metadata that nearly every request declares.
type clientMeta struct {
	info         Implementation
	capabilities ClientCapabilities
}

func (info *Implementation) checkComplete() error { return nil }

func (info *Implementation) codeMembers(w *objectWriter, m member) error {
	if w == nil { // in each request, so the members below are not tried one by one
		switch string(m.key) {
		case "name":
			return textMember(&info.Name, m.key, m.value)
		case "version":
			return textMember(&info.Version, m.key, m.value)
		}
	}
	return firstError(
		w.codeText(m, "name", &info.Name),
		w.codeNonEmptyText(m, "title", &info.Title),
		w.codeText(m, "version", &info.Version),
		w.codeNonEmptyText(m, "description", &info.Description),
		w.codeNonEmptyText(m, "websiteUrl", &info.WebsiteURL),
		w.codeValue(m, "icons", &info.Icons, len(info.Icons) > 0))
}

func (m *RequestMeta) appendMeta(w *objectWriter) {
	w.addKey("_meta")
	in := beginObject(w.dst)
	if m.Version != "" {
		in.addText(MetaProtocolVersion, string(m.Version))
	}
	if m.ClientInfo != nil {
		in.addValue(MetaClientInfo, m.ClientInfo)
	}
	if m.Capabilities != nil {
		in.addKey(MetaClientCapabilities)
		in.dst = m.Capabilities.appendJSON(in.dst)
	}
	in.addNonEmptyText(MetaLogLevel, string(m.LogLevel))
	if !m.ProgressToken.IsZero() {
		in.addKey(MetaProgressToken)
		in.dst = append(in.dst, m.ProgressToken.text...)
	}
	if len(m.Extra) > 0 {
		err := walkMembers(m.Extra, func(key, value []byte) error {
			switch string(key) {
			case MetaProtocolVersion, MetaClientInfo, MetaClientCapabilities, MetaLogLevel,
				MetaProgressToken:
				return nil
			}
			in.dst = appendMember(in.dst, string(key), value)
			return nil
		})
		if err != nil {
			in.recordError("_meta", err)
		}
	}
	var err error
	if w.dst, err = in.endObject(); err != nil {
		w.recordError("_meta", err)
	}
}

func (m *RequestMeta) isZero() bool {
	return m.Version == "" && m.ClientInfo == nil && m.Capabilities == nil &&
		m.LogLevel == "" && m.ProgressToken.IsZero() && len(m.Extra) == 0
}
