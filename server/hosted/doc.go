// Package hosted puts rondo in front of a server that is built on another SDK, in the same process.
// The server's handlers stay as they are, and ask clients of every revision.
//
// # Three lines
//
// Packages hosted/gosdk and hosted/mcpgo, modules of their own, take a server of the official Go
// SDK and of mcp-go:
//
//	front, err := gosdk.New(mcpServer, nil) // or mcpgo.New
//	if err != nil {
//		log.Fatal(err)
//	}
//	handler, err := front.Handler(nil) // an http.Handler; front.Server().ServeStdio(ctx)
//
// In front stands a server of package server with everything that it has: both eras on one
// endpoint, sealed state, limits, middleware, logs, metrics, replicas, authorization. Behind it the
// hosted server lists and answers. Its definitions and results are passed on as the JSON that it
// made, under their own names.
//
// # What runs again
//
// In revision 2026-07-28 a handler that asks runs from its start in each round, with the answers
// that there are: the session's own methods return an answer at once, or an error that the handler
// passes on. Code before a question runs once for each round, so effects belong behind the
// questions. [roundtrip.Memo] keeps a result for later rounds, [roundtrip.OnCommit] delays an
// effect to the end of the flow, and [roundtrip.IdempotencyKey] names an effect that must not
// happen twice; all take the handler's context, as does [roundtrip.Ask]. A handler that must run
// once is named in [Options].Park. In sessions of older revisions handlers run once, and wait.
//
// Questions without keys are told apart by their content and order: what a handler asks must be
// the same in each round, see [roundtrip.AskUnkeyed]. A handler that returns its questions, in the
// SDK's own types, keeps its keys, and gets the answers of the round with the state that it set.
//
// A handler that drops the error of its question does not complete: what it returns is withheld,
// and the client is asked, or the call refused with what the client lacks. [Options].Optional names
// handlers that can do without an answer.
//
// # Who calls
//
// [CallerFrom] tells a handler who calls, with the headers that [KeepHeaders] names. Handlers also
// see the values, deadline and cancellation of the request's context, and the SDK's session has
// the client's name and capabilities and an id that no two callers share. A [Source] makes a
// server for each session, or, with [Options].PerRequest, for each request.
package hosted
