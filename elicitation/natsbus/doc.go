// Package natsbus connects the routers of several replicas of a gateway with
// NATS, so that a client's reply may arrive at any of them.
//
//	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
//	...
//	js, err := jetstream.New(nc)
//	...
//	bus, err := natsbus.New(ctx, js, nil)
//	...
//	router, err := elicitation.New(&elicitation.Options{Bus: bus})
//
// In the end: [elicitation.Router.Shutdown], then [Bus.Close], then nc.Close.
//
// # How it works
//
// A directory in a JetStream key-value bucket says which replica waits for the
// reply to which question. A claim is one conditional write, and stands when
// the leader of the bucket and a majority have it. A replica that gets a reply
// to a question it did not put reads there whose it is, and sends the reply to
// that replica's subject. So a question costs a write and a background removal,
// and a reply that arrives elsewhere a read and a request; one that arrives at
// home costs nothing.
//
// Messages longer than the server takes travel in parts, so that servers with
// the default max_payload carry what [elicitation.MaxBusMessage] allows.
//
// # Replicas that die, networks that break
//
// Every replica holds a lease, which it renews. That a replica is gone is seen
// in two ways. When its connection is closed, which the server notices at once
// if the process ended, there is nobody to take the message: Send returns
// [elicitation.ErrOwnerGone], after [Options].Grace if the lease still stands,
// because the replica may just be moving to another server. When packets only
// get lost, Send ends with another error as soon as the lease has: the message
// may have arrived. The claims of a replica without a lease may be taken over,
// and are removed when their time to live ends.
//
// A replica that is cut off from the majority of a JetStream cluster can neither
// claim nor say that a question is unknown; both fail within [Options].Timeout.
// When the network is whole again, questions that are still pending can be
// answered as before. A directory that was lost is written anew by the
// replicas.
//
// # What an operator has to do
//
// The bucket is created at first use, with three replicas in a cluster. Its
// name, the Prefix and the Lease must be the same for all routers. It needs
// servers from 2.11 on. To create it beforehand, take a stream KV_rondo_bus on
// $KV.rondo_bus.> with max_msgs_per_subject 1, discard new, allow_rollup_hdrs,
// allow_msg_ttl, subject_delete_marker_ttl 1s, and allow_direct off: reads have
// to come from the leader.
//
// Whoever may publish on the subjects of the bus can answer any question, and
// whoever may subscribe to them reads the answers that pass. NATS tells the
// replicas from everybody else, nothing else does; so give them an account, or
// a user, of their own:
//
//	publish    rondo.bus.>
//	           $KV.rondo_bus.>
//	           $JS.API.STREAM.INFO.KV_rondo_bus
//	           $JS.API.STREAM.MSG.GET.KV_rondo_bus
//	           $JS.API.STREAM.CREATE.KV_rondo_bus (to create it)
//	subscribe  rondo.bus.>
//	           _INBOX.>
//
// and use TLS between servers that others can listen to. The directory itself
// holds digests and random names of replicas, no keys and no messages. Messages
// are not logged, here or by [Options].Failed. All that arrives is checked in
// size and shape all the same, a replica answers no more than [MaxAnswering]
// messages at a time, and only ever on subjects of the bus.
package natsbus
