package rpc

// This file has optional interfaces of the way back to a client, which a server.Delivery carries.
// A transport without them works.

import (
	"context"
	"time"
)

// A BufferLender has memory for the result of a request, from which the transport can
// send the result without copying it. The response may then alias that memory, or
// memory that is shared between requests, and must not be changed.
//
// Without it a modern call executes 5 % more instructions and allocates 1 KiB more in
// each leg: an echo 5.2 KiB instead of 4.1, a sealed flow of two legs 15.9 instead of
// 13.9. A call in a session executes 1 % more and allocates 0.8 KiB more.
type BufferLender interface {
	// Lend returns what the result is appended to. It is called at most once
	// a request, when its handler has returned.
	Lend() []byte
	// Return gets the lent buffer, possibly grown, with the result behind its content.
	// It is not called when there is no result.
	Return(buf []byte)
}

// A TextSender is a server.BackSender that keeps messages as text. Questions go to
// SendText instead of Send, so that they are encoded once.
//
// Without it a question that is pushed in a session costs 3 % more instructions, two
// allocations and 0.5 KiB.
type TextSender interface {
	// SendText sends the JSON text of a request, which it keeps. Otherwise it is like Send.
	SendText(ctx context.Context, request []byte) error
}

// A PushChecker is a server.BackSender that may have no way for a question: a response of
// JSON holds nothing but the response.
type PushChecker interface {
	// CannotPush returns the reason, for the client, why no question can go out now;
	// empty: one can.
	CannotPush() string
}

// A TransientSender keeps messages for a client that is disconnected, and can send one
// without keeping it. Heartbeats are sent like that: a late one is worthless.
type TransientSender interface {
	// SendTransient sends the JSON text of a notification, which is lost when the client
	// is not connected.
	SendTransient(ctx context.Context, notification []byte) error
}

// A StreamCloser can close its connection while the request goes on; the client
// reconnects for the rest (2025-11-25 basic/transports, "Resumability and Redelivery").
type StreamCloser interface {
	// CloseStream tells the client to reconnect after retry, zero leaves the time to the
	// client. It may be called more than once and while notifications are being sent.
	CloseStream(ctx context.Context, retry time.Duration) error
}
