// Package client calls Model Context Protocol servers and answers what they
// ask on the way.
//
// A server that needs something from a person does not answer a call at once:
// it returns questions. A [Client] puts them to the handlers of its [Options]
// and sends the call again with the answers, for as many rounds as it takes.
// The caller sees one call and one result:
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
// Instead of a transport, any [protocol.Peer] will do: a server in the same
// process is one.
//
// # Questions
//
// The client declares the capabilities that it has handlers for, and no
// others. It checks all questions of a round before it calls a handler: their
// kind must be declared, a URL must pass [Options.AllowURL], a form must be
// valid. Then it calls the handlers concurrently, and the first failure cancels
// the others. The content that a handler accepts is completed with the defaults
// of the form and validated. An answer that is not valid fails the call and is
// never sent. The refusals [Decline] and [Cancel] are answers like others: the
// server decides what follows from them.
//
// # Retries
//
// Each request of a call has an id of its own. A retry is the original request
// with the answers of the last round, and with exactly the state that came
// with the questions, or none (basic/patterns/mrtr). If a server sends state and
// no questions, the request is repeated after a short pause. The number of
// rounds is limited, and the limit is checked before a handler is called.
//
// # Without waiting
//
// A program that cannot wait while a person thinks takes the rounds apart.
// [Client.Begin] stops at the first questions and returns a [Pending]. The
// program answers it and passes it to [Client.Resume], in this process or,
// stored as JSON, in another. Such a program declares what it can answer with
// [Options.Manual]; it needs no handlers.
//
// # Lists and subscriptions
//
// [Client.Tools] and its like loop over all pages of a list. Every call asks the
// server: a program that wants to reuse a result has the server's hints in its
// Cache field ([protocol.CacheHints]), and [Client.Listen] reports the changes
// that make it out of date.
//
// # Servers of older revisions
//
// The client speaks revision 2026-07-28 and, to servers that do not, the older
// ones from 2024-11-05 to 2025-11-25, over any peer that is a
// [protocol.LegacyPeer]. Before the first call it asks the server which
// revisions it supports (server/discover). If the server does not understand
// that, the client opens a session (initialize). Transient errors, such as 5xx,
// 429 or a broken connection, decide nothing. [Client.Negotiate] returns the
// outcome, and [Options.Era] spares the next client the question. A server
// that does not answer in time is taken for a legacy one too;
// [Options.Warn] reports that.
//
// In a session the server sends its questions itself, while a call runs. They
// pass the same checks and go to the same handlers, 100 at a time. A question
// that gets no answer is an error to the server, which decides how the call goes
// on ([Options.Warn]). For the caller little else changes: [Client.Discover]
// returns what initialize returned, [Client.Listen] reports the same events, and
// after -32042 the person is asked to visit the URL and the request is sent
// again. Legacy revisions lack cache hints and rounds:
// results have no hints, [Client.Begin] returns results only, and
// [Client.Resume] fails.
//
// If the server has ended the session, the call fails with an error that is a
// [protocol.ErrSessionGone]. It is not repeated, because the state of the
// session is lost. The next call opens a new session. The same holds for servers
// that answer 400 without the id of a request, if they refuse a ping in the
// session as well.
//
// # Lists and limits of the server
//
// A list that the server does not declare is empty. Declarations of a legacy
// server hold for the session, and nothing is sent for the list. A modern server
// is asked, since it may have got the list meanwhile.
//
// A server that is too busy for a request may say when to come back
// ([protocol.CodeBusy]). The request is then sent again, at most
// 3 times and never beyond the deadline of the call
// ([Options.NoBusyRetry]): such a request has not run.
//
// # Mirrored arguments
//
// A tool may have some of its arguments copied into HTTP headers. The client
// learns which from every list of tools that it reads. It does not read one
// merely to call a tool: most have no such arguments. If a server refuses a
// call because headers are missing or wrong, the client reads the list and
// sends the call once more; a refused call has not run
// (basic/transports/streamable-http, "Client Behavior"). Read the list first
// if a proxy in front of the server relies on the headers.
//
// # Failure
//
// An error of the server is a [*protocol.Error]. A failure on the way to it is
// a [*TransportError]; an invalid response, a [*ResponseError]; a question that
// the client refuses, a [*QuestionError]; a question without a valid answer, an
// [*AnswerError]; a server that takes too long, a [context.DeadlineExceeded]. A
// handler's own error is within the AnswerError, so errors.As finds a
// protocol.Error there too if the handler returned one: look for the AnswerError
// first.
//
// # Concurrency and contexts
//
// All methods may be called concurrently, and so may the handlers. A call ends
// when its context ends or the client is closed. Handlers get a context that
// ends with the call. [Options.Timeout] does not limit it, because people take
// as long as they need.
package client
