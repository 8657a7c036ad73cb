package servertest

// This file connects line-based clients and servers by in-process pipes, which work in fake time.

import (
	"context"
	"io"
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
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer toClient.Close()
		serve(ctx, fromClient, toClient)
	}()
	t.Cleanup(func() {
		_ = toServer.Close()
		_ = fromServer.Close() // unblocks a writer
		cancel()
		<-ended
	})
	return fromServer, toServer
}
