package replicahttp

import "sync"

const (
	// bodyBuffer is the size of the buffer with which a body is passed on.
	bodyBuffer = 32 << 10
	// streamBuffer is the same for a stream, whose events are small. It is held as long
	// as the stream is open.
	streamBuffer = 2 << 10
)

var (
	bodyBuffers   = sync.Pool{New: func() any { return new([bodyBuffer]byte) }}
	streamBuffers = sync.Pool{New: func() any { return new([streamBuffer]byte) }}
)

// buffers is the [httputil.BufferPool] of one proxy.
type buffers struct {
	small bool // the response is an event stream, which stays open and has short pieces
}

// Get implements [httputil.BufferPool].
func (b *buffers) Get() []byte {
	if b.small {
		return streamBuffers.Get().(*[streamBuffer]byte)[:]
	}
	return bodyBuffers.Get().(*[bodyBuffer]byte)[:]
}

// Put implements [httputil.BufferPool].
func (b *buffers) Put(p []byte) {
	switch len(p) {
	case streamBuffer:
		streamBuffers.Put((*[streamBuffer]byte)(p))
	case bodyBuffer:
		bodyBuffers.Put((*[bodyBuffer]byte)(p))
	}
}
