// Package hosted puts rondo in front of a server built on another SDK, in the same process. The
// server's handlers stay unchanged, and can ask clients of every revision.
//
// # Three lines
//
// The modules hosted/gosdk and hosted/mcpgo host servers of the official Go SDK and of mcp-go:
//
//	front, err := gosdk.New(mcpServer, nil) // or mcpgo.New
//	if err != nil {
//		log.Fatal(err)
//	}
//	handler, err := front.Handler(nil) // an http.Handler; front.Server().ServeStdio(ctx)
//
// The front is a server of package server with all its features: both eras on one endpoint, sealed
// state, limits, middleware, logs, metrics, replicas, authorization. The hosted server behind it
// lists and answers. Its definitions and results are passed on as its own JSON, under their names.
//
// # What runs again
//
// In revision 2026-07-28 a handler that asks runs from its start in each round, with the answers so
// far: the session's own methods return an answer, or an error that the handler must return. Code
// before a question runs in each round, so put effects behind the questions. [roundtrip.Memo] keeps
// a result for later rounds, [roundtrip.OnCommit] delays an effect to the end of the flow, and
// [roundtrip.IdempotencyKey] names an effect that must not happen twice; all take the handler's
// context, as does [roundtrip.Ask]. Name handlers that must run once in [Options].Park. In sessions
// of older revisions handlers run once, and wait.
//
// Questions without keys are identified by content and order, which must be the same in each round,
// see [roundtrip.AskUnkeyed]. A handler that returns its questions, in the SDK's own types, keeps
// its keys, and gets the round's answers and its own state.
//
// A handler cannot complete by dropping the error of its question: its result is withheld, and the
// client is asked, or the call refused. [Options].Optional names exceptions.
//
// # Who calls
//
// [CallerFrom] returns the caller, with the headers named in [KeepHeaders]. Handlers also see the
// values, deadline and cancellation of the request's context; the SDK's session has the client's
// name, its capabilities and a unique id. A [Source] makes a server for each session or request.
package hosted
