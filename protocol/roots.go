package protocol

import (
	"fmt"
)

// ListRoots asks for the directories that the client exposes (client/roots).
type ListRoots struct{ Meta Meta }

// A Root is a directory or file that a server may work on.
type Root struct {
	URI  string `json:"uri"`
	Name string `json:"name,omitzero"`
	Meta Meta   `json:"_meta,omitzero"`
}

// ListRootsResult answers a [ListRoots].
type ListRootsResult struct {
	Roots []Root
	Meta  Meta
}

// Kind returns [KindListRoots].
func (*ListRoots) Kind() InputKind { return KindListRoots }

func (q *ListRoots) appendParams(dst []byte, _ Version) ([]byte, error) {
	w := beginObject(dst)
	w.addRawObject("_meta", q.Meta)
	return w.endObject()
}

func decodeListRoots(raw []byte) (InputRequest, error) {
	q := &ListRoots{}
	if raw == nil {
		return q, nil
	}
	return q, readMembers(raw, func(key, value []byte) error {
		return (*objectWriter)(nil).codeMeta(member{key, value, nil}, &q.Meta)
	})
}

// DecodeListRootsResult reads the answer to a [ListRoots]. Every root must have a URI.
func DecodeListRootsResult(raw []byte) (*ListRootsResult, error) {
	return decodeAnswer[ListRootsResult](raw, "roots")
}

func (r *ListRootsResult) checkComplete() error {
	if r.Roots == nil {
		return fmt.Errorf("roots must be an array")
	}
	for i, root := range r.Roots {
		if root.URI == "" {
			return fmt.Errorf("roots[%d].uri must be present", i)
		}
	}
	return nil
}

func (r *ListRootsResult) codeMembers(w *objectWriter, m member) error {
	return firstError(w.codeValue(m, "roots", &r.Roots, true), w.codeMeta(m, &r.Meta))
}

// MarshalJSON returns the answer as a JSON object.
func (r ListRootsResult) MarshalJSON() ([]byte, error) {
	w := beginObject(nil)
	w.keepError(r.codeMembers(&w, member{}))
	return w.endObject()
}
