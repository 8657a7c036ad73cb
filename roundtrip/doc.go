// Package roundtrip lets a handler ask the person behind the client something in the middle of a
// call, written once for every way the protocol has of asking.
//
// # Asking
//
// A handler of tools/call, prompts/get or resources/read returns what it still needs. The client
// asks the person and sends the same request again, with the answers; the handler runs again from
// its start and finds them:
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
//		default: // Missing or Invalid: ask; Unseen, which is not asked again
//			return roundtrip.InputRequired(confirm.Elicit("Deploy to " + in.Env + "?")), nil
//		}
//	}
//
// This is the guard style: whatever is missing is asked for, and code behind the guard runs only
// with an answer that was accepted and fits the form. Everything before the guard runs once a
// round, so effects belong behind it. [AcceptedContent] is the short form where a refusal needs no
// words of its own; a handler that then repeats the refused question ends the flow rather than
// nagging, unless the question has the option [AskAgain].
//
// Answers accumulate: in the third round the first answer is still there.
// [WithState] keeps data of the author's own beside them.
//
// # Straight-line code
//
// Where one question depends on the answer to another, a handler reads better as code that waits.
// This is the flow style:
//
//	region, err := roundtrip.Ask[Region](ctx, "region", "Which region?")
//	if err != nil {
//		return nil, err
//	}
//	size, err := roundtrip.Ask[Size](ctx, "size", "How large, in "+region.Name+"?")
//
// On a connection of a legacy revision [Ask] waits. In a modern one it returns [ErrPending] and the
// handler's context ends; with the answer the handler runs again from its start, and the same Ask
// returns it. A result that is returned in a round which asks is thrown away, whatever the handler
// makes of the error, so a guard that swallows it lets nothing through.
//
// Replay has rules. All code before an Ask runs again in every round: effects belong behind the
// last one, or in [OnCommit], which runs when the flow has completed. A handler must ask the same
// questions again. What is random, costly or changes with time goes through [Memo]. A leg can be
// run twice, when its response is lost or its state sent again, so a payment takes an
// [IdempotencyKey]; with other answers, too, unless there is a [store.Guard], so the key names the
// amount. And no library can stop code that takes neither context nor error into account: it runs
// in a round that asks, although nobody is told that it succeeded.
//
// [FlowVersion] tells flows that began under other code. Both styles may be used in one handler,
// and a flow that asks several questions at once returns them, as guard style does. What a handler
// returns with [WithState] in a round that asks is kept: it is the handler's word, so it must not
// say that somebody agreed before they did.
//
// # When nobody can be asked
//
// A question that cannot be put to the client, or that nobody answers, ends the call with a refusal
// that says why, in both styles and for hosts that push ([PushRequest]), also if the handler drops
// the error. [event.PushFailed] tells the observer. A handler that can do without an answer looks
// first, with [CanAsk], or says so with [IfPossible].
//
// A person who agrees to visit a URL is not done there. [Await] waits for that.
//
// # What the client carries, and what sealing proves
//
// Nothing waits on the server between two rounds. What a flow knows travels through the client as
// requestState, which the protocol declares to be an attacker's input. rondo therefore seals it
// (AES-256-GCM) and binds it to the principal, the method, the tool, prompt or resource, the
// arguments, the audience and a time; state that does not fit is refused with one error that tells
// an attacker nothing. So a handler may rely on this: the answers it reads were given to questions
// that this flow asked of this caller.
//
// Sealing does not make a state single-use: until it expires, the same client can present it again,
// and the handler runs again. Where that matters, configure a [store.Guard]. Nor does it prove that
// a person answered, which is the client's word. The states of anonymous HTTP callers are bearer
// tokens: whoever holds one may continue the flow.
//
// The key decides who can open a state. Without a configured [keys.Sealer] it is random and dies
// with the process; give replicas a shared one with [keys.KeyringFromEnv]. Services that share a
// key are told apart by [Options].Audience, which is required then.
//
// # When a person takes time
//
// In modern revisions the question is returned and the answer comes with another request, so a call
// waits for a person in [Await] alone. On a connection of a legacy revision it waits while its
// question is with the client. Limits and metrics of work leave that time out; [WatchWaiting] tells
// middleware of an author's own. Calls that wait have limits of their own, see
// [Options].Limits.Waiting, and send heartbeats to callers that asked for progress. A server that
// shuts down does not wait for them.
//
// # Clocks that can run out on a person
//
// This table names every such clock with its default and, on the lines below, what
// it bounds and what happens when it runs out. A dash means that there is no default,
// and a clock without a setting is named by what it bounds.
//
// In the server, whichever host it is built on:
//
//	roundtrip.Options.HumanTimeout        10 min
//		one question in a session, from the last progress on it (with mcp-go: from its
//		start), and Await in a session; the question is withdrawn and the call refused
//	roundtrip.Options.MinHumanTime        400 ms
//		a refusal that comes sooner is unseen: the client gave it, and no person
//	roundtrip.Options.RoundTTL            1 h
//		the answers to returned questions; their requestState is refused, and the call has
//		to be started again, or starts over by itself with RestartExpired
//	roundtrip.AnswerWithin                -
//		the same for one round, in place of RoundTTL; in a session, too, but where Ask
//		waits it has no effect
//	a flow                                24 h
//		all rounds together, RoundTTL if that is longer; it ends like RoundTTL, and in a
//		session like HumanTimeout, when something is asked or waits for its answer
//	a visit that Await waits for          25 s
//		how long it holds a request of a modern revision, 50 s where the client asked for
//		progress; the link is asked for again
//	heartbeats of a call                  15 s
//		progress to the caller of a call that waits, first after 2 s; it ends nothing
//	middleware.Timeout                    60 s
//		work alone: the clock stands still while the call waits; the handler's context ends
//	store.Lease                           2 min
//		how long a claim of a guard counts as running when nobody renews it; then copies of
//		its request are told that the outcome is not known
//	a claim in sqlstore or redisstore     5 s
//		the claim of a state with its answers; the request is refused
//	redisstore.Options.Longest            1 h
//		how long a state may last; one that lasts longer is refused, so keep it at RoundTTL
//		or AnswerWithin
//
// In the transport of the server:
//
//	serverhttp.Options.SessionTimeout     30 min
//		a session in which no request runs or waits and no stream is open; it ends
//	idle sessions at a limit of serverhttp 1 min
//		a session that was idle for so long may make room for another; it ends
//	events of a finished stream           5 min
//		a response for a client that lost its connection; it cannot be fetched any more
//	keep-alive of serverhttp              25 s
//		a quiet stream; a comment is sent, which keeps proxies from closing it
//	serverhttp.Options.ReadTimeout        30 s
//		one body, such as that with the answers; the request is refused (408)
//	write timeout of serverhttp           30 s
//		one write, not the response; the connection is closed
//	http.Server.WriteTimeout              -
//		the response; serverhttp replaces it by its own for each write
//	mcp.StreamableHTTPOptions.SessionTimeout, server.WithSessionIdleTTL    -
//		idle sessions of the official SDK and of mcp-go; see there
//
// In a gateway:
//
//	elicitation.Options.Timeout           60 s
//		one question, from the last progress on it; the client is told that it is withdrawn,
//		and the upstream gets "Elicitation timed out"
//	gateway.Options.Elicitation.Timeout   10 min
//		the same in package gateway, where it is Server.Roundtrip.HumanTimeout; a question that
//		an upstream of 2026-07-28 returns has it from its creation, beside RoundTTL, and
//		the client that answers later gets the text
//	elicitation.Options.MinHumanTime      400 ms
//		a refusal that comes sooner after the delivery is unseen; it goes to the upstream
//	a question that progress extends      10 min
//		the same, whatever extends it; 5 min more than elicitation.Options.Timeout
//		if that is longer
//	the delivery of a question            10 s
//		until the client's transport has taken the question; the question fails
//	heartbeats of the router              15 s
//		the same, for the gateway's client
//	a call of an older upstream           15 min
//		with all its questions, before a client of either kind;
//		it is cancelled upstream, and the client told; 5 min more than one question may take
//	such a call whose client left         30 s
//		likewise. Also how long an outcome is kept for a client that has lost it
//	a visit that the router remembers     1 h
//		until the upstream reports that it is completed; the client is not told any more
//	questions over mcp-go's HTTP client   30 s
//		one question of an upstream; mcp-go ends it, and no setting of a router can extend that
//
// In the client:
//
//	client.Options.Timeout                5 min
//		the server's part of a call: the time of people is left out; the call fails
//	the wait that a busy server asks for  30 s
//		the longest; the call fails at once instead
//	an answer to a server of an older revision over HTTP    30 s
//		until the server has taken it; then the client gives up, and the question times out
//	the request timeout of other clients  60 s
//		common; heartbeats keep it from running out where progress resets it
//
// To align them, set roundtrip.Options.HumanTimeout to what a person may take, and in a
// gateway on a router elicitation.Options.Timeout to the same: what an upstream asks passes
// both. Package gateway does that by itself. Progress on a question starts its clocks again.
// A heartbeat is progress of the call and not of the question, and lengthens none of these.
//
// # The funnel
//
// [Funnel] is where all of this happens, free of any transport: package server sits on it, and so
// can gateways and hosts of other SDKs. Its observer sees what clients do not: why a state was
// refused, which answers were dropped, what a handler did wrong.
//
// # Two styles, one vocabulary
//
// The function of flow style has Ask where that of guard style has the verb of the protocol. Both
// take the same options: [AskAgain], [AnswerWithin].
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
// Authors of handlers need none of these names; packages server and server/hosted
// use them for those authors. They are in adapter.go, and the funnel itself in funnel.go:
//
//   - [Funnel] and [NewFunnel], with a [Call] and a [Handler], take a
//     request through its rounds; a [Pusher] puts questions to a client of a legacy
//     revision, and one that is a [VisitCompleter] tells it that a visit is finished.
//   - [PushRequest] and [WithRoundOf] are for hosts whose handlers send questions themselves.
//   - [AskRequest], [AskUnkeyed] and [ContinueHandler] are for hosts of handlers of another SDK.
//   - [WatchWaiting], [RequestID] and [RoundOf] are for middleware, [Tracer] for traces.
//
// # Concurrency and contexts
//
// A round travels in the context of the handler, so the helpers work under any host's handler
// signature, and may be called from several goroutines as long as the handler runs. Outside a round
// they report that there is no answer, or [ErrNoRound]. The context ends with the request, when the
// round is pending, and when the handler returns, whichever is first; [CleanupContext] gives what
// must happen all the same a few seconds more.
package roundtrip
