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
// The tables are made by [CreateTables], once, or by a migration of yours with the text of
// [Schema]. The replicas must share the sealing key, too: a guard identifies a state by an id
// inside the seal.
//
// An effect that is itself a row of one database needs no guard. Insert its
// roundtrip.IdempotencyKey in the transaction of the effect, into a table where it is unique:
//
//	insert into payments (key, cents) values ($1, $2) on conflict (key) do nothing
//
// # What is promised
//
// Of all requests that present one state, to whichever replica, one runs the handler. The others
// get its outcome, if their answers are the same, as soon as it is recorded; until then they are
// refused with [protocol.CodeBusy] and may retry. Requests with other answers are refused. So
// are the same answers when the replica that runs the handler has died: once its [store.Lease]
// has run out, copies are told that the outcome is not known.
//
// This holds because a claim is one row with a unique key, which the database inserts or refuses.
// It also holds in a failover of PostgreSQL if the new primary has every transaction that the old
// one has confirmed: set synchronous_standby_names. With asynchronous replication the claims of
// the last moment may be lost, and with them that these states were used.
//
// When the database does not answer within five seconds, is read-only or full, or has tables
// of another version, the request is refused and the handler does not run. If the claim was
// stored and only its acknowledgement was lost, a retry that arrives at the same replica holds
// it. Retries at other replicas are told that the request runs, and after the lease that its
// outcome is not known; the client must start over. First legs, which carry no state, are served
// as before.
//
// # What one principal may use
//
// One principal may use a quarter of [Options].MaxEntries and MaxBytes, over all replicas.
// Anonymous callers are one principal. They may use everything, or all but a quarter once the
// replica has seen an authenticated caller. Who has used up its share, or everybody when there is
// no room at all, is refused with a [store.QuotaError].
//
// # Tasks
//
// A [Store] is the store of package server/tasks, too: set tasks.Options.Store and Keys. A task is
// one row, which each change replaces if nobody has changed it meanwhile. What has been
// acknowledged survives a failover under the same condition as a claim. A database that does not
// answer within five seconds refuses the call that would begin a task; a run that is under way
// tries to store what came of it for as long as its lease lasts. After the database is restored
// from a backup, tasks go on from where they were then: see package server/tasks.
//
// Rows of tasks are deleted when they need not be kept any longer, some hundred at a time, by the
// sweeps of package server/tasks.
//
// # Clocks
//
// Leases, the times of tasks and the deletion of rows go by the clock of the database. The row of a
// claim or a state is kept for ten minutes longer than its state lasts, by the clock of the caller
// and by that of the database, so clocks may differ by some minutes. It is deleted while requests
// come, some hundred at a time.
//
// # What is stored
//
// The tables hold digests: of the id of a state, of the answers together with the id, and of the
// principal. An outcome is encrypted under a key that is derived from the id. The id cannot be
// guessed and is stored only in the sealed state. So reading the database reveals how many
// states are used and when, and how long outcomes are. What is given to [Store.Put] was
// encrypted before, and so were the records of tasks: beside them the rows of tasks hold digests
// and times, and whether a task is over and which process runs it.
//
// Write access is another matter. Who deletes a claim makes a state usable again. The same is
// true of a database that is restored from a backup: states of flows that were under way can be
// used again, for as long as they last. To rule that out, change the sealing key too.
//
// # What an operator has to do
//
// Create the tables. The account of the server needs to select, insert, update and delete in
// rondo_claims, rondo_states, rondo_tasks, rondo_wakes and rondo_usage, and to select from
// rondo_schema. Do not delete rows by hand: rondo_usage counts them. Bound the connections of each
// replica (sql.DB.SetMaxOpenConns), so that all together stay below what the database has; a claim
// waits for one within five seconds. Servers that share a database differ in [Options].Service.
package sqlstore
