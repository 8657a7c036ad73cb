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
//	c := client.New(transport, &client.Options{
//		ElicitForm: func(ctx context.Context, q *client.FormQuestion) (*protocol.ElicitResult, error) {
//			fmt.Printf("%s asks: %s\n", q.Target, q.Message)
//			return client.Accept(map[string]any{"env": "prod"})
//		},
//	})
//	defer c.Close()
//	result, err := c.CallTool(ctx, "deploy", map[string]any{"service": "web"})
//
// Instead of a transport, any [protocol.Peer] will do: a server in the same
// process is one.
//
// # Questions
//
// The client declares the capabilities that it has handlers for, and no
// others. All questions of a round are checked before anybody is asked one:
// their kind must be declared, a URL must pass [Options.AllowURL], a form must
// be one. They are then asked at the same time, and the first failure cancels
// the others. What a handler accepts is completed with the defaults of the
// form and validated; an answer that is not valid is the caller's error and is
// never sent. Refusals, [Decline] and [Cancel], are answers like others: what
// they mean is for the server to say.
//
// # Retries
//
// Each request of a call has an id of its own. A retry is the original request
// with the answers of the last round, and with exactly the state that came
// with the questions, or none (basic/patterns/mrtr). A server that sends state
// and no questions is asked again after a short pause. The number of rounds is
// limited, and the limit is checked before anybody is asked.
//
// # Without waiting
//
// A program that cannot wait while a person thinks takes the rounds apart.
// [Client.Begin] stops at the first questions and returns a [Pending], which
// is answered and handed to [Client.Resume], in this process or, stored as
// JSON, in another. Such a program declares what it can answer with
// [Options.Manual]; it needs no handlers.
//
// # Lists, the cache and subscriptions
//
// [Client.Tools] and its like loop over all pages of a list. What a server
// declares fresh for a while is not asked for again as long as it is
// ([CacheOptions]); [WithRefresh] asks all the same. [Client.Listen] reports
// what changes, and drops it from the cache.
//
// # Servers of older revisions
//
// The client speaks revision 2026-07-28 and, to servers that do not, the older
// ones from 2024-11-05 to 2025-11-25, over any peer that is a
// [protocol.LegacyPeer]. Before the first call it asks the server what it is
// (server/discover); a server that does not understand the question is offered
// a session (initialize). Errors that may pass, such as 5xx, 429 or a broken
// connection, decide nothing. [Client.Negotiated] says what was found and
// [Options.Assume] spares the next client the question. A server that does not
// answer in time is taken for a legacy one, too; [Options.LegacyChosen] tells.
//
// In a session the server puts its questions by itself, while a call runs. The
// same handlers answer them after the same checks, [Options.MaxPushes] at a
// time; what cannot be answered is an error to the server, which then decides
// what becomes of the call ([Options.PushFailed]). Nothing else changes for the
// caller: [Client.Discover] says what initialize said, [Client.Listen] reports
// the same events, -32042 is a visit and a retry. Only what those revisions lack
// is missing: nothing is cached, and there are no rounds to take apart, so
// [Client.Begin] returns results and [Client.Resume] fails.
//
// A session that the server has ended is an error that is a
// [protocol.ErrSessionGone]. The call is not repeated, for what the session held
// is lost; the next call opens a new one. The same holds for servers that answer
// 400 without the id of a request, if they refuse a ping in the session as well.
//
// # Lists and limits of the server
//
// A list that the server does not declare is empty, and nothing is sent for it.
// What a server declares holds for a session, in modern revisions for as long as
// its answer to server/discover is fresh.
//
// A server that is too busy for a request may say when to come back
// ([protocol.CodeBusy]). The call does, at most [MaxBusyRetries] times and never
// beyond its deadline ([Options.NoBusyRetry]): such a request has not run.
//
// # Mirrored arguments
//
// A tool may have some of its arguments copied into HTTP headers. The client
// learns which from every list of tools that it reads. It does not read one
// merely to call a tool: most have no such arguments. Where a server refuses a
// call because headers are missing or wrong, the client reads the list and
// sends the call once more; a refused call has not run
// (basic/transports/streamable-http, "Client Behavior"). Read the list first
// where something on the way to the server relies on the headers.
//
// # Failure
//
// What the server says is a [*protocol.Error]. What happens on the way to it
// is a [*TransportError]; a response that makes no sense, a [*ResponseError];
// too many rounds, a [*RoundsExceededError]; a question nobody may be asked, a
// [*QuestionError]; an answer that could not be had, an [*AnswerError]; a
// server that takes too long, a [*TimeoutError]; one that speaks no revision of
// this client's, a [*NegotiationError]. A handler's own error is
// within the AnswerError, so errors.As finds a protocol.Error there too if the
// handler returned one: look for the AnswerError first.
//
// # Concurrency and contexts
//
// All methods may be called concurrently, and so may the handlers. A call ends
// when its context ends or the client is closed. Handlers get a context that
// ends with the call; [Options.Timeout] does not touch it, because people take
// as long as they take.
package client
