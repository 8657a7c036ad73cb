// Package server answers the requests of Model Context Protocol clients.
//
// # A small program
//
// A server with one tool, which asks before it acts, over HTTP:
//
//	type Deploy struct {
//		Env string `json:"env" jsonschema:"where to deploy to"`
//	}
//
//	type Confirmation struct {
//		Reason string `json:"reason" jsonschema:"why now?"`
//	}
//
//	var confirm = roundtrip.MustQuestion[Confirmation]("confirm")
//
//	func deploy(ctx context.Context, call *server.ToolCall,
//		in Deploy) (protocol.CallToolOutcome, error) {
//		switch answer := confirm.Answer(ctx); answer.Outcome {
//		case roundtrip.Accepted:
//			return server.Text("deployed to " + in.Env + ": " + answer.Content.Reason), nil
//		case roundtrip.Declined, roundtrip.Cancelled:
//			return server.Text("left " + in.Env + " alone"), nil
//		default:
//			return roundtrip.InputRequired(confirm.Elicit("Deploy to " + in.Env + "?")), nil
//		}
//	}
//
//	func main() {
//		srv, err := server.New(&server.Options{
//			Info: protocol.Implementation{Name: "deployer", Version: "1.0.0"},
//		})
//		if err != nil {
//			log.Fatal(err)
//		}
//		server.AddTool(srv, server.Tool{Name: "deploy", Description: "Deploys."}, deploy)
//		handler, err := serverhttp.New(srv, nil)
//		if err != nil {
//			log.Fatal(err)
//		}
//		log.Fatal(http.ListenAndServe("localhost:8080", handler))
//	}
//
// The handler runs once for each leg of the call: first to ask, then, when the client returns with
// the answer, to act. The server keeps nothing in between. Questions are in package roundtrip.
//
// # What can be registered
//
// [AddTool] decodes the arguments into a struct and infers the schema from it, [AddToolOut] does
// the same for the result, and [AddRawTool] leaves both to the handler. [AddPrompt], [AddResource]
// and [AddResourceTemplate] register the rest. All of them, and their opposites such as
// [Server.RemoveTool], may be called at any time. Lists are paged, in the order of registration.
//
// An invalid registration, such as a duplicate tool name or a schema that does not compile, is a
// mistake of the program and panics, so it is found at startup.
//
// # Outcomes
//
// A handler's outcome is a type: [protocol.CallToolOutcome] is a [protocol.CallToolResult] or a
// [protocol.InputRequiredResult], never both. [Text], [ErrorText] and [Structured] make results of
// the first kind, [roundtrip.InputRequired] of the second. A handler of AddToolOut, which returns a
// plain value, asks with an [*InputRequiredError].
//
// # Failure
//
// A plain error of a tool becomes a result with isError, for the model; so do arguments that do not
// match the schema. A plain error of a prompt or resource becomes a JSON-RPC error with its text,
// and a [*protocol.Error] is sent unchanged. Observers get the text of plain errors
// ([event.HandlerFailed]); clients get a reference instead if [roundtrip.Options].HideErrors is
// set. When a limit is reached, the error is [protocol.CodeBusy] with retryAfterMs in its data.
// Bugs of the program (a panic, a nil result, content that breaks the output schema) are internal
// errors, with details for [Options].Observer. All requests are answered.
//
// # Clients are not trusted
//
// Handlers see arguments only after the schema has validated them; member names match by exact
// case, and duplicate members are refused. Answers count only if this server asked for them
// (package roundtrip). Clients are asked only the kinds of questions that they declare.
// [Call.ClientInfo] is self-reported; [Call.Principal] is authenticated by the transport.
//
// # Transports
//
// A [Server] is independent of transports. [Server.Handle] serves requests in process, so a Server
// can be the peer of a client directly; closing that client closes the Server. Transports call
// [Server.Admit] with a [Delivery], may refuse the returned [Admission], and then call
// [Server.Serve]. Package serverhttp does this for HTTP, [Server.ServeStdio] and
// [Server.ServeStream] for lines of text. [Middleware] wraps every request, even refused ones.
//
// # Options
//
// Fields document their defaults, which zero values and nil options select. A negative number
// disables a limit or a feature, or is an error of the constructor where no other limit bounds the
// memory that clients can use. The same holds in packages serverhttp and middleware.
//
// # Concurrency and contexts
//
// All methods may be called concurrently, and handlers run concurrently. The context of a handler
// ends when the client abandons the request, when the server closes (with the cause [ErrClosed]),
// and when the handler returns. [Server.Shutdown] lets running requests finish, except those
// waiting for a user; [Server.Close] does not. Package roundtrip lists the timeouts of questions.
package server
