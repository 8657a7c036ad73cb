// Package middleware holds ready-made middleware for a [server.Server], one kind a file: logs
// ([Log]), metrics ([Metrics]), and functions that return a [server.Middleware]: [Recover],
// [Payload], [Limit] and [Timeout]. [Production] is all of it:
//
//	observer, chain, err := middleware.Production(zaplog.New(logger),
//		prom.New(prometheus.DefaultRegisterer), nil)
//	if err != nil {
//		return err
//	}
//	srv, err := server.New(&server.Options{Observer: observer, Middleware: chain})
//
// Package sloglog writes the log with log/slog, package zaplog with zap, and
// package prom keeps the metrics for Prometheus. Others implement
// [event.LogSink] and [event.MetricSink]: this package imports neither a logger
// nor a client of a metrics system, and each of those packages its own alone.
//
// # Order
//
// The first is the outermost. The chain of Production is Log, Metrics, Recover,
// Payload, Limit and Timeout:
//
//   - Log sees all there is to see, refusals and busy signals included.
//   - Metrics counts the same, and its durations leave out the writing of logs.
//   - Recover stands below both, so that a panic reaches them as the internal
//     error that the client gets.
//   - Payload looks at sizes only, and refuses before a slot is taken.
//   - Limit holds its slot until the handler has returned, not just until it
//     was told to stop, and gives it back while the call waits for a person.
//   - Timeout is innermost: its time is the handler's alone.
//
// Middleware of your own that finds out who is calling goes above Limit, which counts callers
// apart; middleware that logs in some other way goes above Recover.
//
// # Legs and flows
//
// A multi round-trip flow arrives as several requests. Middleware wraps each of these legs for
// itself: a leg that asks counts as one request with the outcome input_required, and the time that
// a person takes lies between two legs, where it uses up neither a slot of Limit nor the time of
// Timeout. A call of a legacy session waits for the person while it is one request: that time uses
// up neither as well, and Log and Metrics tell it apart from work. Middleware of your own hears of
// it with [roundtrip.WatchWaiting]; package roundtrip lists all clocks that may run out on a
// person. What belongs to the flow as a whole, such as how many rounds it took, comes from the
// events of the round-trip funnel. [Log] and [Metrics] are observers of these events; name them as
// the server's Observer as well as among its Middleware. So does all that a transport refuses
// before there is a leg: a foreign origin, a bad token, a lost session ([event.RequestRefused]).
//
// # Log entries
//
// Each entry of a [Log] has its name as its message:
//
//	mcp.request             info   a leg ended; warn: with an internal error; see Options.Level
//	mcp.request_refused     info   a transport refused it; warn: no room, wrong host or origin
//	mcp.requests_refused    warn   how many more were refused in the last second
//	mcp.input_required      info   questions were asked; warn: two rounds are left or fewer
//	mcp.resumed             debug  a retry came with a state that was verified
//	mcp.answered            info   a person decided; warn: the client did, unseen by anybody
//	mcp.answer_invalid      info   an accepted answer did not fit: its key, field and rule
//	mcp.answers_dropped     info   answers that this flow had not asked for, or malformed ones
//	mcp.decline_ignored     warn   a handler completed without having looked at a refusal
//	mcp.flow_ended          info   a flow of more than one leg came to an end
//	mcp.state_rejected      warn   a requestState was refused, and why
//	mcp.anonymous_state     warn   the first question to a caller of whom nothing is known
//	mcp.cut_off             info   a request ended before it had a result
//	mcp.store_failed        error  a guard or a store could not be asked
//	mcp.task_begun          info   a task was begun
//	mcp.task_run            debug  it was queued for its turn here, runs or stops
//	mcp.task_taken_over     warn   its process ended, and it goes on here
//	mcp.task_ended          info   it is over; error: too many processes ended that ran it
//	mcp.visit_served        info   a browser was shown the page of a visit, or came too late
//	mcp.visit_refused       warn   a browser was turned away there; error: the store failed
//	mcp.message_repaired    info   a request was malformed in a way that leaves one reading
//	mcp.question_reworded   warn   two versions of the application ask differently
//	mcp.leg_running         info   a copy of a leg that still runs was told to come back
//	mcp.capability_refused  info   a client lacks what a question needs
//	mcp.push_failed         warn   a question was put to a client while a call ran, in vain
//	mcp.wait_began          debug  a call waits for a person
//	mcp.wait_ended          debug  it goes on
//	mcp.quota_exceeded      warn   a request was refused for want of room, or lost a long _meta
//	mcp.session_evicted     info   an idle session made room for another
//	mcp.request_forwarded   info   the replica of its session answered; debug: no response
//	mcp.handler_failed      warn   a handler returned an error; info: its client had gone
//	mcp.handler_panicked    error  a handler, or a hook, panicked
//	mcp.server_bug          error  a handler did what it must not, which clients are not told
//	mcp.keys_enabled        info   at start: which keys seal and open states
//	mcp.ephemeral_key       warn   HTTP, at start: states are sealed with a key of this process
//
// What the entry of a leg says as well, a question or the completion of its flow, is
// an entry of its own at debug level where legs are logged.
//
// # What is never recorded
//
// Logs and metrics hold no arguments, answers, author's state, requestState, tool results or URL
// queries. The texts of handlers' errors and panics are logged, without the strings that the call
// has brought and without what looks like a credential; Options.OmitErrors leaves them out, and
// roundtrip.Options.HideErrors keeps them from clients. What an authentication hook says about a
// request that it refuses is logged with the request's credentials masked. Names and messages that
// a peer can choose are escaped and cut before they are logged, and never become label values, so
// that a peer can neither forge log lines nor make up time series.
//
// # What an operator sees
//
// testdata/operator.md shows what is logged and counted for a good flow, a wrong
// token, an invalid answer, a tool that fails, a key that was dropped and a
// client that goes away. A test keeps it true.
//
// # Concurrency
//
// Everything here may be used by any number of requests at once, and by
// several servers. Nothing starts a goroutine, but for the moment in which the
// timer of a [Log] writes how many refusals were not logged one by one.
package middleware
