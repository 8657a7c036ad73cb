package protocol

import (
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// CacheHints say how long and by whom a result may be reused (utilities/caching). Zero means never.
type CacheHints struct {
	TTLMillis int64
	Public    bool // may be shared; otherwise for one principal
}

// codeHints codes the hints, which legacy revisions lack. Invalid hints disable caching.
func (w *objectWriter) codeHints(m member, h *CacheHints) error {
	switch {
	case m.reads("ttlMs"):
		if ttl, err := jsonx.Int(m.value); err == nil {
			h.TTLMillis = max(ttl, 0)
		}
	case m.reads("cacheScope"):
		scope, err := jsonx.Text(m.value)
		h.Public = err == nil && scope == "public"
	case w != nil && w.version.Era() == Modern:
		w.addInteger("ttlMs", max(h.TTLMillis, 0))
		scope := "private"
		if h.Public {
			scope = "public"
		}
		w.addText("cacheScope", scope)
	}
	return nil
}

// ListParams are the parameters of the list requests.
type ListParams struct {
	Cursor string // empty for the first page
	RequestMeta
}

type definition[T any] interface {
	*T
	checkComplete() error
}

// codeDefinitions codes a list; null is empty. Invalid entries are left out and reported.
func codeDefinitions[T any, P definition[T]](
	w *objectWriter, m member, name string, list *[]T,
) error {
	if !m.reads(name) {
		return w.codeValue(m, name, list, true)
	}
	*list = []T{}
	if orAbsent(m.value) == nil {
		return nil
	}
	var err error
	*list, _, err = decodeEntries(m.value, name, m.about, func(value []byte) (entry T, err error) {
		if err = jsonx.Decode(value, &entry); err == nil {
			err = P(&entry).checkComplete()
		}
		return entry, err
	})
	return nameMember(m.key, err)
}

// decodeEntries reads a list. In a result (about is not nil), unreadable entries are left out and
// reported; bad is the first such error.
func decodeEntries[T any](
	raw []byte, name string, about *provenance, decode func([]byte) (T, error),
) (list []T, bad, err error) {
	list = []T{}
	leftOut := 0
	err = jsonx.Elements(raw, func(i int, value []byte) error {
		entry, err := decode(value)
		if string(value) == jsonx.TooDeep {
			err = errTooDeep
		}
		switch {
		case err == nil:
			list = append(list, entry)
			return nil
		case leftOut == 0:
			bad = fmt.Errorf("[%d]: %w", i, jsonx.Plain(err))
		}
		if leftOut++; about == nil {
			return fmt.Errorf("%s%w", name, bad)
		}
		return nil
	})
	if leftOut > 0 {
		about.notef("%s: %d entries are left out; the first is %w", name, leftOut, bad)
	}
	return list, bad, err
}

// decodeSome is [decodeEntries] but returns an error if no entry can be read.
func decodeSome[T any](
	raw []byte, name string, about *provenance, decode func([]byte) (T, error),
) ([]T, error) {
	list, bad, err := decodeEntries(raw, name, about, decode)
	if err == nil && bad != nil && len(list) == 0 {
		err = fmt.Errorf("%s%w", name, bad)
	}
	return list, err
}

// errTooDeep means that [DecodeMessage] found an entry nested too deep.
var errTooDeep = errors.New("nests too deep")

func codeList[T any, P definition[T]](w *objectWriter, m member, name string, list *[]T,
	cursor *string, cache *CacheHints, meta *Meta) error {
	return firstError(
		codeDefinitions[T, P](w, m, name, list),
		w.codeNonEmptyText(m, "nextCursor", cursor),
		w.codeHints(m, cache),
		w.codeMeta(m, meta))
}

func requireList[T any](name string, list []T) error {
	if list == nil {
		return fmt.Errorf("%s: must be present", name)
	}
	return nil
}

func checkDefinitions[T any, P definition[T]](list []T) error {
	for i := range list {
		if err := P(&list[i]).checkComplete(); err != nil {
			return fmt.Errorf("[%d].%w", i, err)
		}
	}
	return nil
}
