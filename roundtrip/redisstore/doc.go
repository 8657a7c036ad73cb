// Package redisstore makes states single-use across the replicas of a server, and keeps the
// large ones, in a Redis that they share.
//
//	client := redis.NewClient(&redis.Options{Addr: address, ContextTimeoutEnabled: true})
//	shared, err := redisstore.New(ctx, client, nil)
//	...
//	srv, err := server.New(&server.Options{
//		Info: protocol.Implementation{Name: "bank", Version: "1.0.0"},
//		Roundtrip: roundtrip.Options{
//			Sealer: ring, Guard: shared, StateStore: shared,
//		},
//	})
//
// # Guarantees
//
// Of all requests with the same state, at any replica, one runs the handler, as long as there is
// one Redis and it forgets nothing. The others get its outcome or are refused, as with package
// sqlstore. If Redis does not answer, loads its data, is full or is a replica, the request is
// refused and the handler does not run.
//
// Redis replicates asynchronously. In a failover the last claims may be lost, and their states can
// be used again: charged twice. A Redis that is restarted may lose the last second of an
// append-only file that it does not sync always, and everything since the last snapshot without
// such a file. If that must not happen, use sqlstore with synchronous replication in PostgreSQL.
//
// A Redis that comes back empty is detected by a marker with the time of its first use. If the
// marker is missing, or younger than a state can be, states that may be older are refused as long
// as they last: see [Options].Longest. This also applies after the very first start: for two
// minutes, and longer for states that last less than Longest, by the difference. A Redis that has
// lost some keys and not the marker is not detected.
//
// # Stored data
//
// A claim is a hash under a digest of the id of the state, with a digest of the answers and an
// outcome that is encrypted under a key derived from the id. It expires ten minutes after its
// state. Whoever can write there can make a state usable again. Usage is counted under a digest of
// the principal, at most a quarter of [Options].MaxEntries and MaxBytes each.
//
// It keeps no tasks, because they must not be lost in a failover: package sqlstore does.
//
// # Operation
//
// Set maxmemory-policy to noeviction; [New] refuses another. Set appendonly to yes.
//
// Set ContextTimeoutEnabled in the options of the client. Without it the client ignores the
// deadline of a call: if Redis does not answer, a request is refused only after several times
// ReadTimeout, because the client retries, and not after five seconds.
//
// Do not let the client read from replicas (ReadOnly, RouteByLatency or RouteRandomly): they may
// lack what was just stored.
package redisstore
