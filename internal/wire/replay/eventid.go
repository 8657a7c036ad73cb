package replay

import (
	"strconv"
	"strings"
)

// An eventID names an event by the log's random tag, the stream within the log, and the position
// within the stream, counted from 1. The tag distinguishes our ids from those of earlier sessions.
//
//	k3x9q2-4-17
type eventID struct {
	tag      string
	stream   uint64
	position uint64
}

func (id eventID) String() string { return string(id.appendTo(make([]byte, 0, len(id.tag)+16))) }

func (id eventID) appendTo(b []byte) []byte {
	b = append(append(b, id.tag...), '-')
	b = append(strconv.AppendUint(b, id.stream, 10), '-')
	return strconv.AppendUint(b, id.position, 10)
}

// parseEventID accepts only the spelling of String.
func parseEventID(s string) (id eventID, ok bool) {
	tag, rest, _ := strings.Cut(s, "-")
	stream, position, _ := strings.Cut(rest, "-")
	var err1, err2 error
	id.tag = tag
	id.stream, err1 = strconv.ParseUint(stream, 10, 64)
	id.position, err2 = strconv.ParseUint(position, 10, 64)
	return id, err1 == nil && err2 == nil && id.String() == s
}
