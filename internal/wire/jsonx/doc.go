// Package jsonx is strict JSON for input from hostile peers.
//
// [Check] is the gate: one pass that accepts exactly one value of RFC 8259 in valid UTF-8, without
// duplicate member names and at most [MaxDepth] levels deep. [Members], [Elements], [TextBytes],
// [Int] and [Boolean] read checked values in place without reflection; they do not validate again,
// but never panic on any input:
//
//	if err := jsonx.Check(data); err != nil {
//		return err
//	}
//	err := jsonx.Members(data, func(key, value []byte) error { … })
//
// [Unmarshal] and [Marshal] serve handlers' Go types with the struct tags and conventions of
// encoding/json, a [Decoder] is Unmarshal for one type and checked JSON, and [Decode] and [Encode]
// serve protocol structs off the hot path. All match member names by exact case: a peer that sends
// "Action" next to "action" must not choose which is read. [AppendCanonical] encodes for digests.
//
// All functions may be called concurrently. None retains its arguments, but results may alias the
// input, as documented for each.
package jsonx

// MaxDepth limits the nesting of arrays and objects, and so the recursion of decoders. No message
// of the protocol comes near it.
const MaxDepth = 64

// MaxSize limits documents to 2 GiB - 1: positions have 32 bits. Transports have lower limits.
const MaxSize = 1<<31 - 1
