// Package redisstore keeps the questions of forwarders that own no connection in Redis.
//
//	store, err := redisstore.New(redis.NewClient(&redis.Options{
//		Addr: address, ContextTimeoutEnabled: true,
//	}), nil)
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
// # What an operator has to do
//
// Set ContextTimeoutEnabled in the options of the client. Without it the client ignores the
// deadline of a call. When Redis does not answer, a question is then refused only after
// ReadTimeout, several times over because the client retries, and not after five seconds.
//
// A client that reads from replicas (ReadOnly, RouteByLatency or RouteRandomly) finds no
// record that was stored a moment ago: the reply to it is refused as expired. Leave them off.
//
// An eviction policy must not remove records: use noeviction, or a database whose policy
// spares what still has long to live.
package redisstore
