package elicitation

import (
	"context"
	"time"
)

// A Bus connects the routers of several replicas: it carries a message to a replica that
// is named, or to the one that has claimed a key, and the answer back. A Bus value is one
// replica's end of it. [NewHub] connects routers of one process; other packages do so over
// a network. Package bustest checks an implementation against this contract.
//
// Questions are routed by name: the id of a question holds the name of its owner (see
// [Options].Keys), so that no question depends on the directory of claims. What somebody
// else names, such as the visits to URLs that an upstream reports, is found by its key.
//
// Keys are made by the router: at most 64 bytes of lower-case letters, digits
// and dots, and a key that was claimed is never used again once released. Messages and
// answers are opaque, mostly under a kilobyte, and at most [MaxBusMessage].
//
// Replicas on a bus trust each other: whoever can send on it can answer any
// question.
//
// All methods may be called concurrently.
type Bus interface {
	// Name returns the name of this end: 1 to 32 lower-case letters and digits, drawn at
	// random when the end was opened, which no other end has or will have. It says nothing
	// about the host.
	Name() string

	// Listen installs the function that answers messages which other replicas
	// send to this one. It is called once, before anything
	// else; a second call is an error. The function may be called concurrently,
	// returns promptly, and does not keep message. It also gets messages for
	// claims that were released a moment ago.
	Listen(answer func(ctx context.Context, key string, message []byte) []byte) error

	// SendTo carries message to the replica with the given name and returns its answer.
	// key is passed on: it says what the message is for, and nobody has to have claimed
	// it. The replica may be this one. No directory is used as long as the replica can be
	// reached.
	//
	// [ErrOwnerDead] says that the replica is gone for good, and with it whatever it did
	// about the message; it is returned within two seconds. A replica that may be there and
	// that cannot be reached at the moment is not gone: SendTo tries until ctx ends then.
	// With any other error, that of ctx included, the message may have been handled. SendTo
	// may deliver it several times when its answer is late.
	SendTo(ctx context.Context, name, key string, message []byte) ([]byte, error)

	// Claim makes this replica the owner of key. When it returns nil, Send of
	// any replica finds the owner. The claim ends with Release, with Close, when
	// ttl has passed (it may last somewhat longer), or when this replica dies:
	// implementations find that out by themselves, by a lease or a heartbeat,
	// within a time that they document.
	//
	// A key that another replica owns is [ErrClaimed]. When the bus cannot be
	// reached Claim returns an error no later than ctx ends.
	Claim(ctx context.Context, key string, ttl time.Duration) error

	// Release ends a claim. It returns at once and does what it can in the
	// background: what gets lost ends with its ttl. A key that this replica has
	// not claimed is ignored.
	Release(key string)

	// Send carries message to the owner of key and returns its answer. The
	// owner may be this replica.
	//
	// It fails at once, without waiting for ctx to end, with [ErrNoOwner] when
	// nobody owns key. For a key whose owner is gone it is ErrOwnerDead, or ErrNoOwner,
	// as for SendTo. Both mean that the message was not handled. With any other
	// error, that of ctx included, it may have been.
	Send(ctx context.Context, key string, message []byte) ([]byte, error)

	// Close leaves the bus and frees all claims of this replica. A Send of
	// another replica to one of them is ErrOwnerDead or ErrNoOwner from then
	// on, a SendTo to its name ErrOwnerDead; the other methods return [ErrBusClosed].
	// Close may be called again.
	// The router does not call it: who opened the bus closes it, after
	// [Router.Shutdown].
	Close() error
}

// MaxBusMessage is the longest message or answer on a [Bus], in bytes: an answer
// of the largest content, its envelope, and room.
const MaxBusMessage = 2 << 20
