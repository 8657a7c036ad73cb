// Package tasks lets tool calls outlive request, connection and process (the extension tasks).
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
// The handler is the same whether it runs as a task or not: at [roundtrip.BeginTask] the client
// gets a handle, if it declares io.modelcontextprotocol/tasks. From then on questions are stored
// until the client polls and answers. Nothing waits in memory: each run of the handler starts at
// its beginning, with the answers, memos and state so far, in any process with store and keys.
//
// # What a run sees
//
// A run has no request. It has
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
// If a process dies during a run, another runs the handler again. A value of [roundtrip.Memo] is
// stored before the handler gets it. Functions of [roundtrip.OnCommit] run at most once. An
// external effect needs a [roundtrip.IdempotencyKey], which is the same in all runs. After the
// store is restored from an older backup, a task resumes from there: later answers are asked for
// again, and only the idempotency key prevents repeated effects.
//
// # Who may have a task
//
// Only the principal whose call began a task can access it. The id is 256 random bits and, for
// anonymous callers, the only protection, so give them a shorter [Options].TTL.
package tasks
