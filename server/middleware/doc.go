// Package middleware holds middleware for a [server.Server]: logs ([Log]), metrics ([Metrics]),
// [Recover], [Payload], [Limit] and [Timeout]. [Production] chains them:
//
//	observer, chain, err := middleware.Production(zaplog.New(logger),
//		prom.New(prometheus.DefaultRegisterer), nil)
//	if err != nil {
//		return err
//	}
//	srv, err := server.New(&server.Options{Observer: observer, Middleware: chain})
//
// Package sloglog writes the log with log/slog, package zaplog with zap, and package prom exports
// the metrics to Prometheus. Other implementations of [event.LogSink] and [event.MetricSink] work
// too: this package imports no logger or metrics client.
//
// # Order
//
// The first is the outermost. Production chains Log, Metrics, Recover, Payload, Limit and Timeout:
//
//   - Log sees everything, refusals and busy errors included.
//   - Metrics counts the same; its durations exclude the writing of logs.
//   - Recover turns panics into internal errors, which Log and Metrics then see.
//   - Payload looks at sizes only, and refuses before a slot is taken.
//   - Limit holds a slot until the handler returns, except while the call
//     waits for a user.
//   - Timeout is innermost: it limits only the handler.
//
// Put your own authenticating middleware above Limit, and other logging middleware above Recover.
//
// # Legs and flows
//
// A multi round-trip flow arrives as several requests, its legs, and middleware wraps each. A leg
// that asks counts as one request with the outcome input_required; the wait for the user lies
// between two legs and uses neither a slot of Limit nor the time of Timeout. A call of a legacy
// session waits within one request: that time uses neither as well, and Log and Metrics report it
// separately. Your own middleware observes it with [roundtrip.WatchWaiting]; package roundtrip
// lists all timeouts of questions. Facts about a whole flow, such as its rounds, come from events
// of the round-trip funnel. [Log] and [Metrics] observe these events; name both as the server's
// Observer as well as among its Middleware. Requests that a transport refuses before there is a leg
// are reported as events, too ([event.RequestRefused]): foreign origins, bad tokens, lost sessions.
//
// # Log entries
//
// The message of each entry of a [Log] is its name:
//
//	mcp.request             info   a leg ended; warn: with an internal error; see Options.Level
//	mcp.request_refused     info   a transport refused it; warn: over a limit, wrong host or origin
//	mcp.requests_refused    warn   how many others were refused in the last second
//	mcp.input_required      info   questions were asked; warn: at most two rounds are left
//	mcp.resumed             debug  a retry brought a valid state
//	mcp.answered            info   a user decided; warn: the client did, without the user
//	mcp.answer_invalid      info   an accepted answer was invalid: its key, field and rule
//	mcp.answers_dropped     info   unsolicited or malformed answers
//	mcp.decline_ignored     warn   a handler completed without reading a refusal
//	mcp.flow_ended          info   a flow of more than one leg ended
//	mcp.state_rejected      warn   a requestState was refused, and why
//	mcp.anonymous_state     warn   the first question to an anonymous caller
//	mcp.cut_off             info   a request ended without a result
//	mcp.store_failed        error  a guard or store failed
//	mcp.task_begun          info   a task began
//	mcp.task_run            debug  a run was queued, starts or stops
//	mcp.task_taken_over     warn   the process of a task ended, and it continues here
//	mcp.task_ended          info   a task ended; error: too many processes ended during its runs
//	mcp.visit_served        info   a browser got the page of a visit, or came too late
//	mcp.visit_refused       warn   a browser was refused there; error: the store failed
//	mcp.message_repaired    info   a malformed but unambiguous request was repaired
//	mcp.question_reworded   warn   two versions of the application ask differently
//	mcp.leg_running         info   a copy of a running leg was told to retry
//	mcp.capability_refused  info   a client lacks a capability; warn: and may use no page
//	mcp.push_failed         warn   a request to the client failed during a call
//	mcp.wait_began          debug  a call waits for a user
//	mcp.wait_ended          debug  it continues
//	mcp.quota_exceeded      warn   a limit refused a request, or dropped a long _meta
//	mcp.session_evicted     info   an idle session was evicted for another
//	mcp.request_forwarded   info   the owner of its session responded; debug: no response
//	mcp.handler_failed      warn   a handler returned an error; info: its client was gone
//	mcp.handler_panicked    error  a handler or hook panicked
//	mcp.server_bug          error  handler bug; the client gets an internal error
//	mcp.keys_enabled        info   at start: which keys seal and open states
//	mcp.ephemeral_key       warn   HTTP, at start: states are sealed with a key of this process
//
// Where legs are logged, entries that repeat them (questions, completed flows) are at debug level.
//
// # What is never recorded
//
// Logs and metrics hold no arguments, answers, handler state, requestState, tool results or URL
// queries. Error and panic texts of handlers are logged, with strings of the call and apparent
// credentials masked; Options.OmitErrors omits them, and roundtrip.Options.HideErrors hides them
// from clients. Texts of an authentication hook are logged with the request's credentials masked.
// Names and messages from peers are escaped and truncated, and never become label values, so that
// peers can neither forge log lines nor create time series.
//
// # What an operator sees
//
// testdata/operator.md shows the log and metrics of a good flow, a wrong token, an invalid answer,
// a failing tool, a dropped key and a disconnected client. A test keeps it true.
//
// # Concurrency
//
// Everything here may be used by concurrent requests and by several servers. Only a [Log] starts a
// goroutine, briefly, to summarize omitted refusals.
package middleware
