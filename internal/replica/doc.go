// Package replica is what the replicas of a server say to each other about sessions that
// live in one process: whose a session is, who is at an address, and which request one of
// them passes on for a client. Package replicahttp carries it over HTTP.
//
// Everything is a token of a keyring that all replicas share and that seals nothing else
// (see [Purpose]). The first byte of the plaintext says which of these it is:
//
//	session id  owner, inner id           made by the owner, carried by the client
//	challenge   owner, nonce              to who answers at the address of the owner
//	proof       nonce, channel            from the owner: it runs, and here is a channel
//	hop         channel, sequence number  with a request that is passed on to the owner
//	reply       the same, verdict         with the response
//
// An [Owner] is a name, by which a host finds the address of a replica, and a random start
// number. A process that was restarted under the same name is another owner: it has none
// of the sessions, and cannot prove the start number.
//
// # Replays
//
// A hop is bound to the session, the method and the digest of the body, and it is accepted
// once. No clock is compared for that. The owner hands out a channel with each proof and
// keeps a window of the sequence numbers that it has seen on it, as IPsec does: a number
// that was seen, or that is below the window, is refused, as is a channel that the owner
// does not know or that is too old by its own clock. The memory for that is bounded
// ([MaxChannels]) and does not grow with the number of requests, and clocks may differ by
// any amount.
package replica
