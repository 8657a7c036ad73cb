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
// To shut down, call [elicitation.Router.Shutdown], then [Bus.Close], then nc.Close.
//
// # How it works
//
// A directory in a JetStream key-value bucket says which replica waits for the
// reply to which question. A claim is one conditional write, decided by the leader
// of the bucket and stored by a majority. A replica that receives a reply to a
// question of another replica looks up the owner of the question and sends the
// reply to the owner's subject. So a question costs a write and a removal in the
// background. A reply costs a read and a request if it arrives at another replica,
// and nothing if it arrives at the owner.
//
// Messages longer than the server accepts are sent in parts, so that servers with
// the default max_payload carry what [elicitation.MaxBusMessage] allows.
//
// # Replicas that die, networks that break
//
// Every replica holds a lease, which it renews. That a replica is gone is detected
// in two ways. If its connection is closed, which the server notices at once when
// the process ends, nobody subscribes to its subject any more: Send returns
// [elicitation.ErrOwnerDead], after [Options].Grace if the lease still stands,
// because the replica may be reconnecting to another server. If packets only get
// lost, Send returns another error when the lease has ended: the message may have
// arrived. Other replicas may take over the claims of a replica without a lease;
// otherwise these end with their time to live.
//
// A replica that is cut off from the majority of a JetStream cluster can neither
// claim nor report that a question is unknown; both fail within [Options].Timeout.
// When the partition has ended, questions that are still pending can be answered
// as before. If the directory is lost, the replicas create it again and restore
// their claims.
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
// whoever may subscribe to them can read the answers. Only NATS authenticates the
// replicas, so give them an account, or a user, of their own:
//
//	publish    rondo.bus.>
//	           $KV.rondo_bus.>
//	           $JS.API.STREAM.INFO.KV_rondo_bus
//	           $JS.API.STREAM.MSG.GET.KV_rondo_bus
//	           $JS.API.STREAM.CREATE.KV_rondo_bus (to create it)
//	subscribe  rondo.bus.>
//	           _INBOX.>
//
// and use TLS where others can read the network. The directory holds digests and
// random names of replicas, no keys and no messages. Messages are not logged, nor
// passed to [Options].Failed. Everything that arrives is checked in size and shape
// all the same. A replica answers no more than [MaxAnswering] messages at a time,
// and publishes answers on subjects of the bus only.
package natsbus
