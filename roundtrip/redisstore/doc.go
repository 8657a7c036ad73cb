// Package redisstore makes states single-use across replicas, and keeps large ones, in a Redis.
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
// Of all requests with the same state, at any replica, only one runs the handler, as long as there
// is one Redis that loses nothing. The others get its outcome or are refused, as with package
// sqlstore. If Redis does not answer, loads its data, is full or is a replica, the request is
// refused and the handler does not run.
//
// Redis replicates asynchronously. In a failover the last claims may be lost, and their states can
// be used again, for a second charge. A restart may lose the last second of an append-only file
// that is not always synced, and without such a file everything since the last snapshot. If that
// must not happen, use sqlstore with synchronous replication in PostgreSQL.
//
// An emptied Redis is detected by a marker with the time of first use. If the marker is missing, or
// younger than states can be, states that may be older than it are refused until they expire: see
// [Options].Longest. This also applies after the very first start: for two minutes, plus the
// difference for states that last less than Longest. A Redis that lost keys but not the marker is
// not detected.
//
// # Stored data
//
// A claim is a hash under a digest of the state's id, with a digest of the answers and an outcome
// encrypted under a key derived from the id. It expires ten minutes after its state. Write access
// can make a state usable again. Usage is counted under a digest of the principal, at most a
// quarter of [Options].MaxEntries and MaxBytes each.
//
// Tasks, which must not be lost in a failover, are stored by package sqlstore only.
//
// # Operation
//
// Set maxmemory-policy to noeviction, which [New] checks, and appendonly to yes.
//
// Set ContextTimeoutEnabled in the client's options. Without it the client ignores deadlines and
// retries: if Redis is silent, a request is refused after several ReadTimeouts, not 5 s.
//
// Do not let the client read from replicas (ReadOnly, RouteByLatency, RouteRandomly): they may lag.
package redisstore
