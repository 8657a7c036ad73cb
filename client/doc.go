// Package client calls Model Context Protocol servers and answers their questions.
//
// A server that needs user input answers a call with questions. A [Client] passes them to the
// handlers of its [Options] and sends the call again with the answers, for as many rounds as it
// takes. The caller sees one call and one result:
//
//	transport, err := clienthttp.New("https://example.com/mcp", nil)
//	if err != nil {
//		return err
//	}
//	c, err := client.New(transport, &client.Options{
//		ElicitForm: func(ctx context.Context,
//			q *client.FormQuestion) (*protocol.ElicitResult, error) {
//			fmt.Printf("%s asks: %s\n", q.Target, q.Message)
//			return client.Accept(map[string]any{"env": "prod"})
//		},
//	})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	result, err := c.CallTool(ctx, "deploy", map[string]any{"service": "web"})
//
// Any [protocol.Peer] can replace the transport, for example a server in the same process.
//
// # Questions
//
// The client declares exactly the capabilities that it has handlers for. It checks all questions of
// a round before it calls a handler: their kind must be declared, a URL must pass
// [Options.AllowURL], a form must be valid. Then it calls the handlers concurrently; the first
// failure cancels the others. Accepted content is completed with the form's defaults and validated.
// An invalid answer fails the call and is never sent. [Decline] and [Cancel] are answers too: the
// server decides how to continue.
//
// # Retries
//
// Each request of a call has its own id. A retry is the original request with the answers of the
// last round and exactly the state, if any, that came with the questions (basic/patterns/mrtr). If
// a server sends state without questions, the request is repeated after a short pause. The number
// of rounds is limited; the limit is checked before a handler is called.
//
// # Without waiting
//
// A program that cannot block on a user handles the rounds itself. [Client.Begin] stops at the
// first questions and returns a [Pending]. The program answers it and passes it to [Client.Resume],
// in this process or, stored as JSON, in another. It needs no handlers: [Options.Manual] names the
// kinds of questions that it answers.
//
// # Lists and subscriptions
//
// [Client.Tools] and the other iterators read all pages of a list. Nothing is cached. To reuse a
// result, see the hints in its Cache field ([protocol.CacheHints]); [Client.Listen] reports the
// changes that make it stale.
//
// # Servers of older revisions
//
// The client speaks revision 2026-07-28 and, over a [protocol.LegacyPeer], the legacy revisions
// from 2024-11-05 to 2025-11-25. Before the first call it asks which revisions the server supports
// (server/discover). If the server does not understand that or does not answer in time
// ([Options.Warn] reports it), the client opens a session (initialize). Transient errors, such as
// 5xx, 429 or a broken connection, decide nothing. [Client.Negotiate] returns the outcome; with
// [Options.Era] the next client need not ask.
//
// In a session the server sends its questions itself while a call runs. They pass the same checks
// and go to the same handlers, at most 100 at a time. For a question without an answer the server
// gets an error and decides what to do ([Options.Warn]). Little else changes: [Client.Discover]
// returns the result of initialize, [Client.Listen] reports the same events, and after -32042 the
// user is asked to visit the URL and the request is sent again. Legacy revisions have neither cache
// hints nor rounds: [Client.Begin] returns results only, and [Client.Resume] fails.
//
// If the server has lost the session (404), nothing ran: the client opens a new session, which
// concurrent calls share, and sends the call once more. If a call may have run (its stream broke,
// or the server answers 400 without the request's id and refuses a ping too), it fails with
// [protocol.ErrSessionGone], and the next call opens the session.
//
// # Lists and limits of the server
//
// A list that the server does not declare is empty. A legacy server's declarations hold for the
// session, so no request is sent; a modern server is asked, since it may have added the list.
//
// A busy server may say when to retry a request ([protocol.CodeBusy]), which has not run. It is
// sent again, at most 3 times and never beyond the deadline of the call ([Options.NoBusyRetry]).
//
// # Mirrored arguments
//
// A tool may have some arguments copied into HTTP headers. The client learns which from every list
// of tools that it reads, but does not read one before a call: most tools have none. If a server
// refuses a call because of missing or wrong headers, the client reads the list and sends the call
// once more; a refused call has not run (basic/transports/streamable-http, "Client Behavior"). Read
// the list first if a proxy in front of the server relies on the headers.
//
// # Failure
//
// An error of the server is a [*protocol.Error], a failure on the way a [*TransportError], an
// invalid response a [*ResponseError], a question that the client refuses a [*QuestionError], a
// question without a valid answer an [*AnswerError], and a timeout a [context.DeadlineExceeded].
// Check for an AnswerError first: it may wrap the handler's protocol.Error.
//
// # Concurrency and contexts
//
// All methods and handlers may be called concurrently. A call ends when its context ends or the
// client is closed. A handler's context ends with the call. [Options.Timeout] does not limit
// handlers, because users take as long as they need.
package client
