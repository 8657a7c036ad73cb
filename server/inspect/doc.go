// Package inspect is a page on which operators and authors see a server run: an [http.Handler] to
// mount as net/http/pprof is, on a listener of its own.
//
//	page, err := inspect.New(nil)
//	if err != nil {
//		return err
//	}
//	srv, err := server.New(&server.Options{Observer: event.Observers(observer, page)})
//	…
//	page.Show(srv, handler, tasks) // the serverhttp.Handler and the tasks.Tasks, where there are
//	admin.Handle("/debug/rondo/", page)
//
// It shows first who is waited for: the person, their client, the tool, the question's key, and
// since when. Then the server, limits and how full they are, sessions and tasks; the last 1,000
// flows that this process served, with rounds, questions, durations and ends; the last 100
// refusals; and what a requestState says. It is HTML without scripts, also for narrow screens.
//
// # What it never shows
//
// A flow consists of the entries that the log of package middleware has at all levels: a question
// is its key, its kind and a digest. The page never shows answers, arguments, memos, what authors
// keep in a state, ids of sessions, or results. It names tools, keys, principals and texts of
// handlers' errors, as the log does. The tab Try is different: it shows what passes between a
// client and the server, of the calls that were made on it.
//
// # Who may see it
//
// Nobody but a browser on the same machine: the peer and the header Host must be loopback
// addresses, and no proxy may have passed the request on. [Options.Admit] admits others. Requests
// of other origins are refused, and a POST needs a token of the page and its cookie. The page tells
// who uses the server, so mount it where /metrics is, never where clients are.
//
// # Try
//
// With [Options.Try] the page calls tools, and shows their questions as forms, in both eras side by
// side, with the messages beneath. Such a call is a real one. It passes through all middleware, and
// what the tool does is done, once in each era that was chosen. Nobody else sees it or answers in
// its caller's name: calls are shown to the principal that made them.
//
// # Cost
//
// The page keeps at most 1,000 flows of 16 entries, 512 bytes each, which is 10 MB; 100 refusals;
// and 8 trials of a browser, 64 of all, of 256 KiB in each era. The ninth ends the browser's own
// first, and nobody else's. Nothing starts a goroutine or a timer before somebody tries
// a tool. All methods may be called concurrently. Observe holds its lock while it stores an entry,
// not while it writes one.
package inspect
