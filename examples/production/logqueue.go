package main

import (
	"context"
	"io"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// maxQueuedLines limits the memory of a logQueue: a line has a few hundred bytes.
const maxQueuedLines = 4096

// A logQueue writes log lines on its own goroutine, so that no request waits for the log's reader.
// (An unread pipe holds 64 KiB; then each write blocks.) Lines that do not fit, or cannot be
// written, are dropped and counted.
type logQueue struct {
	out     io.Writer
	lines   chan []byte
	stopped chan struct{}
	ended   chan struct{} // closed when writeLines has ended
	lost    atomic.Uint64
}

// newLogQueue returns a queue of limit lines in front of out. The caller must call end.
func newLogQueue(out io.Writer, limit int) *logQueue {
	q := &logQueue{out: out, lines: make(chan []byte, limit),
		stopped: make(chan struct{}), ended: make(chan struct{})}
	go q.writeLines()
	return q
}

// Write implements [zapcore.WriteSyncer]. It never blocks, and never fails.
func (q *logQueue) Write(line []byte) (int, error) {
	select {
	case q.lines <- append([]byte(nil), line...): // copied, because the logger reuses its buffer
	default:
		q.lost.Add(1)
	}
	return len(line), nil
}

// Sync implements [zapcore.WriteSyncer]. end writes the queued lines.
func (q *logQueue) Sync() error { return nil }

func (q *logQueue) end(ctx context.Context) {
	close(q.stopped)
	select {
	case <-q.ended:
	case <-ctx.Done():
	}
}

func (q *logQueue) writeLines() {
	defer close(q.ended)
	for {
		select {
		case line := <-q.lines:
			q.writeLine(line)
		case <-q.stopped:
			for n := len(q.lines); n > 0; n-- {
				q.writeLine(<-q.lines)
			}
			return
		}
	}
}

func (q *logQueue) writeLine(line []byte) {
	if _, err := q.out.Write(line); err != nil {
		q.lost.Add(1)
	}
}

func (q *logQueue) metric() prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "bank_log_lines_lost_total",
		Help: "Lines of the log that were left out: nobody reads it, or its disk is full."},
		func() float64 { return float64(q.lost.Load()) })
}
