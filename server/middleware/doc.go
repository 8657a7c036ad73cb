// Package middleware holds ready-made middleware for a [server.Server], one
// kind a file: logs with zap ([Log]), metrics for Prometheus ([Metrics]), and
// functions that return a [server.Middleware]: [Recover], [Payload], [Limit]
// and [Timeout].
//
//	log := middleware.NewLog(logger, nil)
//	metrics, err := middleware.NewMetrics(prometheus.DefaultRegisterer, nil)
//	if err != nil {
//		return err
//	}
//	observer := roundtrip.Observers(log, metrics)
//	srv, err := server.New(&server.Options{
//		Observer: observer,
//		Middleware: []server.Middleware{
//			log.Wrap,
//			metrics.Wrap,
//			middleware.Recover(observer),
//			middleware.Payload(nil),
//			middleware.Limit(nil),
//			middleware.Timeout(30 * time.Second),
//		},
//	})
//
// # Order
//
// The first is the outermost. The order above is the recommended one:
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
// Middleware of your own that finds out who is calling goes above Limit, which
// counts callers apart; middleware that logs in some other way goes above
// Recover.
//
// # Legs and flows
//
// A multi round-trip flow arrives as several requests. Middleware wraps each of
// these legs for itself: a leg that asks counts as one request with the outcome
// input_required, and the time that a person takes lies between two legs,
// where it uses up neither a slot of Limit nor the time of Timeout. A call of a
// legacy session waits for the person while it is one request: that time uses up
// neither as well, and Log and Metrics tell it apart from work. Middleware of your
// own hears of it with [roundtrip.WatchWaiting]; package roundtrip lists all
// clocks that may run out on a person. What
// belongs to the flow as a whole, such as how many rounds it took, comes from
// the events of the round-trip funnel. [Log] and [Metrics] are observers of
// these events; name them as the server's Observer as well as among its
// Middleware. So does all that a transport refuses before there is a leg: a
// foreign origin, a bad token, a lost session ([roundtrip.RequestRefused]).
//
// # What is never recorded
//
// Logs and metrics hold no arguments, answers, author's state, requestState,
// tool results or URL queries. The texts of handlers' errors and panics are
// logged, without the strings that the call has brought and without what looks
// like a credential; LogOptions.OmitErrors leaves them out, and
// roundtrip.Options.HideErrors keeps them from clients. What an authentication
// hook says about a request that it refuses is logged with the request's
// credentials masked. Names and messages that a peer can choose are escaped and
// cut before they are logged, and never become label values, so that a peer can
// neither forge log lines nor make up time series.
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
