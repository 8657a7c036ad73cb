// Package replicahttp passes requests for a session on to the replica that owns it. What
// replicas say to each other is in package replica.
//
//	client ──→ Forwarder ── challenge ──→ owner     at most once per replica.ChannelUse
//	               │     ←── proof ─────
//	               └─────── request, hop ──→ owner ──→ handler
//	client ←──────────────  response, reply ──┘
//
// While a request is in flight the owner proves itself again. A request whose owner stays silent
// ends: see watchHop.
//
// A request is passed on once. Its owner checks the hop, then serves it as it serves
// its own clients' requests: it authenticates the caller again.
package replicahttp
