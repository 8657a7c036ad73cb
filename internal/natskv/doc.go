// Package natskv stores what the replicas of a server decide together in a NATS
// JetStream key-value bucket.
//
// The key-value interface of nats.go is not enough for that. It drops the time
// to live of a key when the key is updated, and it lets any server that has a
// copy of the bucket answer reads. So a [Bucket] publishes to the stream behind
// the bucket and asks the leader of the stream.
//
// Two kinds of methods differ in who retries. [Bucket.Get], [Bucket.Put],
// [Bucket.PutAfter] and [Bucket.Remove] make one attempt. [Bucket.Retry] repeats
// attempts until its context ends, and [Bucket.Find] does so itself.
//
// A server that was deposed as leader, and has not noticed yet, answers reads
// for as long as a second. It may not have seen what was stored meanwhile.
// Before a caller acts on the absence of a key it must use Find, which knows how
// far the answering server has come.
package natskv
