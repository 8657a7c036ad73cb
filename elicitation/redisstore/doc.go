// Package redisstore keeps the questions of forwarders that own no connection in Redis.
//
//	store, err := redisstore.New(redis.NewClient(options), nil)
//	...
//	router, err := elicitation.New(&elicitation.Options{
//		Store: store, Keys: ring.Derive(elicitation.KeyPurpose),
//	})
//
// Such a forwarder is, for example, an external processor of Envoy: a proxy shows it what
// passes through. One instance sees the question on its way to the client, puts it with
// [elicitation.Call.Offer], and gives the proxy the request of [elicitation.Offered.Request]
// in its place. Whichever instance sees the reply hands it to [elicitation.Router.Resolve],
// and gives the proxy the response for the upstream.
//
// # What is stored
//
// One hash for each question, under [Options].Prefix and a digest of its id: the record,
// which the router has sealed, and how the question ended. It expires a little after the
// longest time that the question may last. What can be read in Redis is how many questions
// there are and when and how they ended. Who can write there can keep answers from
// arriving, and cannot make up or redirect one.
//
// # What is promised
//
// Of all replies to a question one is claimed, because a script decides. Redis replicates
// asynchronously: after a failover the last claims may be lost, and a reply that comes
// again at that moment may be claimed again. The connection of the upstream refuses it,
// since it has had its response.
//
// An eviction policy must not remove records: use noeviction, or a database whose policy
// spares what still has long to live.
package redisstore
