package protocol

import (
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// A coded object lists its members once, for both encoding and decoding.
type coded interface {
	// codeMembers writes all members to w in order, or reads m if w is nil.
	codeMembers(w *objectWriter, m member) error
	// checkComplete returns an error if a decoded object lacks a required member.
	checkComplete() error
}

// A member is an input member. It does not hold the writer, which would then escape to the heap.
type member struct {
	key, value []byte
	about      *provenance // nil if not part of a result
}

func readObject(raw []byte, object coded, about *provenance) error {
	err := readMembers(raw, func(key, value []byte) error {
		return object.codeMembers(nil, member{key, value, about})
	})
	if err != nil {
		return err
	}
	return object.checkComplete()
}

// decodeAnswer reads the unchecked answer to a question.
func decodeAnswer[T any, P codedPointer[T]](raw []byte, kind string) (*T, error) {
	answer := P(new(T))
	err := jsonx.Check(raw)
	if err == nil {
		err = readObject(raw, answer, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("%s result: %w", kind, err)
	}
	return answer, nil
}

type codedPointer[T any] interface {
	*T
	coded
}

func (m member) reads(name string) bool { return string(m.key) == name }

func (w *objectWriter) codeText(m member, name string, p *string) error {
	if m.reads(name) {
		return textMember(p, m.key, m.value)
	}
	if w != nil {
		w.addText(name, *p)
	}
	return nil
}

// codeNonEmptyText is codeText, but omits an empty member.
func (w *objectWriter) codeNonEmptyText(m member, name string, p *string) error {
	if w != nil && *p == "" {
		return nil
	}
	return w.codeText(m, name, p)
}

func (w *objectWriter) codeFlag(m member, name string, p *bool) (err error) {
	if m.reads(name) {
		if *p, err = jsonx.Boolean(m.value); err != nil {
			return fmt.Errorf("%s: must be a boolean", name)
		}
	} else if w != nil {
		w.addFlag(name, *p)
	}
	return nil
}

func (w *objectWriter) codeObject(m member, name string, p *json.RawMessage) error {
	if m.reads(name) {
		return objectMember(p, m.key, m.value)
	}
	if w != nil {
		w.addRawObject(name, *p)
	}
	return nil
}

// codeMeta codes a _meta; in a result it names the server.
func (w *objectWriter) codeMeta(m member, p *Meta) error {
	if w == nil || w.server == nil {
		return w.codeObject(m, "_meta", (*json.RawMessage)(p))
	}
	if *p == nil {
		w.addKey("_meta")
		w.dst = append(w.dst, w.server...)
		return nil
	}
	named := *p
	if _, ok := named.Get(MetaServerInfo); !ok {
		name, _ := w.server.Get(MetaServerInfo)
		var err error
		if named, err = named.With(MetaServerInfo, json.RawMessage(name)); err != nil {
			return err
		}
	}
	w.addRawObject("_meta", named)
	return nil
}

// codeValue encodes or decodes a plain data type of this package, or a pointer to one.
func (w *objectWriter) codeValue(m member, name string, p any, write bool) error {
	if m.reads(name) {
		return decodeMember(p, m.key, m.value)
	}
	if w != nil && write {
		w.addValue(name, p)
	}
	return nil
}

func (w *objectWriter) codeRole(m member, p *Role) error {
	err := w.codeText(m, "role", (*string)(p))
	if err == nil && (w != nil || m.reads("role")) && *p != User && *p != Assistant {
		err = fmt.Errorf("role: must be user or assistant")
	}
	return err
}

func (w *objectWriter) codeInteger(m member, name string, p *int64) (err error) {
	if m.reads(name) {
		if *p, err = jsonx.Int(m.value); err != nil {
			return fmt.Errorf("%s: must be an integer", name)
		}
	} else if w != nil {
		w.addInteger(name, *p)
	}
	return nil
}

// codeStructured codes the structured content of a tool. Legacy revisions allow objects only.
func (w *objectWriter) codeStructured(m member, p *json.RawMessage) error {
	if m.reads("structuredContent") {
		*p = m.value
	} else if w != nil && (w.version.Era() == Modern || jsonx.KindOf(*p) == jsonx.Object) {
		w.addRaw("structuredContent", *p)
	}
	return nil
}

func (w *objectWriter) codeContents(m member, p *[]Content) (err error) {
	if m.reads("content") {
		*p, err = decodeContents(m.value, m.about)
	} else if w != nil {
		w.addContent("content", downgradeContent(w.version, *p))
	}
	return err
}
