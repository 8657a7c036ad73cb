// Package recent remembers a bounded number of values, each for a bounded time.
package recent

import (
	"iter"
	"time"
)

// A Map holds the latest values put into it. A nil Map is empty. Its methods must not overlap.
type Map[K comparable, V any] struct {
	limit   int
	maxAge  time.Duration
	entries map[K]*entry[K, V]
	order   List[*entry[K, V]]
}

type entry[K comparable, V any] struct {
	key   K
	value V
	place Entry[*entry[K, V]]
}

// New returns a map of at most limit values, at least one, that live for maxAge (for ever if 0).
func New[K comparable, V any](limit int, maxAge time.Duration) *Map[K, V] {
	return &Map[K, V]{limit: limit, maxAge: maxAge, entries: map[K]*entry[K, V]{}}
}

// Put stores a value as the newest one, replacing the key's. Expired values take room until looked
// up or evicted, but displace no live values, because values expire in the order of eviction.
func (m *Map[K, V]) Put(key K, value V) {
	e := m.entries[key]
	if e == nil {
		if len(m.entries) >= m.limit { // a full map allocates nothing
			e = m.order.Oldest().Value()
			delete(m.entries, e.key)
			e.key = key
		} else {
			e = &entry[K, V]{key: key}
		}
		m.entries[key] = e
	}
	e.value = value
	m.order.Append(&e.place, e)
}

// Get returns the value of a key, unless it has expired.
func (m *Map[K, V]) Get(key K) (value V, ok bool) {
	if m == nil {
		return value, false
	}
	e := m.entries[key]
	if e == nil {
		return value, false
	}
	if m.maxAge > 0 && time.Since(e.place.Since()) >= m.maxAge {
		m.remove(e)
		return value, false
	}
	return e.value, true
}

func (m *Map[K, V]) Delete(key K) {
	if m == nil {
		return
	}
	if e := m.entries[key]; e != nil {
		m.remove(e)
	}
}

func (m *Map[K, V]) remove(e *entry[K, V]) {
	delete(m.entries, e.key)
	e.place.Unlink()
}

// Len returns how many values are held, including expired ones not yet looked up or evicted.
func (m *Map[K, V]) Len() int {
	if m == nil {
		return 0
	}
	return len(m.entries)
}

// Oldest returns the value that the next Put of a new key evicts if the map is full.
func (m *Map[K, V]) Oldest() (value V, ok bool) {
	if m.Len() == 0 {
		return value, false
	}
	return m.order.Oldest().Value().value, true
}

// Full reports whether the next Put of a new key evicts a value.
func (m *Map[K, V]) Full() bool { return m.Len() >= m.limit }

// All returns the values in any order. Meanwhile only the current value may be deleted.
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if m == nil {
			return
		}
		for key, e := range m.entries {
			if !yield(key, e.value) {
				return
			}
		}
	}
}
