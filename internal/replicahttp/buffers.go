package replicahttp

import "sync"

// copyBytes is the size of the buffer of a response that is passed on: that of a stream,
// whose events are small, is held as long as the stream.
const copyBytes = 4 << 10

var bufferPool = sync.Pool{New: func() any { return new([copyBytes]byte) }}

// buffers is the [httputil.BufferPool] of all proxies.
type buffers struct{}

func (buffers) Get() []byte  { return bufferPool.Get().(*[copyBytes]byte)[:] }
func (buffers) Put(b []byte) { bufferPool.Put((*[copyBytes]byte)(b)) }
