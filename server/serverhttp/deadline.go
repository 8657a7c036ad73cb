package serverhttp

import (
	"net/http"
	"time"
)

// deadlines sets the deadlines of a connection where its writer has any.
type deadlines struct {
	w http.ResponseWriter
	// none is set once the writer turns out to have none: asking again would
	// cost an allocation each time.
	none bool
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
