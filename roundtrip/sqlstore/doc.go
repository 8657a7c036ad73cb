// Package sqlstore makes states single-use across the replicas of a server, and stores large states
// and tasks, in a shared database: PostgreSQL, or SQLite on one machine. It uses only package
// database/sql; choose any driver.
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
// Create the tables once, by [CreateTables] or a migration with the text of [Schema]. The replicas
// must also share the sealing key: a guard identifies a state by an id inside the seal.
//
// An effect that is a row of one database needs no guard. Insert its roundtrip.IdempotencyKey in
// the effect's transaction, into a table where it is unique:
//
//	insert into payments (key, cents) values ($1, $2) on conflict (key) do nothing
//
// # Guarantees
//
// Of all requests with the same state, at any replica, only one runs the handler. Requests with the
// same answers get its outcome once it is recorded; until then they are refused with
// [protocol.CodeBusy] and may retry. Others are refused. If the replica with the handler died, and
// its [store.Lease] expired, copies get the error that the outcome is unknown.
//
// A claim is one row with a unique key, which the database inserts or refuses. This survives a
// failover of PostgreSQL if the new primary has every transaction that the old one confirmed: set
// synchronous_standby_names. With asynchronous replication the last claims may be lost, and their
// states can be used again.
//
// If the database does not answer within five seconds, is read-only or full, or has tables of
// another version, the request is refused and the handler does not run. If only the acknowledgement
// of a stored claim was lost, a retry at the same replica gets the claim. Retries at other replicas
// get the error that the request runs, and after the lease that its outcome is unknown; the client
// must start over. First legs, which carry no state, are still served.
//
// # Quotas
//
// One principal may use a quarter of [Options].MaxEntries and MaxBytes, over all replicas.
// Anonymous callers are one principal. They may use everything, or three quarters once the replica
// has seen an authenticated caller. Over a limit requests are refused with a [store.QuotaError].
//
// # Tasks
//
// A [Store] is also a store for package server/tasks: set tasks.Options.Store and Keys. A task is
// one row, replaced with optimistic locking. Acknowledged changes survive a failover under the same
// condition as claims. If the database does not answer within five seconds, the call that would
// begin a task is refused; a run retries storing its progress until its lease expires. After a
// restore from a backup, tasks continue from their state at that time: see package server/tasks.
// Its sweeps delete expired tasks, some hundred at a time.
//
// # Clocks
//
// Leases, task times and row deletion use the database's clock. The row of a claim or a state is
// kept ten minutes beyond the state's expiry, by both the caller's and the database's clock, so
// clocks may differ by some minutes. Requests delete expired rows, some hundred at a time.
//
// # Stored data
//
// The tables hold digests: of a state's id, of the answers together with the id, and of the
// principal. An outcome is encrypted under a key derived from the id, which is unguessable and
// stored only in the sealed state. So reading the database reveals how many states are used and
// when, and the lengths of outcomes. States and task records are stored encrypted; beside its
// record a task's row has digests and times, whether it is over, and which process runs it.
//
// Deleting a claim makes its state usable again, and so does a restore from a backup, until the
// states expire. To rule that out, change the sealing key too.
//
// # Operation
//
// The server's account needs to select, insert, update and delete in rondo_claims, rondo_states,
// rondo_tasks, rondo_wakes and rondo_usage, and to select from rondo_schema. Do not delete rows by
// hand: rondo_usage counts them. Limit each replica's connections (sql.DB.SetMaxOpenConns), so that
// their sum stays below the database's limit; a claim waits at most five seconds for one. Servers
// that share a database must differ in [Options].Service.
package sqlstore
