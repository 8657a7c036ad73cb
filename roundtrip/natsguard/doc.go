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
//		Roundtrip: roundtrip.Options{Sealer: ring, RequireSharedKey: true, Guard: guard},
//	})
//
// [Guard] is a [roundtrip.Guard] and [StateStore] a [roundtrip.StateStore].
// The replicas must share the sealing key, too: a guard knows states by what
// they say, and only who opens a state can read that.
//
// # What is promised
//
// Of all requests that present one state, to whichever replica, one runs the
// handler. The others get the outcome of that one, once it is recorded and if
// their answers are the same; until then they are told to come back in a moment
// ([protocol.CodeBusy]). With other answers they are refused, and so they
// are when nothing has been heard of the handler for two minutes. This holds while servers of the cluster come and go, because a claim
// is one conditional write to the stream behind the bucket, decided by its
// leader and stored by a majority. A replica that has lost its claim, whatever
// the reason, can neither commit nor release it: both are conditional upon the
// revision that the claim was stored as. For about a second after a partition,
// while a server that led the bucket before does not know yet that it leads no
// more, a replay may be refused although the outcome has been recorded.
//
// When NATS does not answer within [Options].Timeout the request is refused
// and the handler does not run. It may be that the claim was stored and only
// the news of it got lost; the state is then spent, and the client has to begin
// again. First legs, which carry no state, go on being served.
//
// A claim is kept until the state itself expires, and then forgotten key by
// key, by servers from 2.11 on. Older ones forget the whole bucket's keys after
// [Options].Longest.
//
// # What one principal may use
//
// One principal may use a quarter of a bucket, see [Options].Share, over all
// replicas; one that has used it up, and everybody when the bucket is full, is
// refused with a [roundtrip.QuotaError], which clients get as a request to come
// back later. Anonymous callers are one principal. They may use the whole bucket,
// or all but a quarter for a replica that has seen somebody authenticate since it
// was started.
//
// What each uses is counted in the bucket, in units of 512 bytes: a claim is one
// without its outcome, which is recorded only while less than half of the share is
// used. Replicas reserve units by conditional writes before they use them, so the
// upper bound is exact but for what each replica lets an owner use without that: 16
// units in ten minutes of what expires in the same five minutes. What is
// approximate is how soon they come back: units that a replica has reserved and not
// used count until the claims that they were reserved for have expired. That is
// never more than the replica has used, nor than a 512th of the share in five
// minutes. Clocks of replicas that differ by more than two minutes make it less
// exact.
//
// When the count cannot be read or written the request is refused, like one whose
// claim cannot be stored.
//
// # What is stored
//
// A bucket holds digests: a key is a digest of the id of a state, and what is
// compared with the answers of a replay is a digest of them and of the id. An
// outcome is encrypted under a key that is derived from the id. The id cannot
// be guessed and stands nowhere but in the sealed state, so that reading the
// bucket reveals how many states are used and when, and how long outcomes are.
// The count of a principal is stored under a digest of its issuer and subject: who
// can guess those learns how much it uses.
// What a [StateStore] is given was encrypted before.
//
// Writing to the bucket is another matter. Who deletes a claim makes a state
// usable again; who writes to a claim makes it spent. Nobody can forge an
// outcome or a state.
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
// What a server acknowledges it has written to a file, but by default it tells
// the disk to keep that every two minutes. A cluster of three survives the loss
// of one; a single server that must survive the loss of power needs
// sync_interval: always.
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
