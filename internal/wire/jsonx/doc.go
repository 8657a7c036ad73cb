// Package jsonx is strict JSON for bytes that come from a hostile peer.
//
// [Check] is the gate: one pass that accepts exactly one value of RFC 8259 in valid UTF-8, with no
// duplicate member names and at most [MaxDepth] levels. Behind the gate [Members], [Elements],
// [TextBytes], [Int] and [Boolean] read values in place, without reflection; they do not validate
// again, but they never panic, whatever they are given.
//
// [Unmarshal] and [Marshal] serve authors' Go types with the struct tags and conventions of
// encoding/json; [Decode] and [Encode] serve protocol structs off the hot path. Both match member
// names by exact case: a peer that sends "Action" next to "action" must not choose which of the two
// is read. A [Decoder] is Unmarshal made for one type, for documents behind the gate.
//
// [AppendCanonical] spells equal values equally, for digests.
//
// All functions may be called from several goroutines at once. None keeps a reference to its
// arguments, though results often alias the input, as each function says.
package jsonx

// MaxDepth is how deep arrays and objects may nest, everywhere. No message of the protocol comes
// near it; it bounds the recursion of whoever decodes next.
const MaxDepth = 64

// MaxSize is the longest document in bytes, 2 GiB less one: positions are kept in 32 bits.
// Transports set far lower limits of their own.
const MaxSize = 1<<31 - 1
