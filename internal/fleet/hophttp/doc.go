// Package hophttp passes requests for a session on to the replica that owns it.
//
//	client ──→ Forwarder ── challenge ──────→ owner   every 20 s at most
//	               │     ←── proof, ticket ──
//	               └─────── request, hop ──→ owner ──→ handler
//	client ←──────────────  response, reply ──┘
//
// An [Owner] is a name, by which a host finds the address of a replica, and a random start
// number. A process that was restarted under the same name is another owner: it has none of the
// sessions, and cannot prove the start number.
//
// Whoever serves clients calls [Forwarder.AnswerChallenge] and [Forwarder.Receive] for each
// request, then [Forwarder.FindOwner] and [Forwarder.Forward]. A request is passed on once. Its
// owner checks the hop, then serves it as it serves its own clients' requests: it authenticates the
// caller again. An answer to a question goes by a [Delivery], since clients send it once: it is
// sent until the owner has it, which may get it twice.
//
// # Replays
//
// A hop is bound to the session, the method and the digest of the body, and to a ticket of the
// owner. The owner accepts a ticket for [TicketLife] by its own clock, so that the clocks of two
// replicas are never compared, and remembers the digests of the hops that it has served for as
// long: whoever reads the network between replicas cannot have one served again. Where more hops
// come than are remembered, the oldest are forgotten and their tickets end, so that senders get new
// ones.
package hophttp
