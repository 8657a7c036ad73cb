package protocol

import (
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// A CacheScope says who may share a cached result.
type CacheScope string

// The scopes. Private results belong to one principal.
const (
	CachePrivate CacheScope = "private"
	CachePublic  CacheScope = "public"
)

// CacheHints say how long a result may be reused and by whom (server/utilities/
// caching). The zero value means: not at all, private.
type CacheHints struct {
	TTLMillis int64
	Scope     CacheScope
}

func (h CacheHints) appendHints(w *objectWriter) {
	w.addInteger("ttlMs", max(h.TTLMillis, 0))
	scope := CachePrivate
	if h.Scope == CachePublic {
		scope = CachePublic
	}
	w.addText("cacheScope", string(scope))
}

// ListParams are the parameters of the list requests.
type ListParams struct {
	Cursor string // empty: the first page
	RequestMeta
}

// A definition is an entry of one of the lists.
type definition[T any] interface {
	*T
	checkComplete() error
}

// decodeDefinitions reads a list, of which null is an empty one. An entry that cannot be read or is
// incomplete is left out and reported: the others are as good without it.
func decodeDefinitions[T any, P definition[T]](
	raw []byte, name string, list *[]T, report reporter,
) error {
	if orAbsent(raw) == nil {
		return nil
	}
	leftOut, first := 0, error(nil)
	err := jsonx.Elements(raw, func(i int, value []byte) error {
		var entry T
		err := jsonx.Decode(value, &entry)
		if err == nil {
			err = P(&entry).checkComplete()
		}
		switch {
		case err == nil:
			*list = append(*list, entry)
		case leftOut == 0:
			first = fmt.Errorf("[%d]: %w", i, jsonx.Plain(err))
			fallthrough
		default:
			leftOut++
		}
		return nil
	})
	if leftOut > 0 {
		report.reportf("%s: %d entries are left out; the first is %w", name, leftOut, first)
	}
	return err
}

func checkDefinitions[T any, P definition[T]](list []T) error {
	for i := range list {
		if err := P(&list[i]).checkComplete(); err != nil {
			return fmt.Errorf("[%d].%w", i, err)
		}
	}
	return nil
}

// addCacheableList appends a list with its cursor, its cache hints, which are modern only, and
// _meta.
func (w *objectWriter) addCacheableList(
	v Version, name string, list any, cursor string, cache CacheHints, meta Meta,
) {
	w.addValue(name, list)
	w.addNonEmptyText("nextCursor", cursor)
	if v.Era() == Modern {
		cache.appendHints(w)
	}
	w.addRawObject("_meta", meta)
}

func decodeList[T any, P definition[T]](
	data []byte, name string, list *[]T, cursor *string, cache *CacheHints, meta *Meta,
	report reporter,
) error {
	found := false
	err := decodeCacheable(data, name, func(raw []byte) error {
		found = true
		return decodeDefinitions[T, P](raw, name, list, report)
	}, cursor, cache, meta)
	if err == nil && !found {
		return fmt.Errorf("%s: must be present", name)
	}
	return err
}

// decodeCacheable reads what all cacheable results share and hands the member
// called name to list. Hints of the wrong type count as absent: not cacheable
// is the safe reading.
func decodeCacheable(
	data []byte, name string, list func([]byte) error,
	cursor *string, cache *CacheHints, meta *Meta,
) error {
	return readMembers(data, func(key, value []byte) error {
		switch string(key) {
		case name:
			if err := list(value); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		case "ttlMs":
			if ttl, err := jsonx.Int(value); err == nil {
				cache.TTLMillis = max(ttl, 0)
			}
		case "cacheScope":
			if scope, err := jsonx.Text(value); err == nil && CacheScope(scope) == CachePublic {
				cache.Scope = CachePublic
			} else {
				cache.Scope = CachePrivate
			}
		case "nextCursor":
			if cursor != nil {
				return textMember(cursor, key, value)
			}
		case "_meta":
			return objectMember(meta, key, value)
		}
		return nil
	})
}
