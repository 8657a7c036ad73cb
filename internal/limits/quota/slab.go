package quota

import "time"

const slabSize = 64 // entries

// An index is the place of an entry in the slabs, from 1; 0 means no entry.
type index int32

// slabs are the memory of entries. Entries never move, so pointers to them stay valid.
type slabs[V any] struct {
	all       [][]Entry[V]
	firstFree index
}

func (s *slabs[V]) at(i index) *Entry[V] {
	if i == 0 {
		return nil
	}
	return &s.all[(i-1)/slabSize][(i-1)%slabSize]
}

// take returns a free entry, with only its index set.
func (s *slabs[V]) take() *Entry[V] {
	if s.firstFree == 0 {
		slab := make([]Entry[V], slabSize)
		first := index(len(s.all)*slabSize) + 1
		for i := range slab {
			slab[i].index, slab[i].nextFree = first+index(i), first+index(i)+1
		}
		slab[slabSize-1].nextFree = 0
		s.all, s.firstFree = append(s.all, slab), first
	}
	e := s.at(s.firstFree)
	s.firstFree, e.nextFree = e.nextFree, 0
	return e
}

func (s *slabs[V]) free(e *Entry[V]) {
	*e = Entry[V]{index: e.index, nextFree: s.firstFree}
	s.firstFree = e.index
}

type queue struct {
	of          int // which links of an entry it uses
	first, last index
}

const (
	ofStore = iota
	ofAccount
)

type links struct{ before, after index }

func (s *slabs[V]) append(q *queue, e *Entry[V]) {
	e.links[q.of] = links{before: q.last}
	if last := s.at(q.last); last != nil {
		last.links[q.of].after = e.index
	} else {
		q.first = e.index
	}
	q.last = e.index
}

func (s *slabs[V]) remove(q *queue, e *Entry[V]) {
	own := e.links[q.of]
	if before := s.at(own.before); before != nil {
		before.links[q.of].after = own.after
	} else {
		q.first = own.after
	}
	if after := s.at(own.after); after != nil {
		after.links[q.of].before = own.before
	} else {
		q.last = own.before
	}
}

// A moment is a time.Time without its location, which is a pointer.
type moment struct {
	seconds     int64 // since 1970
	nanoseconds int32
}

func momentOf(t time.Time) moment { return moment{t.Unix(), int32(t.Nanosecond())} }

func (m moment) time() time.Time { return time.Unix(m.seconds, int64(m.nanoseconds)) }

func (m moment) before(other moment) bool {
	return m.seconds < other.seconds ||
		m.seconds == other.seconds && m.nanoseconds < other.nanoseconds
}

// An expiryHeap has the entry that expires next in front. It implements [heap.Interface].
type expiryHeap[V any] struct {
	slabs *slabs[V]
	items []index
}

func (h *expiryHeap[V]) first() time.Time { return h.at(0).until.time() }

func (h *expiryHeap[V]) at(place int) *Entry[V] { return h.slabs.at(h.items[place]) }

func (h *expiryHeap[V]) Len() int           { return len(h.items) }
func (h *expiryHeap[V]) Less(i, j int) bool { return h.at(i).until.before(h.at(j).until) }
func (h *expiryHeap[V]) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.at(i).place, h.at(j).place = int32(i), int32(j)
}

func (h *expiryHeap[V]) Push(e any) {
	entry := e.(*Entry[V])
	entry.place = int32(len(h.items))
	h.items = append(h.items, entry.index)
}

func (h *expiryHeap[V]) Pop() any {
	last := len(h.items) - 1
	e := h.at(last)
	h.items = h.items[:last]
	return e
}
