package middleware

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/roundtrip/event"
)

const (
	// maxRefusalLines a second are enough to see what is wrong, and too few to fill a disk.
	maxRefusalLines = 10
	// refusalWindow is the second that they are counted in.
	refusalWindow = time.Second
)

// A refusalLog limits the rate of entries about refused requests, and sums up those it left out.
type refusalLog struct {
	write func(count int, reasons []string) // writes a summary

	mu      sync.Mutex
	last    [maxRefusalLines]time.Time // when the last lines were logged, a ring
	oldest  int                        // of them
	omitted map[string]int             // how many were left out since the last summary, by reason
	summary *time.Timer                // writes it; nil: nothing was left out
}

// admitLine reports whether one more line may be logged now, and counts it if not.
func (l *refusalLog) admitLine(reason string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.last[l.oldest]) >= refusalWindow {
		l.last[l.oldest] = now
		l.oldest = (l.oldest + 1) % maxRefusalLines
		return true
	}
	if l.omitted == nil {
		l.omitted = map[string]int{}
	}
	l.omitted[reason]++
	if l.summary == nil {
		l.summary = time.AfterFunc(refusalWindow, l.writeSummary)
	}
	return false
}

func (l *refusalLog) writeSummary() {
	l.mu.Lock()
	beyond := l.omitted
	l.omitted, l.summary = nil, nil
	l.mu.Unlock()
	total := 0
	reasons := make([]string, 0, len(beyond))
	for reason, n := range beyond {
		total += n
		reasons = append(reasons, reason+" "+strconv.Itoa(n))
	}
	slices.Sort(reasons)
	l.write(total, reasons)
}

// admitRefusal returns the refusal as it is to be logged, nil if too many have been.
//
//go:noinline
func (l *Log) admitRefusal(refused event.Event) event.Event {
	e := refused.(event.RequestRefused)
	e.Reason = e.Reason.Known()
	if !l.refusals.admitLine(string(e.Reason)) {
		return nil
	}
	return e
}

func (l *Log) writeOmitted(count int, reasons []string) {
	ctx := context.Background()
	if !l.sink.Enabled(ctx, event.LevelWarn) {
		return
	}
	e := &entry{opts: &l.fields, write: func(f event.Fields) {
		f.AddInt64("count", int64(count))
		for _, reason := range reasons {
			f.AppendItem(reason)
		}
		f.AddItems("reasons")
	}}
	l.sink.Write(ctx, event.LevelWarn, "mcp.requests_refused", e)
}
