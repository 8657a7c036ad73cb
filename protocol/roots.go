package protocol

import (
	"fmt"
)

// ListRoots asks which directories the client exposes (client/roots).
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

func (*ListRoots) isInputRequest() {}

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
	err := readMembers(raw, func(key, value []byte) error {
		if string(key) == "_meta" {
			return objectMember(&q.Meta, key, value)
		}
		return nil
	})
	return q, err
}

// DecodeListRootsResult reads the answer to a [ListRoots]. Every root must
// have a URI.
func DecodeListRootsResult(raw []byte) (*ListRootsResult, error) {
	r := &ListRootsResult{}
	found := false
	err := readChecked(raw, func(key, value []byte) error {
		switch string(key) {
		case "roots":
			found = true
			return decodeMember(&r.Roots, key, value)
		case "_meta":
			return objectMember(&r.Meta, key, value)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("roots result: %w", err)
	}
	if !found || r.Roots == nil {
		return nil, fmt.Errorf("roots result: roots must be an array")
	}
	for i, root := range r.Roots {
		if root.URI == "" {
			return nil, fmt.Errorf("roots result: roots[%d].uri must be present", i)
		}
	}
	return r, nil
}

// MarshalJSON returns the JSON object of the answer.
func (r ListRootsResult) MarshalJSON() ([]byte, error) {
	w := beginObject(nil)
	roots := r.Roots
	if roots == nil {
		roots = []Root{}
	}
	w.addValue("roots", roots)
	w.addRawObject("_meta", r.Meta)
	return w.endObject()
}
