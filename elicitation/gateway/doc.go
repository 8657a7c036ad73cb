// Package gateway is a gateway as a whole: one server in front of others, whichever era each side
// speaks.
//
//	g, err := gateway.New(&gateway.Options{Upstreams: []gateway.Upstream{
//		{Name: "docs", Connect: gateway.HTTP("https://docs.example/mcp", nil)},
//		{Name: "files", Connect: gateway.Command("files-server", "--root", "/srv")},
//	}})
//	handler, err := g.Handler(nil)
//
// It publishes the tools, prompts and resources of its upstreams, and passes on what they ask to
// the client of the call that they ask in, and to no other. Hosts that have their own server and
// client, or the official SDK's or mcp-go's, use package elicitation: examples/sdkgateway.
//
// # Four pairings
//
// A call of an upstream of revision 2026-07-28 is relayed leg by leg. The gateway keeps nothing:
// the upstream's requestState travels inside its own, byte by byte, sealed and bound to the caller
// and the request. The upstream's handler runs once in each round, as it does without a gateway.
//
// A call of an upstream of an older revision is parked: it runs once, and stays open while the
// person thinks. A client of 2026-07-28 goes away with the questions and comes back with answers;
// that of a session is sent them, and those that the upstream withdraws are withdrawn there. The
// call is never made a second time: where the gateway does not know it any more, the client gets
// an error that says so.
//
// Which era a client speaks makes no difference to an upstream, and the other way round.
//
// # Names
//
// The tool "search" of the upstream "docs" is "docs_search", its resource "file:///a" is
// "docs+file:///a", in links and in the contents of results, too. A view of MCP Apps, ui://a, is
// "ui://docs/a", wherever it is named. A name belongs to an upstream by
// configuration, whichever comes first: see [Upstream.Unprefixed]. The definitions that a server
// refuses are left out; the log says which.
//
// An upstream that is down is tried again, after 1 s at first and once a minute in the end. What
// it had published stays, and calls say that it cannot be reached.
//
// # What an upstream learns
//
// Upstreams are told the capabilities that the client of the call has declared, as far as
// [Upstream.Refuse] lets them, and the level of logs that it wants. Nothing else of a request is
// passed on but its name and arguments: no metadata, no header, no token. [Upstream.Credential]
// decides as whom the gateway speaks. Callers with one credential see what the upstream shows to
// that credential, and are told when it changes.
//
// # Logins
//
// Where an upstream wants the person to log in, their call asks them to visit a link, and goes on
// when they have: see [Logins]. The link leads to the gateway, which lets only them pass on to the
// authorization server. A client without URL elicitation gets an error that says what to do. Logins
// of a person count in all their clients. Before that they see the lists of the zero principal,
// whose credential is one of the gateway's own; anonymous callers have it, too, unless Credential
// refuses them. A subscription (subscriptions/listen) that was opened before a login follows these
// lists until the client opens it again.
//
// # Questions
//
// Every question of an upstream is one of package elicitation's router: its events, metrics and
// texts are those that the package lists, and [Options.Elicitation] its options. One that an older
// upstream pushes waits in the process that runs the call. One that an upstream of 2026-07-28
// returns waits nowhere, and is ended by the process that gets the answer; its time-out is counted
// by the process to which the client comes too late, and never for a client that does not come
// back: see [elicitation.Relayed].
//
// Until Elicitation.Timeout is over an answer counts. Then an upstream that waits reads
// "Elicitation timed out", and a client that brings an answer later does. A client's error to a
// question that was returned ends the call: the upstream keeps nothing that could be told. A form
// that cannot be checked is refused.
//
// # What is not passed on
//
// Instructions of an upstream: they would speak to the model in the name of the gateway, of the
// tools of other upstreams, too. Whoever has read them writes others for [Options.Server].
// Extensions but MCP Apps, and changes of roots. The end of a visit
// (notifications/elicitation/complete) is announced to the session that was asked for it; revision
// 2026-07-28 does not have it.
//
// Sessions: a call of an older upstream runs in a session there that no other call uses, and that
// served nobody but this caller. Calls one after another mostly find the same one, calls at the
// same time never do; all clients of a person use the same ones, as all anonymous callers do, and
// one that is idle for five minutes ends. What an upstream keeps in a session is not reliably there
// for the next call: have it keep that by the caller, whom [Upstream.Credential] names.
//
// # Limits
//
// MaxCalls and MaxConnections of [Options] bound the calls that run at upstreams of older
// revisions: each has a connection of its own while it runs. Beyond them calls are refused with
// [protocol.CodeBusy] before the upstream is
// called. Questions that are pushed have bounds of their own, MaxPending of Options.Elicitation;
// those that are returned count for none. Other bounds are those of the server ([Options.Server]).
//
// # Several processes
//
// Calls that are relayed go on at any replica that shares key and audience. A parked call is known
// to the process that made it, its owner: with Replicas of [Gateway.Handler] another replica passes
// the request on to it. Where the owner cannot be reached the client is told to send the request
// again, and loses nothing; where it is gone the client is told so. No replica makes the call a
// second time.
package gateway
