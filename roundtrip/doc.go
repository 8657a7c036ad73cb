// Package roundtrip lets a handler ask the user in mid-call, written once for all revisions.
//
// # Asking
//
// A handler of tools/call, prompts/get or resources/read returns its questions. The client asks the
// user and sends the request again with the answers; the handler runs again and reads them:
//
//	type Confirmation struct {
//		Reason string `json:"reason" jsonschema:"why now?"`
//	}
//
//	var confirm = roundtrip.MustQuestion[Confirmation]("confirm")
//
//	func deploy(ctx context.Context, call *server.ToolCall,
//		in DeployInput) (protocol.CallToolOutcome, error) {
//		switch answer := confirm.Answer(ctx); answer.Outcome {
//		case roundtrip.Accepted:
//			return server.Text("deployed to " + in.Env + ": " + answer.Content.Reason), nil
//		case roundtrip.Declined, roundtrip.Cancelled:
//			return server.Text("left " + in.Env + " alone"), nil
//		default: // Missing or Invalid: ask; Unseen: ends the flow
//			return roundtrip.InputRequired(confirm.Elicit("Deploy to " + in.Env + "?")), nil
//		}
//	}
//
// This is the guard style: the code behind the guard runs only with an accepted, valid answer; code
// before it runs in every round. [AcceptedContent] is the short form for handlers that treat all
// refusals alike; repeating a refused question ends the flow unless it has the option [AskAgain].
//
// Every round sees all previous answers. [WithState] keeps the author's own data beside them.
//
// # Straight-line code
//
// If one question depends on another's answer, write straight-line code. This is the flow style:
//
//	region, err := roundtrip.Ask[Region](ctx, "region", "Which region?")
//	if err != nil {
//		return nil, err
//	}
//	size, err := roundtrip.Ask[Size](ctx, "size", "How large, in "+region.Name+"?")
//
// On a connection of a legacy revision [Ask] waits. In a modern one it returns [ErrPending] and
// cancels the handler's context; when the answer arrives the handler runs again from its start, and
// the same Ask returns it. The handler's result is discarded in a round that asks, so a tool cannot
// proceed past an unanswered question, even if it ignores the error.
//
// Replay has rules. All code before an Ask runs again in every round: effects belong behind the
// last one, or in [OnCommit], which runs when the flow has completed. Ask the same questions in
// every round. Random, costly or time-dependent values go through [Memo]. A leg can run twice,
// after a lost response or a replay, so a payment takes an [IdempotencyKey]. Without a
// [store.Guard] a replay may carry other answers, so the key must include the amount. Code that
// ignores both context and error runs even in a round that asks.
//
// [FlowVersion] separates flows that began under older code. One handler may use both styles; to
// ask several questions at once it returns them, in guard style. State that a handler returns with
// [WithState] in a round that asks is kept, so it must not record consent before it was given.
//
// # When nobody can be asked
//
// If a question cannot be delivered, or is not answered, the call ends with a refusal that gives
// the reason, in both styles and for hosts that push ([PushRequest]), even if the handler ignores
// the error. The observer gets [event.PushFailed]. A handler that can proceed without an answer
// checks [CanAsk] first, or marks the question [IfPossible].
//
// Agreeing to visit a URL does not complete the visit: [Await] waits for that.
//
// # What the client carries, and what sealing proves
//
// Nothing waits on the server between two rounds. The state travels through the client as
// requestState, which the protocol tells servers not to trust. rondo seals it (AES-256-GCM) and
// binds it to the principal, the method, the tool, prompt or resource, the arguments, the audience
// and a time; any other state is refused with one uniform error. A handler may therefore rely on
// this: the answers it reads were given to questions that this flow asked of this caller.
//
// Until a state expires, the same client can replay it; a [store.Guard] makes it single-use.
// Sealing does not prove that a person answered; that is the client's claim. The states of
// anonymous HTTP callers are bearer tokens: their holder may continue the flow.
//
// The key decides which servers can open a state. Without a configured [keys.Sealer] it is random
// and lives as long as the process; replicas share one with [keys.KeyringFromEnv]. Services that
// share a key need distinct values of [Options].Audience, which is then required.
//
// # When a person takes time
//
// In modern revisions the question is returned and the answer comes with another request, so a call
// waits for a person in [Await] only. On a connection of a legacy revision it waits while its
// question is open. Timeouts and metrics exclude that time; your own middleware can do so with
// [WatchWaiting]. Waiting calls have separate limits, see [Options].Limits.Waiting, and send
// heartbeats to callers that asked for progress. Shutdown does not wait for them.
//
// # Clocks that can run out on a person
//
// These are all such timeouts, with their defaults, what they bound and what happens when they
// expire. A dash means no default. Timeouts without a setting are named by what they bound.
//
// In the server, whichever host it is built on:
//
//	roundtrip.Options.HumanTimeout        10 min
//		one question in a session, from the last progress on it (with mcp-go: from its
//		start), and Await in a session; the question is withdrawn and the call refused
//	roundtrip.Options.MinHumanTime        400 ms
//		a refusal that comes sooner is unseen: given by the client, not by a person
//	roundtrip.Options.RoundTTL            1 h
//		the answers to returned questions; their requestState is refused, and the call must
//		be started again, or restarts by itself with RestartExpired
//	roundtrip.AnswerWithin                -
//		the same for one round, in place of RoundTTL; no effect where Ask waits in a session
//	a flow                                24 h
//		all rounds together, or RoundTTL if longer; it ends like RoundTTL, or in a session
//		like HumanTimeout, at the next question or while one is open
//	a visit that Await waits for          25 s
//		how long it holds a request of a modern revision, 50 s where the client asked for
//		progress; the link is asked for again
//	heartbeats of a call                  15 s
//		progress sent to the caller of a waiting call, first after 2 s; nothing ends
//	middleware.Timeout                    60 s
//		work only: it pauses while the call waits; the handler's context ends
//	store.Lease                           2 min
//		how long a claim of a guard lasts without renewal; then copies of its request are
//		told that the outcome is unknown
//	a claim in sqlstore or redisstore     5 s
//		the claim of a state with its answers; the request is refused
//	redisstore.Options.Longest            1 h
//		the lifetime of a state; a longer one is refused, so set it at least to
//		RoundTTL or AnswerWithin
//
// In the transport of the server:
//
//	serverhttp.Options.SessionTimeout     30 min
//		a session without a request in flight or an open stream; it ends
//	idle sessions at a limit of serverhttp 1 min
//		a session idle for this long may be evicted for a new one
//	events of a finished stream           5 min
//		a response for a client that lost its connection; it can no longer be fetched
//	keep-alive of serverhttp              25 s
//		a quiet stream; a comment is sent to keep proxies from closing it
//	serverhttp.Options.ReadTimeout        30 s
//		reading one body; the request is refused (408)
//	write timeout of serverhttp           30 s
//		one write, not the response; the connection is closed
//	http.Server.WriteTimeout              -
//		the response; serverhttp overrides it for each write
//	mcp.StreamableHTTPOptions.SessionTimeout, server.WithSessionIdleTTL    -
//		idle sessions of the official SDK and of mcp-go; see there
//
// In a gateway:
//
//	elicitation.Options.Timeout           60 s
//		one question, from the last progress on it; it is withdrawn from the client, and the
//		upstream gets "Elicitation timed out"
//	gateway.Options.Elicitation.Timeout   10 min
//		one question in package gateway, where it is Server.Roundtrip.HumanTimeout; for a
//		question returned by an upstream of 2026-07-28 it runs from the creation, beside
//		RoundTTL; an answer after that gets "Elicitation timed out"
//	elicitation.Options.MinHumanTime      400 ms
//		a refusal that comes sooner after the delivery is unseen, and goes to the upstream
//	a question that progress extends      10 min
//		one question, however often it is extended; elicitation.Options.Timeout plus 5 min
//		if that is longer
//	the delivery of a question            10 s
//		until the client's transport has taken the question; then the question fails
//	heartbeats of the router              15 s
//		progress sent to the gateway's client, as above
//	a call of an older upstream           15 min
//		with all its questions, for clients of any revision: 5 min more than one question may
//		take; it is cancelled upstream and the client notified
//	such a call whose client left         30 s
//		the same; also how long an outcome is kept for a client that lost it
//	a visit that the router remembers     1 h
//		until the upstream reports completion; later reports are not passed on
//	questions over mcp-go's HTTP client   30 s
//		one question of an upstream; mcp-go ends it, no setting of a router extends that
//
// In the client:
//
//	client.Options.Timeout                5 min
//		the server's part of a call, without the time people take; the call fails
//	the wait that a busy server asks for  30 s
//		the longest; above it the call fails at once
//	an answer to a server of an older revision over HTTP    30 s
//		delivery to the server; then the client gives up, and the question times out
//	the request timeout of other clients  60 s
//		common; heartbeats keep it from running out where progress resets it
//
// To align them, set roundtrip.Options.HumanTimeout to the time that a person may take, and
// elicitation.Options.Timeout in a gateway on a router to the same, because questions of upstreams
// pass both. Package gateway does so by itself. Progress on a question restarts its timeouts. A
// heartbeat is progress of the call, not of the question, and extends none of them.
//
// # The funnel
//
// [Funnel] does all of this, independent of any transport: package server is built on it, and so
// can be gateways and hosts of other SDKs. Its observer sees what clients do not: why a state was
// refused, which answers were dropped, what a handler did wrong.
//
// # Two styles, one vocabulary
//
// Both styles take the same options, such as [AskAgain] and [AnswerWithin].
//
//	guard style                 flow style
//	[Elicit]                      [Ask]
//	[ElicitURL]                   [AskURL]
//	[CreateMessage]               [AskMessage]
//	[ListRoots]                   [AskRoots]
//	[FormQuestion.Elicit]         [FormQuestion.Ask]
//	[ElicitSchema]                [ElicitSchema] and [Question.Ask]
//
// # For hosts and transports
//
// These are for packages like server, not for authors of handlers (see adapter.go, funnel.go):
//
//   - [Funnel] and [NewFunnel], with a [Call] and a [Handler], take a request through its rounds; a
//     [Pusher] puts questions to a client of a legacy revision, and a [VisitCompleter] notifies it
//     when a visit is finished.
//   - [PushRequest] and [WithRoundOf] are for hosts whose handlers send questions themselves.
//   - [AskRequest], [AskUnkeyed] and [ContinueHandler] are for hosts of handlers of another SDK.
//   - [WatchWaiting], [RequestID] and [RoundOf] are for middleware, [Tracer] for traces.
//
// # Concurrency and contexts
//
// The round travels in the handler's context, so the helpers work with any host's handler
// signature, from several goroutines, while the handler runs. Outside a round they report that
// there is no answer, or [ErrNoRound]. The context ends with the request, when the round is
// pending, and when the handler returns; [CleanupContext] leaves a few more seconds.
package roundtrip
