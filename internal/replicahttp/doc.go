// Package replicahttp passes requests for a session on to the replica that owns it. What
// replicas say to each other is in package replica.
//
//	client ──→ Forwarder ── challenge ──→ owner     once per watchInterval at most
//	               │     ←── proof ─────
//	               └─────── request, hop ──→ owner ──→ handler
//	client ←──────────────  response, reply ──┘
//
// A request is passed on once. Its owner checks the hop, then serves it as it serves
// its own clients' requests: it authenticates the caller again.
package replicahttp
