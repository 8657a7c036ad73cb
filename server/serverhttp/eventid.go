package serverhttp

import (
	"strconv"
	"strings"
)

// An eventID names an event: the session by a tag, so that an id from an older
// session of the same client is not taken for one of this, the stream within
// it, and the place within the stream. Place 0 lies before the first event.
//
//	k3x9q2-4-17
type eventID struct {
	tag    string
	stream uint64
	place  uint64
}

func (id eventID) String() string { return string(id.append(make([]byte, 0, len(id.tag)+16))) }

func (id eventID) append(b []byte) []byte {
	b = append(append(b, id.tag...), '-')
	b = append(strconv.AppendUint(b, id.stream, 10), '-')
	return strconv.AppendUint(b, id.place, 10)
}

// parseEventID reads an id in its one spelling.
func parseEventID(s string) (id eventID, ok bool) {
	tag, rest, _ := strings.Cut(s, "-")
	stream, place, _ := strings.Cut(rest, "-")
	var err1, err2 error
	id.tag = tag
	id.stream, err1 = strconv.ParseUint(stream, 10, 64)
	id.place, err2 = strconv.ParseUint(place, 10, 64)
	return id, err1 == nil && err2 == nil && id.String() == s
}
