// Package bridge lets clients of revision 2026-07-28 use upstreams that ask while a call runs.
//
// An upstream of revision 2025-11-25 or 2025-06-18 sends elicitation/create during tools/call and
// waits. A client of revision 2026-07-28 cannot be sent requests: it gets a result with questions
// (input_required) and a requestState, and sends its request again with answers and that state.
// A gateway between the two must not repeat the call upstream with each request, since what the
// tool did before it asked would be done twice. A [Bridge] makes the call once, and keeps it open
// while the client comes and goes. The questions pass through an [elicitation.Router], with its
// checks, limits, logs and metrics.
//
//	router, err := elicitation.New(&elicitation.Options{Logger: logger, Registerer: registry})
//	b, err := bridge.New(router, &bridge.Options{Keys: ring.Derive(bridge.KeyPurpose)})
//	defer b.Shutdown(ctx)
//
//	// In the handler of tools/call:
//	outcome, err := b.Serve(ctx, &bridge.Request{
//		Method: "tools/call", Target: name, Arguments: arguments,
//		Principal: who, Capabilities: declared, Responses: inputResponses, State: requestState,
//		Run: func(ctx context.Context, begin bridge.BeginFunc) (json.RawMessage, error) {
//			call, err := begin(ctx, connection)
//			if err != nil {
//				return nil, err
//			}
//			defer call.End()
//			return callUpstream(ctx, call) // its questions go to call.Elicit
//		},
//	})
//
// The example of the package is this as a program. Gateways on the official Go SDK or on mcp-go set
// Options.Bridge of package elicitation/gosdk or elicitation/mcpgo.
//
// # Rounds
//
// The client gets one outcome for each of its requests: the result of the call, or all questions
// that are open. A request with answers gives them to the upstream and waits for the next outcome.
// Questions that it does not answer come again. A declined question is an answer.
//
// # What a state proves
//
// The requestState is sealed under [Options].Keys. It names the call, the round and a digest of the
// principal, the method, the target and the arguments. A request with another principal, tool or
// argument is refused. So is one with the state of an older round, or with other answers to
// questions that have been answered. What is refused changes nothing: the request of the rightful
// client is served afterwards. Whoever has the state of an anonymous caller can use it; with a
// [Request].Credential they need that, too.
//
// Copies of a request, as clients and proxies send where a response was lost, have the same
// answers. All copies get the same outcome, and the upstream gets the answers once. A first request
// has no state: sent twice, it is two calls.
//
// # Clients that go away
//
// A client whose first request breaks off has no state to come back with: its call ends upstream at
// once. Later the call goes on for [Options].Grace, and an outcome that was sent is kept as long. A
// call that ends while its client is away keeps the result until the client comes, or until
// [Options].TTL. Then the call is cancelled upstream, whatever it does.
//
// # Connections
//
// A call that waits for a person holds its connection to the upstream for minutes. Over HTTP calls
// may share one. On standard input and output, where one connection serves one call at a time, as
// many people can be asked at once as there are processes. Beside the connection a call that waits
// takes some 17 KiB, two thirds of it stacks.
//
// # Replicas
//
// With [Options].Bus a request may reach any replica: the state names the one that has the call,
// and the answers and the outcome are passed on. When that one is gone the client is told so, and
// the call is never made again. Calls are in the memory of one replica; nothing survives its end.
//
// # What is not passed on
//
// Log messages of the upstream, sampling and roots, and the notification that a visit to a URL is
// complete. Progress is passed on to the requests that wait; at another replica than
// that of the call they get at most ten reports a second.
//
// # Metrics
//
//	elicitation_parked                calls that are open
//	elicitation_parked_seconds        from the beginning of a call to its end
//	elicitation_unparked_total{how}   calls that have ended
//	elicitation_resumes_total{how}    requests with a state
//
// A call ends as done, failed, abandoned, expired, rounds (the upstream asked too often) or
// shutdown. A request with a state is answered, joined (a copy waits already), repeated (a copy got
// the outcome), refused, gone (the call is over) or expired.
//
// With Options.Logger there are entries elicitation.parked, elicitation.resumed and
// elicitation.unparked, with the fields event, call and downstream_session. No answer, state or URL
// is in any.
package bridge
