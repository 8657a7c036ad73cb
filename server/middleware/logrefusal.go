package middleware

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/roundtrip/event"
)

const (
	maxRefusalLines = 10          // a second: enough to diagnose, too few to fill a disk
	refusalWindow   = time.Second // of maxRefusalLines
)

// A refusalLog limits the rate of entries about refused requests.
type refusalLog struct {
	mu      sync.Mutex
	last    [maxRefusalLines]time.Time // times of the last entries, a ring
	oldest  int                        // index of the oldest
	omitted map[string]int             // entries since the last summary, by reason
	summary *time.Timer                // writes the summary; nil if nothing was omitted
}

// admitRefusal returns the refusal to log, or counts it and returns nil if there are too many.
//
//go:noinline
func (l *Log) admitRefusal(refused event.Event) event.Event {
	e := refused.(event.RequestRefused)
	e.Reason = e.Reason.Known()
	r := &l.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Sub(r.last[r.oldest]) >= refusalWindow {
		r.last[r.oldest] = now
		r.oldest = (r.oldest + 1) % maxRefusalLines
		return e
	}
	if r.omitted == nil {
		r.omitted = map[string]int{}
	}
	r.omitted[string(e.Reason)]++
	if r.summary == nil {
		r.summary = time.AfterFunc(refusalWindow, l.writeOmitted)
	}
	return nil
}

// writeOmitted logs a summary of omitted entries.
func (l *Log) writeOmitted() {
	l.refusals.mu.Lock()
	omitted := l.refusals.omitted
	l.refusals.omitted, l.refusals.summary = nil, nil
	l.refusals.mu.Unlock()
	ctx := context.Background()
	if !l.sink.Enabled(ctx, event.LevelWarn) {
		return
	}
	e := &entry{opts: &l.fields, write: func(f event.Fields) {
		total := 0
		for _, reason := range slices.Sorted(maps.Keys(omitted)) {
			total += omitted[reason]
			f.AppendItem(reason + " " + strconv.Itoa(omitted[reason]))
		}
		f.AddInt64("count", int64(total))
		f.AddItems("reasons")
	}}
	l.sink.Write(ctx, event.LevelWarn, "mcp.requests_refused", e)
}
