// Package elicitation routes an upstream server's question to the client whose
// call caused it, and the answer back.
//
// A gateway stands between clients and upstream servers. While it serves a client's tools/call by
// calling a tool upstream, the upstream may send elicitation/create: the person behind that client,
// and nobody else, is to be asked. A [Router] finds that client. The gateway registers with it the
// sessions of its clients and the calls that it makes upstream for their requests, and hands it the
// frames that come in.
//
//	router, err := elicitation.New(&elicitation.Options{Log: zaplog.New(logger)})
//	defer router.Shutdown(ctx)
//
//	// A client connects:
//	session, err := router.Attach(elicitation.SessionInfo{
//		ID: id, Principal: who, Capabilities: declared,
//	})
//	defer session.Detach()
//
//	// Its request is passed on, on a connection to the upstream:
//	origin := elicitation.Origin{Session: session}
//	call, err := router.Begin(ctx, origin, elicitation.ViaFrames(stream), connection)
//	defer call.End()
//
//	// The upstream asks, and gets what this returns:
//	result, err := call.Elicit(ctx, params)
//
//	// A client sends a response, or progress on a question:
//	disposition := router.HandleReply(session.Sender(), response)
//	disposition = router.HandleProgress(session.Sender(), notification)
//
// The example of the package is this as a program. examples/sdkgateway has gateways on the
// official Go SDK and on mcp-go.
//
// [Call.Elicit] delivers the question and waits for the answer. Hosts whose SDK calls a function
// for each question, and does not say to which call it belongs, use [Router.ElicitFrom].
//
// An upstream of revision 2025-11-25 may notify that the person has finished at a URL:
// [Router.HandleURLCompletion] passes that on to the right client.
//
// # Which call asks
//
// Calls may share a connection to the upstream. Over HTTP the stream on which a question comes
// identifies the call: package streamhttp adds its id to the question as [MetaCall]. Otherwise, as
// on stdio, [Router.ElicitFrom] asks only if a single call is in flight on the connection, and
// refuses the question if there are several: give each call its own connection there.
//
// A call whose context ended counts as in flight until [Call.ConfirmUpstreamEnd], or for as long
// as a question may last.
//
// # What is guaranteed
//
//   - A question goes to the client of the call that caused it, and is refused
//     ([ReasonAmbiguous]) when several calls may have caused it; see "Which call asks".
//   - Nothing is sent to a client that has not declared the mode: -32601 when it
//     has not declared elicitation at all, -32602 when not this mode. An empty
//     elicitation object means form mode.
//   - Ids on the client's side are the router's, and cannot be guessed. A reply
//     counts only from the session and the principal that was asked; all others
//     leave the question as it is. [Disposition] is the outcome of a reply. An SDK
//     behind an [Asker] gives its requests ids of its own and takes the replies itself:
//     of those that are late, double or of somebody else the router learns nothing.
//   - A question has one outcome, whatever arrives at the same moment. It is logged
//     once and counted once, and frees the question's slot.
//   - A router that is full refuses questions and says when to try again. It never
//     drops pending ones.
//   - A form that asks for what looks like a secret is refused, as forms of this module's
//     servers are, unless [Options].AllowSecrets lets the upstream ask.
//   - Of the client's result only the action, the content of an accept, and
//     _meta are passed on, decoded strictly and encoded anew; of _meta, in both
//     directions, not what the protocol reserves for one connection. Content that
//     does not fit the form is passed on with a warning in the log, unless
//     [Options].Validation says otherwise.
//
// # Errors
//
// A question without an answer is an [*Error]. Its [Reason] says why: it is the label of
// the metrics, and [errors.Is] finds it. Wire is what the upstream gets.
//
// # While a person thinks
//
// The client's request waits while a question of its call is pending. Middleware can watch for
// that: see package roundtrip. A question without an answer ends after [Options].Timeout; progress
// on the question restarts the timeout, up to 5 minutes more than it, or 10 minutes.
//
// # Limits
//
// Questions are counted in all ([Options].MaxPending), by principal and by session
// ([Options].MaxPerPrincipal). Anonymous sessions are one account: they may have all of MaxPending
// where no session has a principal, and else all but a quarter. A refusal names the limit and when
// to ask again; so do those of [Router.Begin], which are errors for the client's request. A call
// whose host forgot [Call.End] is ended by the router after two looks ([Options].SweepInterval).
//
// # Events
//
// With [Options.Log] each event is one entry named elicitation.created, elicitation.delivered,
// elicitation.completed, elicitation.timeout, elicitation.error, elicitation.cancelled or
// elicitation.rejected, with the fields event, which repeats that name, request_id,
// upstream_session, downstream_session, message, action and duration_ms, and where they apply
// subject, mode, call_id, client_request, candidates, reason, by, code, violation and error, and
// unseen where the client refused sooner than Options.MinHumanTime. What was rejected has an id
// that no client has seen. elicitation.leaked reports a call whose host forgot [Call.End], and
// elicitation.completion_dropped the end of a visit that no client waits for. message is the text
// of the question, escaped and cut at 256 characters unless [Options].Redactor replaces it. Answers
// and URLs are in no log, metric or error.
//
// # Metrics
//
//	elicitation_requests_total            questions created
//	elicitation_completed_total{action}   questions answered; unseen: declined or cancelled by
//	                                      a client that showed them to nobody
//	elicitation_timeout_total             questions that nobody answered in time
//	elicitation_errors_total{reason}      questions that failed
//	elicitation_cancelled_total{by}       questions withdrawn
//	elicitation_pending                   questions that wait
//	elicitation_duration_seconds          from creation to the end, whatever it was
//	elicitation_rejected_total{reason}    questions and calls refused; they are not requests
//
// Whenever no question begins or ends, requests = completed + timeouts + errors + cancelled +
// pending. Of questions that are [Relayed] this holds for the sum of all processes, once they are
// no longer pending where they were asked; what is missing are those with which no client has
// come back.
//
// # Replicas
//
// A router knows the questions of its own sessions. Where a gateway has several replicas, a
// request of a client, an answer among them, has to reach the replica that has the session, by
// sticky sessions or by a transport that passes it on. What an upstream says, such as that a visit
// is over, comes on the connection on which it asked, and so to the same replica.
//
// # Concurrency and contexts
//
// All types are safe for concurrent use. The context given to [Router.Begin] is that of
// the client's request, the one given to [Call.Elicit] that of the upstream's; the
// question ends with whichever ends first.
package elicitation
