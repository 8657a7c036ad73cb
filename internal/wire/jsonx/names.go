package jsonx

import (
	"bytes"
	"hash/maphash"
)

const (
	// fewNames is up to how many names an object's duplicates are sought by comparing with each
	// earlier name. It also bounds what a hostile object can make us compare to 120 pairs.
	fewNames = 16

	// keepSlots is the largest table that goes back to the pool, 16 KiB: it must be cleared after
	// use, and one huge document should not tie up memory for ever.
	keepSlots = 1024
)

// span is the place of a name between its quotes.
type span struct{ start, end int32 }

func (p span) bytesIn(data []byte) []byte { return data[p.start:p.end] }

// scope is the names of one open object.
type scope struct {
	id    int32 // position of its bracket
	base  int32 // height of the stack when it opened
	table bool  // the names have moved to the table
}

// nameSet finds duplicate member names. An object with few plain names has them on a stack; one
// with many, or with escapes, has them in a hash table that all objects of the document share. The
// hash is seeded, so that a peer cannot choose names that collide.
type nameSet struct {
	stack  [MaxDepth * fewNames]span
	height int32

	seed  maphash.Seed
	spin  uint64 // random odd factor that spreads scope ids
	slots []slot // length a power of two
	used  int
	text  [2][]byte // names without escapes: the sought and the found
}

// slot is a name in the table; a free slot has end zero.
type slot struct {
	hash  uint32
	scope int32
	name  span
}

func newNameSet() nameSet {
	seed := maphash.MakeSeed()
	return nameSet{seed: seed, spin: maphash.String(seed, "scope") | 1}
}

// openScope begins the scope of the object whose bracket is at i.
func (n *nameSet) openScope(i int) scope { return scope{id: int32(i), base: n.height} }

// closeScope ends the scope that was opened last. What it has in the table stays: no other scope
// has its id.
func (n *nameSet) closeScope(s scope) { n.height = s.base }

// reset readies the set for another document.
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

// addName puts a name into the scope and reports whether it is new there.
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

// insertName puts a name into the table and reports whether it is new in scope.
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

// unescapeName returns the name without escapes, in scratch memory number k if there are any.
func (n *nameSet) unescapeName(data []byte, name span, escaped bool, k int) []byte {
	if !escaped {
		return name.bytesIn(data)
	}
	n.text[k], _ = appendUnescaped(n.text[k][:0], name.bytesIn(data))
	return n.text[k]
}

// growTable doubles the table.
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
