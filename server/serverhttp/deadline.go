package serverhttp

import (
	"net/http"
	"time"
)

// deadlines sets the deadlines of a connection where its writer has any.
type deadlines struct {
	w    http.ResponseWriter
	none bool // it has none, as in tests, or behind a wrapper that hides them
}

// deadlinesOf tells by the methods of w whether asking has any point: the
// error that says otherwise is made anew each time.
func deadlinesOf(w http.ResponseWriter) deadlines {
	switch w.(type) {
	case interface{ SetWriteDeadline(time.Time) error }, interface{ Unwrap() http.ResponseWriter }:
		return deadlines{w: w}
	}
	return deadlines{none: true}
}

func (d *deadlines) read(t time.Time) {
	if !d.none {
		d.none = http.NewResponseController(d.w).SetReadDeadline(t) != nil
	}
}

func (d *deadlines) write(t time.Time) {
	if !d.none {
		d.none = http.NewResponseController(d.w).SetWriteDeadline(t) != nil
	}
}
