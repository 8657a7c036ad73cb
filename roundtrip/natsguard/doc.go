// Package natsguard makes states single-use across the replicas of a server,
// and keeps the large ones, in NATS JetStream key-value buckets.
//
//	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
//	...
//	js, err := jetstream.New(nc)
//	...
//	guard, err := natsguard.New(ctx, js, nil)
//	...
//	srv, err := server.New(&server.Options{
//		Info:      protocol.Implementation{Name: "files", Version: "1.0.0"},
//		Roundtrip: roundtrip.Options{
//			Sealer: ring, RequireSharedKey: true, Guard: guard,
//		},
//	})
//
// [Guard] is a [store.Guard] and [StateStore] a [store.StateStore].
// The replicas must share the sealing key, too: a guard identifies a state by an
// id inside the seal.
//
// # What is promised
//
// Of all requests that present one state, to whichever replica, one runs the
// handler. The others get its outcome, if their answers are the same, as soon as
// it is recorded; until then they are refused with [protocol.CodeBusy] and may
// retry. Requests with other answers are refused, and so are all that come when a
// claim has had no outcome for two minutes.
//
// This holds while servers of the cluster fail and return, because a claim is one
// conditional write to the stream behind the bucket, decided by the leader and
// stored by a majority. A replica that has lost its claim can neither commit nor
// release it: both expect the revision of the claim. For about a second after a
// partition a deposed leader may still answer reads; meanwhile a replay may be
// refused although the outcome has been recorded.
//
// When NATS does not answer within [Options].Timeout the request is refused
// and the handler does not run. If the claim was stored and only its
// acknowledgement was lost, a retry that arrives at the same replica adopts it. Retries at
// other replicas are refused with [protocol.CodeBusy] for two minutes, like those of a
// request that runs. If the replica has died since, the state is spent and the client must
// start over.
// First legs, which carry no state, are served as before.
//
// Servers from 2.11 on keep a claim until the state expires. Older ones keep every
// claim for [Options].Longest.
//
// # What one principal may use
//
// One principal may use a quarter of a bucket, see [Options].Share, over all
// replicas. A principal that has used it up is refused with a
// [store.QuotaError], and so is everybody when the bucket is full; clients are
// asked to retry later. Anonymous callers are one principal. They may use the whole
// bucket, or three quarters once the replica has seen an authenticated caller.
//
// Use is counted in the bucket, in units of 512 bytes. A claim without its outcome
// is one unit. An outcome is recorded only while less than half of the share is
// used. Replicas reserve units by conditional writes before they use them, so the
// upper bound is exact but for the units that each replica lets an owner use
// without reserving them: 16 in ten minutes of those that expire in the same five
// minutes. When units become free is approximate: those that a replica has reserved
// and not used count until the claims that they were reserved for have expired.
// They are never more than the replica has used, nor than a 512th of the share in
// five minutes. Clocks of replicas that differ by more than two minutes make it
// less exact.
//
// When the count cannot be read or written the request is refused, like one whose
// claim cannot be stored.
//
// # What is stored
//
// A bucket holds digests: a key is a digest of the id of a state, and what is
// compared with the answers of a replay is a digest of them and of the id. An
// outcome is encrypted under a key that is derived from the id. The id cannot
// be guessed and is stored only in the sealed state, so that reading the bucket
// reveals how many states are used and when, and how long outcomes are. The
// count of a principal is stored under a digest of its issuer and subject: whoever
// can guess those learns how much it uses. What a [StateStore] is given was
// encrypted before.
//
// Write access is another matter. Deleting a claim makes a state usable again, and
// overwriting one makes a state spent. Nobody can forge an outcome or a state.
//
// A bucket that is removed, or lost with the disk of its server, takes its claims with it.
// While there is none, all claims are refused. When one has been created anew, which a
// replica that starts does, states of flows that were under way can be used again, for as long
// as they last. Guards that run do not notice. To rule that out, change the sealing key too.
//
// # What an operator has to do
//
// The bucket is created at first use, with three replicas in a cluster. One
// that exists is used as it is, but refused if it could forget a claim too
// early or grow for ever: it must keep files, one value for each key, discard
// new entries and not old ones when it is full, and have either a time to live
// for each key (LimitMarkerTTL) or a max age of at least [Options].Longest.
//
//	nats kv add rondo_guard --replicas 3 --storage file --history 1 --marker-ttl 1s
//
// A server acknowledges what it has written to a file, but by default it syncs the
// file only every two minutes. A cluster of three survives the loss of one server.
// A single server that must survive the loss of power needs sync_interval: always.
//
// Before several replicas start for the first time on a single server, create the bucket. A
// server that is no cluster may make two of it when replicas create it at the same moment and
// the first creation fails at the disk; both take claims then, so that each of two replicas might
// win one. New waits until a bucket of a single server is 300 ms old, sends it a write that
// stores nothing, and fails if it gets two answers. A second creation that takes longer than
// that, because the disk is slow, may go unnoticed; a bucket that was created beforehand has no
// twin. Where New has found one, remove the bucket, restart the server, and create the bucket.
//
// The account that replicas use needs, for the bucket rondo_guard:
//
//	publish    $KV.rondo_guard.>
//	           $JS.API.STREAM.INFO.KV_rondo_guard
//	           $JS.API.STREAM.MSG.GET.KV_rondo_guard
//	           $JS.API.INFO, $JS.API.STREAM.CREATE.KV_rondo_guard (to create it)
//	subscribe  _INBOX.>
//
// Nobody else should have any of them.
package natsguard
