package servertest

// This file serves lines and HTTP over pipes within the process. Waiting for a pipe is durably
// blocking in testing/synctest, so both ends run in fake time. A loopback connection would stop the
// clock.

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// ServeLines runs serve on one end of a connection and returns the other. When the test ends, the
// client's end is closed, ctx is cancelled, and serve must return.
func ServeLines(t testing.TB, serve func(ctx context.Context, in io.Reader, out io.Writer)) (
	r io.ReadCloser, w io.WriteCloser) {
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	// t.Context would end before cleanups, but the server must see the end of input first.
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var serving sync.WaitGroup
	serving.Go(func() {
		defer toClient.Close()
		serve(ctx, fromClient, toClient)
	})
	t.Cleanup(func() {
		_ = toServer.Close()
		_ = fromServer.Close() // unblocks a writer
		cancel()
		serving.Wait()
	})
	return fromServer, toServer
}

// PipeURL is the apparent address of a pipe server. The loopback host passes Host checks.
const PipeURL = "http://127.0.0.1/"

// A PipeServer serves HTTP over pipes. They are unbuffered, so unread data blocks the writer.
type PipeServer struct {
	t        testing.TB
	listener *listener
	server   http.Server
	serving  sync.WaitGroup
}

// ServePipe starts a server, closed when t ends. In a synctest bubble, pass the bubble's T.
func ServePipe(t testing.TB, h http.Handler) *PipeServer {
	s := &PipeServer{t: t, listener: newListener()}
	s.server.Handler = h
	s.serving.Go(func() {
		if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(s.Close)
	return s
}

// StartPipe returns a pipe server as a [httptest.Server], which only its own client reaches.
func StartPipe(t testing.TB, h http.Handler) *httptest.Server {
	l := newListener()
	ts := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	ts.Start()
	ts.Client().Transport.(*http.Transport).DialContext =
		func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) }
	t.Cleanup(ts.Close)
	return ts
}

// Client returns a client that has its own connections to the server and ignores the URL's host.
func (s *PipeServer) Client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: s.DialContext}}
}

// Dial returns a connection to the server. It is closed when the test ends.
func (s *PipeServer) Dial() net.Conn {
	s.t.Helper()
	conn, err := s.DialContext(s.t.Context(), "", "")
	noError(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// DialContext does the same with the signature of [net.Dialer.DialContext]. It ignores the address.
func (s *PipeServer) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	return s.listener.dial(ctx)
}

// Close closes all connections and waits for the server to end. It may be called again.
func (s *PipeServer) Close() {
	_ = s.server.Close()
	s.serving.Wait()
}

type listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newListener() *listener {
	return &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// dial returns the client's end of a new pipe once the server has accepted the other end.
func (l *listener) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

func (*listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
