package server

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A StreamCloser is a way back to the client ([Incoming].Back) that can hang up while its request goes
// on: the client comes back for the rest (2025-11-25 basic/transports,
// "Resumability and Redelivery"). CloseStream may be called more than once and
// while notifications are being sent.
type StreamCloser interface {
	CloseStream(ctx context.Context, retry time.Duration) error
}

// ErrCannotClose is what [Call.CloseStream] returns where the client could not
// come back: on the modern wire, over line streams, to clients older than
// revision 2025-11-25, and where there is no session.
var ErrCannotClose = errors.New("server: this stream cannot be closed before its request has been answered")

// CloseStream closes the connection on which the client waits for the response
// and tells it to ask again after retry, rounded to milliseconds; zero leaves
// that to the client. The request goes on. What it sends from now on, the
// response above all, is kept for the client within the limits of the
// transport. A handler that takes long can so spare everybody a connection.
// [ErrCannotClose] does no harm: the connection stays.
func (c *Call) CloseStream(ctx context.Context, retry time.Duration) error {
	if retry < 0 {
		return fmt.Errorf("server: close stream: retry %v is negative", retry)
	}
	if c.channel == nil {
		return ErrCannotClose
	}
	c.channel.mu.Lock()
	defer c.channel.mu.Unlock()
	if c.channel.ended {
		return ErrEnded
	}
	closer, ok := c.channel.back.(StreamCloser)
	if !ok {
		return ErrCannotClose
	}
	return closer.CloseStream(ctx, retry)
}
