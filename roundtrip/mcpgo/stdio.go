package mcpgo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/wire/lineio"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// Listen serves s on a pair of streams, usually os.Stdin and os.Stdout. It takes the place
// of s.Listen, and does for lines what [Adapter.Handler] does for HTTP. It returns when in
// ends or ctx does. Unlike server.ServeStdio it does not handle signals: use a context of
// signal.NotifyContext. Listen installs the adapter on the server of s.
func (a *Adapter) Listen(ctx context.Context, s *server.StdioServer, in io.Reader,
	out io.Writer) error {
	if known := findServer(s); known != nil {
		a.ensureInstalled(known)
	}
	w := &lineWriter{adapter: a, ctx: ctx, out: out}
	rw := &rewriter{adapter: a, session: stdioSessionID, notifier: w}
	w.rewriter = rw
	refuse := func(f refusal) error {
		a.reportRefusal(ctx, "stream", "", f)
		return w.writeLine(encodeErrorResponse(f.id, f.err))
	}
	r := &lineReader{lines: lineio.NewReader(in, a.opts.MaxMessageBytes), answerRefusal: refuse,
		limit: a.opts.MaxMessageBytes}
	return s.Listen(withRewriter(ctx, rw), r, w)
}

// lineReader reads messages strictly, and answers those that it refuses. It is used by
// one goroutine.
type lineReader struct {
	lines         *lineio.Reader
	answerRefusal func(refusal) error // answers a line
	limit         int
	rest          []byte
}

// Read returns the lines that were not refused.
func (r *lineReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		line, err := r.lines.Next()
		if errors.Is(err, lineio.ErrTooLong) {
			if err := r.answerRefusal(refusal{0, event.RefusedTooLarge, []byte("null"),
				newTooLongError(r.limit)}); err != nil {
				return 0, err
			}
			continue
		}
		if err != nil {
			return 0, err
		}
		clean, id, refused := cleanMessage(line, "")
		if refused != nil {
			if err := r.answerRefusal(refusal{0, event.RefusedMalformed, id,
				refused}); err != nil {
				return 0, err
			}
			continue
		}
		r.rest = append(clean, '\n')
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// lineWriter rewrites messages. mcp-go writes each message with one call, and calls may
// overlap.
type lineWriter struct {
	adapter  *Adapter
	ctx      context.Context // of the stream, for the observer
	rewriter *rewriter

	mu  sync.Mutex
	out io.Writer
}

// Write writes one message.
func (w *lineWriter) Write(p []byte) (int, error) {
	message, ended := bytes.CutSuffix(p, []byte{'\n'})
	if !ended || bytes.IndexByte(message, '\n') >= 0 {
		return 0, errors.New("mcpgo: mcp-go did not write one whole message")
	}
	if err := w.adapter.writeMessage(w.ctx, w.rewriter, message, w.writeLine); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *lineWriter) writeLine(message []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writeLineLocked(message)
}

func (w *lineWriter) writeLineLocked(message []byte) error {
	_, err := w.out.Write(append(append([]byte(nil), message...), '\n'))
	return err
}

func (w *lineWriter) writeNotification(message []byte, over *atomic.Bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	// A client that is gone finds out by itself.
	return !over.Load() && w.writeLineLocked(message) == nil
}

func (w *lineWriter) redelivers() bool { return false }
