package rpc

// This file has optional interfaces of the way back to a client (server.Delivery).

import (
	"context"
	"time"
)

// A BufferLender lends memory for the result of a request, which the transport does not copy. The
// response may alias that memory, or shared memory, and must not be changed. Without it a modern
// call takes 5 % more instructions and 1 to 2 KiB more per leg, one in a session 1 % and 0.8 KiB.
type BufferLender interface {
	// Lend returns the buffer to append to. It is called at most once per request, after the run.
	Lend() []byte
	// Return takes back the lent buffer, possibly grown, with the result appended if there is one.
	Return(buf []byte)
}

// A TextSender is a server.BackSender that keeps text. Questions go to SendText, encoded once.
// Without it a pushed question costs 3 % more instructions, two allocations and 0.5 KiB.
type TextSender interface {
	// SendText is Send for the JSON text of a request, which it keeps.
	SendText(ctx context.Context, request []byte) error
}

// A PushChecker is a server.BackSender that cannot send questions in a JSON response.
type PushChecker interface {
	// CannotPush returns the reason, for the client, why no question can be sent now, or "".
	CannotPush() string
}

// A TransientSender keeps messages for a disconnected client, but not transient ones (heartbeats).
type TransientSender interface {
	// SendTransient sends a notification's JSON text, which is lost if the client is disconnected.
	SendTransient(ctx context.Context, notification []byte) error
}

// A StreamCloser can close its connection while the request continues; the client reconnects for
// the rest (2025-11-25 basic/transports, "Resumability and Redelivery").
type StreamCloser interface {
	// CloseStream asks the client to reconnect after retry; zero lets the client choose. It may be
	// called repeatedly and concurrently with notifications.
	CloseStream(ctx context.Context, retry time.Duration) error
}
