// Package inspect is a page on which operators and authors watch a server: an [http.Handler] to
// mount like net/http/pprof, on its own listener.
//
//	page, err := inspect.New(nil)
//	if err != nil {
//		return err
//	}
//	srv, err := server.New(&server.Options{Observer: event.Observers(observer, page)})
//	…
//	page.Show(srv, handler, tasks) // the serverhttp.Handler and the tasks.Tasks, if any
//	admin.Handle("/debug/rondo/", page)
//
// It shows waiting flows first: the user, client, tool, question key and time; then the server, its
// limits, sessions and tasks; the last 1,000 flows of this process, with rounds, questions,
// durations and outcomes; the last 100 refusals; the contents of a requestState. It has no scripts.
//
// # What it never shows
//
// A flow is shown as the log entries of package middleware at all levels: a question as its key,
// its kind and a digest. The page never shows answers, arguments, memos, handler state, session
// ids, or results. Like the log it names tools, keys, principals and error texts. The tab Try is
// different: it shows the messages of calls that were made on it.
//
// # Who may see it
//
// Only browsers on the same machine: the peer and the header Host must be loopback addresses,
// without a proxy. [Options.Admit] admits others. Requests of other origins are refused; a POST
// needs the page's token and cookie. It names users: mount it where /metrics is, not for clients.
//
// # Try
//
// With [Options.Try] the page calls tools and shows their questions as forms, in both eras side by
// side, with the messages. These calls are real: they pass all middleware, and have their effects
// once in each chosen era. They are visible only to the principal that made them.
//
// # Cost
//
// The page keeps at most 1,000 flows of 16 entries of 512 bytes, 10 MB; 100 refusals; and 8 trials
// for each browser, 64 in all, of 256 KiB in each era. A ninth trial ends the browser's own oldest
// one. Only trials start goroutines and timers. All methods may be called concurrently. Observe
// holds its lock while it stores an entry, not while it encodes one.
package inspect
