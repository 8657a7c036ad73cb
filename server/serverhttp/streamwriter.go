package serverhttp

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/rondo-mcp/rondo/internal/wire/replay"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
)

// A streamWriter sends a legacy client's stream as one HTTP response. Its calls may outlive it.
type streamWriter struct {
	rw      *responseWriter                // nil after the response
	timed   atomic.Pointer[responseWriter] // the same, for the keep-alive timer
	reader  replay.Reader
	batch   bool  // write responses as an array
	only    *call // the only call, whose response it sends as JSON; nil if there are several
	resumed bool  // it continues a stream
	// closed when the server closes: send queued events, then end; may be nil
	closing <-chan struct{}
	last    bool // closing was closed
}

func newStreamWriter(rw *responseWriter) *streamWriter {
	c := &streamWriter{rw: rw}
	c.reader.Init()
	return c
}

// sendAll sends until the stream is over, or the client is gone (ctx) or stops reading.
func (c *streamWriter) sendAll(ctx context.Context) {
	defer c.releaseResponse()
	defer c.reader.Detach()
	c.rw.setStreamWriter(c)
	for {
		batch := c.reader.Next()
		err := c.sendBatch(batch)
		c.reader.Release()
		if err != nil || batch.Over || c.last {
			c.rw.closeStream()
			return
		}
		if !c.awaitMore(ctx) || c.rw.hasFailed() {
			c.rw.abandonClient()
			return
		}
	}
}

// releaseResponse drops references, because the runtime keeps stopped timers for long.
func (c *streamWriter) releaseResponse() {
	c.rw = nil
	c.timed.Store(nil)
}

func (c *streamWriter) sendKeepAlive() {
	if rw := c.timed.Load(); rw != nil {
		rw.sendKeepAlive()
	}
}

// awaitMore reports false when the client is gone.
func (c *streamWriter) awaitMore(ctx context.Context) bool {
	select {
	case <-c.reader.Woken():
		return true
	case <-c.reader.LogEnded():
		return true
	case <-c.closing:
		c.last = true
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *streamWriter) sendBatch(b replay.Batch) error {
	switch {
	case b.IsStream:
		return c.sendEvents(b)
	case !b.Over:
		return nil
	case b.Cut:
		f := sessionGoneFault()
		f.header, f.value = rules.HeaderOutcome, "unknown"
		c.rw.refuseRequest(f)
		return nil
	case len(b.Events) == 0: // cancelled requests are not answered
		return c.rw.writeEvents(nil)
	}
	status := http.StatusOK
	if c.only != nil && c.only.lack != nil {
		status = c.rw.challengeLack(c.only.id, c.only.lack)
	}
	if c.rw.eventsOnly && status == http.StatusOK {
		return c.rw.writeEvents(b.AppendSSE(nil, true, false))
	}
	return c.rw.writeJSONText(status, c.joinResponses(b.Events))
}

func (c *streamWriter) joinResponses(responses [][]byte) []byte {
	if !c.batch {
		return responses[0]
	}
	body := []byte{'['}
	for i, r := range responses {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, r...)
	}
	return append(body, ']')
}

func (c *streamWriter) sendEvents(b replay.Batch) error {
	buf := c.rw.takeBuffer()
	defer c.rw.putBuffer(buf)
	streams := c.rw.isStreaming()
	*buf = b.AppendSSE((*buf)[:0], !streams, c.resumed)
	if len(*buf) == 0 && streams {
		return nil
	}
	return c.rw.writeEvents(*buf)
}

// codeSessionGone is for a lost session; these revisions do not define a code.
const codeSessionGone = -32001

// textSessionGone: the code and text that common clients compare; no id, as in the TypeScript SDK.
const textSessionGone = `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`

// sessionGoneFault makes the client open another session (basic/transports, "Session Management").
func sessionGoneFault() *fault {
	return &fault{
		status: http.StatusNotFound, reason: words.RefusedSessionGone, text: textSessionGone,
		err: protocol.Errorf(codeSessionGone, "Session not found"),
		cause: errors.New("Mcp-Session-Id names no session of this principal in this process: " +
			"it has expired (serverhttp.Options.SessionTimeout), was deleted, " +
			"belongs to somebody else or to another replica; the client initializes again"),
	}
}
