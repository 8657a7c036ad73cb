// Package natsbus connects the routers of several replicas of a gateway with
// NATS, so that a client's reply may arrive at any of them.
//
//	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
//	...
//	js, err := jetstream.New(nc)
//	...
//	bus, err := natsbus.New(ctx, js, nil)
//	...
//	router, err := elicitation.New(&elicitation.Options{
//		Bus: bus, Keys: ring.Derive(elicitation.KeyPurpose),
//	})
//
// To shut down, call [elicitation.Router.Shutdown], then [Bus.Close], then nc.Close.
//
// # How it works
//
// The id of a question names the replica that asked. A replica that receives a reply to a
// question of another one sends it to the subject of the owner, over core NATS, and gets the
// answer. So a question costs nothing here, a reply that arrives at another replica costs a
// request, and JetStream may elect its leader meanwhile. What the owner says about a reply is
// the same at every replica: a second one is a duplicate, for as long as the owner remembers
// the question.
//
// A message that is not answered within half a second is sent again, because core NATS may
// lose it. The router counts each reply once.
//
// A directory in a JetStream key-value bucket has the rest: which replica waits for the
// completion of a visit to a URL, which the upstream names, and whether a replica that does
// not listen is gone. A claim there is one conditional write, decided by the leader of the
// bucket and stored by a majority.
//
// Messages longer than the server accepts are sent in parts, so that servers with
// the default max_payload carry what [elicitation.MaxBusMessage] allows.
//
// # Replicas that die, networks that break
//
// When a process ends the server to which it was connected closes its subscription at once:
// nobody listens at its subject. The same is seen of a replica that is reconnecting, and of
// one whose server is cut off from others. So each replica writes the name of its server into
// the directory, and counts as gone when nobody listens, the leader of the directory has been
// in contact with that server since, and [Options].Grace has passed: Send and SendTo return
// [elicitation.ErrOwnerDead] then. That takes less than two seconds while the servers are
// well. It takes longer, some twenty seconds at times, just after the directory had no
// leader or the server could not be reached, since servers restore their connections one
// by one. If the server died with the replica nobody can tell: the error leaves it open,
// until the directory forgets the replica, after twelve times [Options].Lease. The bucket
// should be kept by all servers to which replicas connect; for a replica of another server
// its lease alone decides, which takes as long as that lasts.
//
// Every replica holds a lease, which it renews. Other replicas may take over the claims of a
// replica without a lease; otherwise these end with their time to live.
//
// A replica that is cut off from the majority of a JetStream cluster can ask, and can be
// answered by whoever reaches it, but can neither claim nor report that a key is unknown;
// both fail within [Options].Timeout. When the partition has ended, questions that are still
// pending can be answered as before. If the directory is lost, the replicas create it again
// and restore what they have in it.
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
// Do so where several replicas start on a single server. One that is no cluster may make two of
// it when replicas create it at the same moment and the first creation fails at the disk. Replicas
// look for a second one when the bucket is 300 ms old, and refuse to start if there is one: remove
// the bucket, restart the server, and create the bucket.
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
// and use TLS where others can read the network. The directory holds digests, random
// names of replicas and names of servers, no keys and no messages. Messages are not
// logged, nor passed to [Options].Failed. Everything that arrives is checked in size and shape
// all the same. A replica answers no more than [MaxAnswering] messages at a time,
// and publishes answers on subjects of the bus only.
package natsbus
