// Package elicitation routes an upstream server's question to the client whose call caused it, and
// the answer back.
//
// A gateway stands between clients and upstream servers. While it serves a client's tools/call by
// calling an upstream tool, the upstream may send elicitation/create, which only the user of that
// client may answer. A [Router] finds that client. The gateway registers its clients' sessions and
// the upstream calls it makes for them, and passes incoming frames to the router.
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
//	// The upstream asks, and gets the result of Elicit:
//	result, err := call.Elicit(ctx, params)
//
//	// A client sends a response, or progress on a question:
//	disposition := router.HandleReply(session.Sender(), response)
//	disposition = router.HandleProgress(session.Sender(), notification)
//
// The package example is a complete program. examples/sdkgateway has gateways on the official Go
// SDK and on mcp-go.
//
// [Call.Elicit] delivers the question and waits for the answer. Hosts whose SDK calls a function
// for each question without naming the call use [Router.ElicitFrom].
//
// An upstream of revision 2025-11-25 may notify that a visit to a URL is finished:
// [Router.HandleURLCompletion] passes that on to the right client.
//
// # Which call asks
//
// Calls may share a connection to the upstream. Over HTTP the question's stream identifies the
// call: package streamhttp adds its id to the question as [MetaCall]. Otherwise, as on stdio,
// [Router.ElicitFrom] asks only if a single call is in flight on the connection, and otherwise
// refuses the question: give each call its own connection.
//
// A call whose context ended counts as in flight until [Call.ConfirmUpstreamEnd], or for as long as
// a question may last.
//
// # What is guaranteed
//
//   - A question goes only to the client of the call that caused it. If several calls may have
//     caused it, it is refused ([ReasonAmbiguous]).
//   - A client gets no mode that it has not declared: the error is -32601 without elicitation,
//     -32602 without this mode. An empty elicitation object means form mode.
//   - The router's ids to clients cannot be guessed. A reply counts only from the session and
//     principal that was asked; other replies do not change the question. [Disposition] is the
//     outcome of a reply. An SDK behind an [Asker] uses its own ids and takes replies itself: the
//     router does not see late, duplicate or foreign ones.
//   - A question has exactly one outcome, logged and counted once, which frees its slot.
//   - A full router refuses questions and says when to retry. It never drops pending ones.
//   - A form that seems to ask for a secret is refused unless [Options].AllowSecrets permits it.
//   - Only the action, the content of an accept, and _meta of the client's result are passed on,
//     strictly decoded and re-encoded. In both directions, _meta loses the members that the
//     protocol reserves for one connection. Content that violates the form is passed on with a
//     warning in the log, unless [Options].Validation says otherwise.
//
// # Errors
//
// A question without an answer fails with an [*Error]. [errors.Is] finds its [Reason], which is
// also a label of the metrics. Its Wire is the error for the upstream.
//
// # While a person thinks
//
// The client's request waits while a question of its call is pending; middleware can watch that,
// see package roundtrip. An unanswered question ends after [Options].Timeout; progress on it
// restarts the timeout, up to 5 minutes more, or 10 minutes in all if that is longer.
//
// # Limits
//
// Pending questions are limited in total ([Options].MaxPending), and per principal and session
// ([Options].MaxPerPrincipal). Anonymous sessions share one account: all of MaxPending while no
// session has a principal, otherwise three quarters of it. Refusals, including those of
// [Router.Begin], name the limit and when to retry. The router ends a call whose host forgot
// [Call.End] at its second sweep ([Options].SweepInterval).
//
// # Events
//
// With [Options.Log] each event is one entry named elicitation.created, elicitation.delivered,
// elicitation.completed, elicitation.timeout, elicitation.error, elicitation.cancelled or
// elicitation.rejected, with the fields event, which repeats that name, request_id,
// upstream_session, downstream_session, message, action and duration_ms, and where they apply
// subject, mode, call_id, client_request, candidates, reason, by, code, violation and error, and
// unseen where the client refused sooner than Options.MinHumanTime. A rejected question has an id
// that no client has seen. elicitation.leaked reports a call whose host forgot [Call.End], and
// elicitation.completion_dropped a completed visit that no client waits for. message is the text of
// the question, escaped and cut at 256 characters unless [Options].Redactor replaces it. Answers
// and URLs never appear in logs, metrics or errors.
//
// # Metrics
//
//	elicitation_requests_total            questions created
//	elicitation_completed_total{action}   questions answered; unseen: declined or cancelled by
//	                                      a client that did not show them
//	elicitation_timeout_total             questions that timed out
//	elicitation_errors_total{reason}      questions that failed
//	elicitation_cancelled_total{by}       questions withdrawn
//	elicitation_pending                   questions pending
//	elicitation_duration_seconds          from creation to any end
//	elicitation_rejected_total{reason}    questions and calls refused; not counted as requests
//
// Whenever no question begins or ends, requests = completed + timeouts + errors + cancelled +
// pending. For [Relayed] questions this holds for the sum of all processes once they are no longer
// pending where they were asked, without the questions whose client never came back.
//
// # Replicas
//
// A router knows only the questions of its own sessions. With several replicas, a client's requests
// and answers must reach the replica that has the session, by sticky sessions or a forwarding
// transport. Upstream notifications, such as a completed visit, come on the question's connection,
// and so to the same replica.
//
// # Concurrency and contexts
//
// All types are safe for concurrent use. [Router.Begin] takes the context of the client's request,
// [Call.Elicit] the context of the upstream's; the question ends with whichever ends first.
package elicitation
