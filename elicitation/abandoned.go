package elicitation

import "time"

// maxAbandoned is how many connections are remembered on which a call was given
// up. Keys of connections that serve one call each come and go, and need no
// memory: it is for the few that calls share.
const maxAbandoned = 2048

// abandoned are connections on which a call ended because its context did, and
// until when. An upstream may take its time to notice, and what it asks until
// then is not for the client of the next call. The zero value is empty.
type abandoned struct {
	until map[UpstreamKey]time.Time
}

// add remembers a connection. Where there is no room the one that would be
// forgotten first makes some.
func (a *abandoned) add(key UpstreamKey, until time.Time) {
	if a.until == nil {
		a.until = make(map[UpstreamKey]time.Time)
	}
	if _, known := a.until[key]; !known && len(a.until) >= maxAbandoned {
		var first UpstreamKey
		for other, t := range a.until {
			if first == "" || t.Before(a.until[first]) {
				first = other
			}
		}
		delete(a.until, first)
	}
	a.until[key] = until
}

func (a *abandoned) has(key UpstreamKey) bool {
	until, known := a.until[key]
	if known && !time.Now().Before(until) {
		delete(a.until, key)
		known = false
	}
	return known
}
