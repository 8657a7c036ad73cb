// Package redisstore makes states single-use across the replicas of a server, and keeps the
// large ones, in a Redis that they share.
//
//	client := redis.NewClient(&redis.Options{Addr: address, ContextTimeoutEnabled: true})
//	shared, err := redisstore.New(ctx, client, nil)
//	...
//	srv, err := server.New(&server.Options{
//		Info: protocol.Implementation{Name: "bank", Version: "1.0.0"},
//		Roundtrip: roundtrip.Options{
//			Sealer: ring, RequireSharedKey: true,
//			Guard: shared, StateStore: shared,
//		},
//	})
//
// # What is promised
//
// Of all requests that present one state, to whichever replica, one runs the handler, as long as
// there is one Redis and it forgets nothing. The others get its outcome or are refused, as with
// package sqlstore. When Redis does not answer, loads its data, is full or is a replica, the
// request is refused and the handler does not run.
//
// Redis replicates asynchronously. In a failover the claims of the last moment may be lost, and a
// state that was used in that moment can then be used again: claimed twice, charged twice. A
// Redis that is restarted may lose the last second of an append-only file that it does not sync
// always, and all since the last snapshot if it has no such file. Where that must not happen, use
// sqlstore with a PostgreSQL that confirms synchronously: it loses no claim.
//
// A Redis that comes back empty is noticed. It keeps a marker with the time at which it was first
// used. Where the marker is gone, or is younger than a state can be, states that may be from
// before are refused as long as they last: see [Options].Longest. That is also so after the very
// first start: for two minutes, and for states that last less than Longest for as much longer as
// they last less. Redis that has lost some keys and not the marker is not noticed.
//
// # What is stored
//
// A claim is a hash under a digest of the id of the state, with a digest of the answers and an
// outcome that is encrypted under a key derived from the id. Redis forgets it ten minutes after
// its state has expired. Who can write there can make a state usable again. What one principal
// has is counted under a digest of its name: a quarter of [Options].MaxEntries and MaxBytes at
// most.
//
// It keeps no tasks: what a task has promised must not be lost in a failover. Package sqlstore
// keeps them.
//
// # What an operator has to do
//
// Set maxmemory-policy to noeviction; [New] refuses another. Set appendonly to yes.
//
// Set ContextTimeoutEnabled in the options of the client. Without it the client ignores the
// deadline of a call. When Redis does not answer, a request is then refused only after
// ReadTimeout, several times over because the client retries, and not after five seconds.
//
// A client that reads from replicas (ReadOnly, RouteByLatency or RouteRandomly) does not find
// what was stored a moment ago. Leave them off.
package redisstore
