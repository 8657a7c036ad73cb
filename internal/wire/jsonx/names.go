package jsonx

import (
	"bytes"
	"hash/maphash"
)

const (
	// fewNames is the number of names that are compared pairwise, at most 120 times per object.
	fewNames = 16

	// keepSlots limits pooled tables, which are cleared after each use, to 16 KiB.
	keepSlots = 1024
)

// span is the position of a name between its quotes.
type span struct{ start, end int32 }

func (p span) bytesIn(data []byte) []byte { return data[p.start:p.end] }

type scope struct {
	id    int32 // position of its bracket
	base  int32 // stack height at its start
	table bool  // names have moved to the table
}

// nameSet finds duplicate member names. A few plain names of an object are kept on a stack; many
// names, or names with escapes, in a hash table shared by all objects of the document. The hash is
// seeded, so that a peer cannot choose colliding names.
type nameSet struct {
	stack  [MaxDepth * fewNames]span
	height int32

	seed  maphash.Seed
	spin  uint64 // random odd factor that spreads scope ids
	slots []slot // length a power of two
	used  int
	text  [2][]byte // unescaped names: the new and the stored one
}

// slot is a name in the table; end is zero in a free slot.
type slot struct {
	hash  uint32
	scope int32
	name  span
}

func newNameSet() nameSet {
	seed := maphash.MakeSeed()
	return nameSet{seed: seed, spin: maphash.String(seed, "scope") | 1}
}

func (n *nameSet) openScope(i int) scope { return scope{id: int32(i), base: n.height} }

// closeScope ends the newest scope. Its table entries stay: no other scope has its id.
func (n *nameSet) closeScope(s scope) { n.height = s.base }

func (n *nameSet) reset() {
	n.height = 0
	if n.used > 0 {
		n.used = 0
		if len(n.slots) > keepSlots {
			n.slots = nil
		} else {
			clear(n.slots)
		}
	}
	for i, b := range n.text {
		if cap(b) > keepSlots {
			n.text[i] = nil
		}
	}
}

func (n *nameSet) addName(data []byte, s *scope, name span, escaped bool) bool {
	if !s.table {
		earlier := n.stack[s.base:n.height]
		if !escaped && len(earlier) < fewNames {
			text := name.bytesIn(data)
			for _, e := range earlier {
				if e.end-e.start == int32(len(text)) && string(e.bytesIn(data)) == string(text) {
					return false
				}
			}
			n.stack[n.height] = name
			n.height++
			return true
		}
		s.table = true
		n.height = s.base
		for _, e := range earlier {
			n.insertName(data, s.id, e, false)
		}
	}
	return n.insertName(data, s.id, name, escaped)
}

// insertName adds a name to the table and reports whether it is new in scope.
func (n *nameSet) insertName(data []byte, scope int32, name span, escaped bool) bool {
	if 2*(n.used+1) > len(n.slots) {
		n.growTable()
	}
	text := n.unescapeName(data, name, escaped, 0)
	hash := uint32(maphash.Bytes(n.seed, text)) ^ uint32(uint64(scope)*n.spin>>32)
	mask := uint32(len(n.slots) - 1)
	i := hash & mask
	for ; n.slots[i].name.end != 0; i = (i + 1) & mask {
		e := &n.slots[i]
		if e.hash == hash && e.scope == scope &&
			bytes.Equal(n.unescapeName(data, e.name, hasEscape(e.name.bytesIn(data)), 1), text) {
			return false
		}
	}
	n.slots[i] = slot{hash, scope, name}
	n.used++
	return true
}

// unescapeName returns the name without escapes, using scratch memory k if it has escapes.
func (n *nameSet) unescapeName(data []byte, name span, escaped bool, k int) []byte {
	if !escaped {
		return name.bytesIn(data)
	}
	n.text[k], _ = appendUnescaped(n.text[k][:0], name.bytesIn(data))
	return n.text[k]
}

func (n *nameSet) growTable() {
	old := n.slots
	n.slots = make([]slot, max(64, 2*len(old)))
	mask := uint32(len(n.slots) - 1)
	for _, e := range old {
		if e.name.end == 0 {
			continue
		}
		i := e.hash & mask
		for n.slots[i].name.end != 0 {
			i = (i + 1) & mask
		}
		n.slots[i] = e
	}
}

func hasEscape(name []byte) bool { return bytes.IndexByte(name, '\\') >= 0 }
