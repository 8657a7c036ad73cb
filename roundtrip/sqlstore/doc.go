// Package sqlstore makes states single-use across the replicas of a server, and keeps the large
// ones and the tasks, in a database that they share: PostgreSQL, or SQLite on one machine. It uses
// package database/sql alone; the driver is yours.
//
//	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
//	...
//	shared, err := sqlstore.New(ctx, db, nil)
//	...
//	srv, err := server.New(&server.Options{
//		Info: protocol.Implementation{Name: "bank", Version: "1.0.0"},
//		Roundtrip: roundtrip.Options{
//			Sealer: ring, Guard: shared, StateStore: shared,
//		},
//	})
//
// [CreateTables] makes the tables, once, or a migration of yours with the text of [Schema]. The
// replicas must share the sealing key, too: a guard identifies a state by an id inside the seal.
//
// An effect that is itself a row of one database needs no guard. Insert its
// roundtrip.IdempotencyKey in the transaction of the effect, into a table where it is unique:
//
//	insert into payments (key, cents) values ($1, $2) on conflict (key) do nothing
//
// # Guarantees
//
// Of all requests with the same state, at any replica, one runs the handler. Requests with the same
// answers get its outcome as soon as it is recorded; until then they are refused with
// [protocol.CodeBusy] and may retry. Requests with other answers are refused. If the replica that
// runs the handler has died, and its [store.Lease] has run out, copies are told that the outcome is
// not known.
//
// This holds because a claim is one row with a unique key, which the database inserts or refuses.
// It also holds in a failover of PostgreSQL if the new primary has every transaction that the old
// one has confirmed: set synchronous_standby_names. With asynchronous replication the last claims
// may be lost, and their states can be used again.
//
// If the database does not answer within five seconds, is read-only or full, or has tables of
// another version, the request is refused and the handler does not run. If the claim was stored and
// only its acknowledgement was lost, a retry at the same replica gets the claim. Retries at other
// replicas are told that the request runs, and after the lease that its outcome is not known; the
// client must start over. First legs, which carry no state, are served as before.
//
// # Quotas
//
// One principal may use a quarter of [Options].MaxEntries and MaxBytes, over all replicas.
// Anonymous callers are one principal. They may use everything, or all but a quarter once the
// replica has seen an authenticated caller. Over a limit requests are refused with a
// [store.QuotaError].
//
// # Tasks
//
// A [Store] is the store of package server/tasks, too: set tasks.Options.Store and Keys. A task is
// one row, which each change replaces with optimistic locking. Acknowledged changes survive a
// failover under the same condition as a claim. A database that does not answer within five seconds
// refuses the call that would begin a task; a run tries to store its progress for as long as its
// lease lasts. After a restore from a backup, tasks go on from their state then: see package
// server/tasks. The sweeps of package server/tasks delete expired tasks, some hundred at a time.
//
// # Clocks
//
// Leases, the times of tasks and the deletion of rows go by the clock of the database. The row of a
// claim or a state is kept for ten minutes longer than its state lasts, by the clocks of the caller
// and of the database, so clocks may differ by some minutes. Requests delete expired rows, some
// hundred at a time.
//
// # Stored data
//
// The tables hold digests: of the id of a state, of the answers together with the id, and of the
// principal. An outcome is encrypted under a key derived from the id, which cannot be guessed and
// is stored only in the sealed state. So reading the database reveals how many states are used and
// when, and how long outcomes are. States and records of tasks are encrypted before they are
// stored; beside a record the row of a task has digests and times, whether it is over, and which
// process runs it.
//
// Whoever can delete a claim makes a state usable again, and so does a restore from a backup, for
// as long as the states last. To rule that out, change the sealing key too.
//
// # Operation
//
// Create the tables. The account of the server needs to select, insert, update and delete in
// rondo_claims, rondo_states, rondo_tasks, rondo_wakes and rondo_usage, and to select from
// rondo_schema. Do not delete rows by hand: rondo_usage counts them. Bound the connections of each
// replica (sql.DB.SetMaxOpenConns), so that all together stay below the limit of the database; a
// claim waits at most five seconds for one. Servers that share a database differ in
// [Options].Service.
package sqlstore
