package protocol

import (
	"fmt"

	"github.com/rondo-mcp/rondo/internal/jsonx"
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

func (h CacheHints) append(w *objectWriter) {
	w.integer("ttlMs", max(h.TTLMillis, 0))
	scope := CachePrivate
	if h.Scope == CachePublic {
		scope = CachePublic
	}
	w.text("cacheScope", string(scope))
}

// ListParams are the parameters of the list requests.
type ListParams struct {
	Cursor string // empty: the first page
	RequestMeta
}

// A definition is an entry of one of the lists.
type definition[T any] interface {
	*T
	complete() error
}

// decodeDefinitions reads a list. One incomplete entry spoils it: nobody can
// tell what else is wrong with such a list.
func decodeDefinitions[T any, P definition[T]](raw []byte, list *[]T) error {
	if err := jsonx.Decode(raw, list); err != nil {
		return err
	}
	return allComplete[T, P](*list)
}

func allComplete[T any, P definition[T]](list []T) error {
	for i := range list {
		if err := P(&list[i]).complete(); err != nil {
			return fmt.Errorf("[%d].%w", i, err)
		}
	}
	return nil
}
