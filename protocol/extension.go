package protocol

import (
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// ExtensionParams are the parameters of a method that an extension defines.
type ExtensionParams struct {
	Members json.RawMessage // the JSON object as received, with _meta; nil when absent
	RequestMeta
}

// ExtensionResult answers a method that an extension defines, never a method of this package.
type ExtensionResult struct {
	// Members is a JSON object. Its resultType and _meta are replaced. Nil means no members.
	Members json.RawMessage
	Meta    Meta
}

// DecodeExtensionParams reads the parameters of an extension's method, as decoded by
// [DecodeMessage]. Errors are as in [DecodeParams].
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

// Text returns the string member name and whether it is present.
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

// addMembersOf appends the members of an object except members that this package writes itself.
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
