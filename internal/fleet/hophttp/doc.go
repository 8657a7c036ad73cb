// Package hophttp forwards a session's requests to the replica that owns it.
//
//	client ──→ Forwarder ── challenge ──────→ owner   every 20 s at most
//	               │     ←── proof, ticket ──
//	               └─────── request, hop ──→ owner ──→ handler
//	client ←──────────────  response, reply ──┘
//
// An [Owner] is a name, which a host resolves to an address, and a random start number. A restarted
// process is another owner: it has none of the sessions, and cannot prove the start number.
//
// A server calls [Forwarder.AnswerChallenge] and [Forwarder.Receive] for each request, then
// [Forwarder.FindOwner] and [Forwarder.Forward]. A request is forwarded once. Its owner checks the
// hop and serves it like a client's request: it authenticates the caller again. Clients send an
// answer to a question once, so a [Delivery] sends it until the owner has it, maybe twice.
//
// # Replays
//
// A hop is bound to the session, the method, the digest of the body, and a ticket of the owner. The
// owner accepts a ticket for [TicketLife] by its own clock, so that the replicas' clocks are never
// compared, and remembers the digests of served hops for as long, so that an eavesdropper cannot
// replay one. Above a limit the oldest are forgotten and their tickets end: senders get new ones.
package hophttp
