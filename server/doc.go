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
// The handler runs once for each leg of the call: first to ask, then, when the client comes back
// with the answer, to act. Nothing of the call stays on the server in between. Package roundtrip
// has the questions and explains what an answer proves.
//
// # What can be registered
//
// [AddTool] decodes the arguments into a struct and infers the schema from it, [AddToolOut] does
// the same with the result, and [AddRawTool] leaves both to the handler. [AddPrompt], [AddResource]
// and [AddResourceTemplate] register the rest. All of them, and their opposites such as
// [Server.RemoveTool], may be called while the server runs. Lists show everything in the order of
// registration, in pages.
//
// Registering what cannot work, such as a second tool of the same name or a schema that does not
// compile, is a mistake of the program and panics, so that it is found when the program starts.
//
// # Outcomes
//
// What a handler may answer is a type: [protocol.CallToolOutcome] is a [protocol.CallToolResult] or
// a [protocol.InputRequiredResult], never both. [Text], [ErrorText] and [Structured] make results
// of the first kind, [roundtrip.InputRequired] those of the second. A handler of AddToolOut, which
// returns a plain value, asks with an [*InputRequiredError].
//
// # Failure
//
// A plain error of a tool becomes a result with isError, which the model reads and may act upon; so
// do arguments that do not match the schema. A plain error of a prompt or resource becomes a
// JSON-RPC error with its text, and a [*protocol.Error] is one, everywhere, with code and data as
// they are. Observers get the text of plain errors ([event.HandlerFailed]), and clients a reference
// in its place where [roundtrip.Options].HideErrors is set. Want of room is [protocol.CodeBusy]
// with retryAfterMs in its data: the client may come back. What only the program can be blamed for,
// a panic, a nil result, content that breaks the output schema, is an internal error without
// details to the client; the details go to [Options].Observer. Every request is answered.
//
// # Clients are strangers
//
// Arguments have passed the schema when a handler sees them; names of members match by exact case,
// and a member that appears twice refuses the request. Answers count only if this server asked for
// them (package roundtrip). Clients are asked only what they declare to be able to answer. What a
// client says of itself, [Call.ClientInfo], nobody vouches for; who it is, [Call.Principal], the
// transport does.
//
// # Transports
//
// A [Server] is free of transports. [Server.Handle] serves a request from the same process, so that
// a Server is the peer of a client without anything in between; closing that client closes its
// peer, the Server. Transports call [Server.Admit] with what they know of the sender (a
// [Delivery]), may refuse what comes back (an [Admission]), and then call [Server.Serve]. Package
// serverhttp does this for HTTP, [Server.ServeStdio] and [Server.ServeStream] for lines of text.
// [Middleware] wraps every request of all transports, refusals included.
//
// # Options
//
// The zero value of every field is its default, and the default of every number
// stands at its field; nil options are all defaults. A negative number turns a limit
// or a feature off: no limit, no waiting, not at all. Where nothing else would bound
// the memory that strangers can take it is an error of the constructor, which names
// the field. The same holds in the packages serverhttp and middleware.
//
// # Concurrency and contexts
//
// All methods may be called concurrently, and handlers are. The context of a handler ends when the
// client abandons the request, when the server closes (with the cause [ErrClosed]), and when the
// handler returns. [Server.Shutdown] lets running requests finish, but for those that wait for a
// person; [Server.Close] does not. Package roundtrip lists the clocks that may run out on a person.
package server
