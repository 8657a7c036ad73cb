package wire

import (
	"bytes"
	"context"
	"maps"
	"net"
	"net/http"
	"net/url"
	"time"
)

// A Handler calls an http.Handler without a socket. Per request it makes what net/http makes
// (context, Request, header map): 5 allocations for every peer. It is not for concurrent use.
type Handler struct {
	handler http.Handler
	base    context.Context
	url     *url.URL
	headers map[string]http.Header // by tool
	more    http.Header            // headers of every request
	body    body
	w       recorder
	buf     []byte
}

// NewHandler returns a Handler that calls h.
func NewHandler(h http.Handler) *Handler {
	return &Handler{handler: h, base: connection(context.Background()), url: &url.URL{Path: "/mcp"},
		headers: map[string]http.Header{}, more: http.Header{}}
}

// SetHeader sets a header of all calls. Call it before the first Do.
func (d *Handler) SetHeader(name, value string) { d.more.Set(name, value) }

func connection(ctx context.Context) context.Context {
	return context.WithValue(ctx, http.LocalAddrContextKey,
		net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}))
}

func (d *Handler) request(ctx context.Context, method string, header http.Header,
	b *body) *http.Request {
	return (&http.Request{
		Method: method, URL: d.url, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: b, ContentLength: int64(b.Len()),
		Host: "127.0.0.1:8080", RemoteAddr: "127.0.0.1:50000", RequestURI: "/mcp",
	}).WithContext(ctx)
}

type body struct{ bytes.Reader }

func (*body) Close() error { return nil }

// A recorder keeps a response. Like net/http's writers, it can flush and has deadlines.
type recorder struct {
	header http.Header
	status int
	bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.Buffer.Write(p)
}

func (r *recorder) Flush()                           {}
func (r *recorder) SetReadDeadline(time.Time) error  { return nil }
func (r *recorder) SetWriteDeadline(time.Time) error { return nil }

// Do sends a call. The body is valid until the next call.
func (d *Handler) Do(c Call, state []byte) (int, []byte) {
	header := d.headers[c.Tool]
	if header == nil {
		header = Header(c.Tool)
		maps.Copy(header, d.more)
		d.headers[c.Tool] = header
	}
	d.buf = c.Append(d.buf[:0], state)
	return d.do("POST", header, d.buf)
}

func (d *Handler) do(method string, header http.Header, message []byte) (int, []byte) {
	ctx, cancel := context.WithCancel(d.base)
	d.body.Reset(message)
	d.w.header = make(http.Header, 4)
	d.w.status = 0
	d.w.Reset()
	d.handler.ServeHTTP(&d.w, d.request(ctx, method, header, &d.body))
	cancel()
	return d.w.status, d.w.Bytes()
}
