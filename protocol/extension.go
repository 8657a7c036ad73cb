package protocol

import (
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// ExtensionParams are the parameters of a method that an extension defines, which this package does
// not know.
type ExtensionParams struct {
	// Members is the JSON object as it came, _meta included; nil when absent.
	Members json.RawMessage
	RequestMeta
}

// ExtensionResult answers a method that an extension defines. Methods that this package knows are
// never answered with one.
type ExtensionResult struct {
	// Members is a JSON object in the words of the extension. Its resultType and _meta are passed
	// over: this package writes them. Nil: no members.
	Members json.RawMessage
	Meta    Meta
}

// DecodeExtensionParams reads the parameters of a method that an extension defines, which must have
// been decoded by [DecodeMessage]. An error is as of [DecodeParams].
func DecodeExtensionParams(raw json.RawMessage) (*ExtensionParams, error) {
	p := &ExtensionParams{Members: raw}
	if raw == nil {
		return p, nil
	}
	err := readMembers(raw, func(key, value []byte) (err error) {
		if string(key) == "_meta" {
			p.RequestMeta, err = decodeRequestMeta(value)
		}
		return err
	})
	if err != nil {
		return p, Errorf(CodeInvalidParams, "invalid params: %v", err)
	}
	return p, nil
}

// Text returns the member name, which must be a string, and whether it is there.
func (p *ExtensionParams) Text(name string) (value string, present bool, err error) {
	if p.Members == nil {
		return "", false, nil
	}
	err = readMembers(p.Members, func(key, raw []byte) error {
		if string(key) != name {
			return nil
		}
		present = true
		return textMember(&value, key, raw)
	})
	if err != nil {
		return "", present, Errorf(CodeInvalidParams, "invalid params: %v", err)
	}
	return value, present, nil
}

func (p *ExtensionParams) codeMembers(w *objectWriter, m member) error {
	if w != nil {
		w.addMembersOf(p.Members)
	}
	return nil
}

func (r *ExtensionResult) checkComplete() error { return nil }

func (r *ExtensionResult) codeMembers(w *objectWriter, m member) error {
	if w != nil {
		w.addMembersOf(r.Members)
	}
	return w.codeMeta(m, &r.Meta)
}

// addMembersOf appends the members of an object but for those that this package writes itself.
func (w *objectWriter) addMembersOf(raw json.RawMessage) {
	if raw == nil {
		return
	}
	if jsonx.KindOf(raw) != jsonx.Object {
		w.recordError("members", fmt.Errorf("must be an object"))
		return
	}
	err := walkMembers(raw, func(key, value []byte) error {
		if string(key) == "_meta" || string(key) == "resultType" {
			return nil
		}
		if w.dst[len(w.dst)-1] != '{' {
			w.dst = append(w.dst, ',')
		}
		w.dst = append(jsonx.AppendTextBytes(w.dst, key), ':')
		w.dst = jsonx.AppendCompact(w.dst, value)
		return nil
	})
	if err != nil {
		w.recordError("members", err)
	}
}
