// Package tasks lets tools answer with work that outlives the request, the connection and the
// process (the tasks extension, io.modelcontextprotocol/tasks).
//
//	background, err := tasks.New(srv, &tasks.Options{Store: db, Keys: ring})
//	…
//	defer background.Shutdown(ctx)
//
//	server.AddTool(srv, server.Tool{Name: "reindex", Task: server.TaskCan}, reindex)
//
//	func reindex(ctx context.Context, call *server.ToolCall, in Reindex) (
//		protocol.CallToolOutcome, error) {
//		if _, err := roundtrip.Ask[Confirmation](ctx, "confirm", "Rebuild?"); err != nil {
//			return nil, err
//		}
//		if err := roundtrip.BeginTask(ctx); err != nil {
//			return nil, err
//		}
//		…
//	}
//
// The handler is the same whether it runs as a task or not: [roundtrip.BeginTask] is where the
// client gets a handle, if it has declared that it can handle one. From there on questions wait
// in a record until the client polls and answers. Nothing waits in memory: each run of the handler
// begins at its start, and finds the answers, the memos and the state of the runs before, as in
// the rounds of a call. So any process that has the store and the keys can go on with a task.
//
// # What a run sees
//
// A run has no request behind it. It has
//
//	principal, tool, arguments,    those of the call
//	revision, capabilities
//	scopes                         those of the call, or what Options.Prepare says
//	tokens, headers, address       none; they are never stored
//	values in contexts             what middleware puts there, and Options.Prepare
//	middleware                     all of the server; see Request.InTask
//	middleware.Limit               a run takes a slot, charged to the principal
//	middleware.Timeout             does not bound a run; Options.RunTimeout does
//	limits of rounds, state, time  those of this package
//	Call.Progress                  becomes the status message
//	Call.Log, Call.Notify          goes nowhere
//
// # What must not happen twice
//
// A process may die in the middle of a run; then another runs the handler again. A value of
// [roundtrip.Memo] is in the record before the handler gets it. Functions of [roundtrip.OnCommit]
// run at most once. An effect elsewhere needs a [roundtrip.IdempotencyKey], which stays the same in
// all runs. After the store is restored from a copy that is older, a task goes on from there: what
// was answered since is asked again, and effects are held by the idempotency key alone.
//
// # Who may have a task
//
// The principal whose call began it. For anyone else there is no such task. The id is 256 random
// bits; for anonymous callers it is all that protects the task, so give them a shorter time to
// live, with [Options].TTL.
package tasks
