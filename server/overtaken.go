package server

import (
	"slices"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

const (
	// maxOvertaken is how many cancellations of requests that do not run a
	// session remembers. A client cancels a few things at a time.
	maxOvertaken = 16
	// maxOvertakenID is how many bytes the id of such a request may take.
	maxOvertakenID = 128
	// overtakenLife is how long such a cancellation counts. What overtakes
	// another message does so by milliseconds.
	overtakenLife = 5 * time.Second
)

// overtaken are cancellations that found nothing to cancel. Most came too late,
// but over HTTP, where it is a request of its own, one may be there before the
// request that it cancels. Its zero value is ready.
type overtaken []struct {
	id protocol.ID
	at time.Time
}

// note remembers a cancellation, in place of the oldest if there are too many.
func (o *overtaken) note(id protocol.ID) {
	if len(id.String()) > maxOvertakenID {
		return
	}
	if len(*o) >= maxOvertaken {
		*o = slices.Delete(*o, 0, 1)
	}
	*o = append(*o, struct {
		id protocol.ID
		at time.Time
	}{id, time.Now()})
}

// take reports whether a request that is about to run has been cancelled. A
// cancellation counts once.
func (o *overtaken) take(id protocol.ID) (cancelled bool) {
	for i, c := range slices.Backward(*o) {
		if c.id == id {
			*o = slices.Delete(*o, i, i+1)
			return time.Since(c.at) < overtakenLife
		}
	}
	return false
}
