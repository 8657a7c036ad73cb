package elicitation

import "github.com/rondo-mcp/rondo/protocol"

// maxTombstones is how many questions that have ended are remembered, so that a
// late reply is told from a made-up one: twenty times what is pending by default.
const maxTombstones = 2048

// An endedQuestion is what is remembered of a question that has ended.
type endedQuestion struct {
	session   string
	principal Principal
	answered  bool
}

// tombstones are the last questions that ended. The zero value is empty.
type tombstones struct {
	byID map[protocol.ID]endedQuestion
	ring []protocol.ID
	next int
}

func (t *tombstones) add(id protocol.ID, what endedQuestion) {
	if t.byID == nil {
		t.byID = make(map[protocol.ID]endedQuestion)
	}
	t.byID[id] = what
	if len(t.ring) < maxTombstones {
		t.ring = append(t.ring, id)
		return
	}
	delete(t.byID, t.ring[t.next])
	t.ring[t.next] = id
	t.next = (t.next + 1) % maxTombstones
}

// disposition is what a reply to the question is now.
func (t endedQuestion) disposition(from From) Disposition {
	switch {
	case t.session != from.Session:
		return WrongSession
	case t.principal != from.Principal:
		return WrongPrincipal
	case t.answered:
		return Duplicate
	}
	return Expired
}
