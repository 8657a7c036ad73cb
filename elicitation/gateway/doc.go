// Package gateway is a complete gateway: one server in front of others, whichever era each speaks.
//
//	g, err := gateway.New(&gateway.Options{Upstreams: []gateway.Upstream{
//		{Name: "docs", Connect: gateway.HTTP("https://docs.example/mcp", nil)},
//		{Name: "files", Connect: gateway.Command("files-server", "--root", "/srv")},
//	}})
//	handler, err := g.Handler(nil)
//
// It publishes the tools, prompts and resources of its upstreams, and relays what they ask in a
// call only to the client of that call. Hosts with a server and client of their own, of the
// official SDK or of mcp-go, use package elicitation: examples/sdkgateway.
//
// # Four pairings
//
// A call at an upstream of revision 2026-07-28 is relayed leg by leg. The gateway keeps nothing:
// the upstream's requestState travels inside its own, byte by byte, sealed and bound to the caller
// and the request. The upstream's handler runs once in each round, as it does without a gateway.
//
// A call at an upstream of an older revision is parked: it runs once, and stays open while the
// person thinks. A client of 2026-07-28 gets the questions and comes back with answers; a client in
// a session is sent them, and their withdrawals. The call is never made a second time: if the
// gateway does not know it any more, the client gets an error that says so.
//
// Neither side notices which era the other speaks.
//
// # Names
//
// The tool "search" of the upstream "docs" is "docs_search", its resource "file:///a" is
// "docs+file:///a", in links and in the contents of results, too. A view of MCP Apps, ui://a, is
// "ui://docs/a" everywhere. Names belong to upstreams by configuration, not by who comes first: see
// [Upstream.Unprefixed]. Definitions that a server refuses are left out, and logged.
//
// An upstream that is down is retried, after 1 s at first and finally once a minute. What it had
// published stays, and calls say that it cannot be reached.
//
// # What an upstream learns
//
// Upstreams get the name and arguments of a call, the capabilities that its client has declared, as
// far as [Upstream.Refuse] allows, and the log level that it wants: no metadata, no header, no
// token. [Upstream.Credential] decides as whom the gateway speaks. Callers with one credential see
// what the upstream shows to it, and hear of changes.
//
// # Logins
//
// Where an upstream wants a person to log in, their call asks them to visit a link, and goes on
// afterwards: see [Logins]. The link leads to the gateway, which lets only that person go on to the
// authorization server. A client without URL elicitation gets an error that says what to do. A
// login counts in all clients of the person. Before it they see the lists of the zero principal,
// with the gateway's own credential; so do anonymous callers, unless Credential refuses them. A
// subscription (subscriptions/listen) that was opened before a login follows these lists until the
// client opens it again.
//
// # Questions
//
// Questions of upstreams pass the router of package elicitation, with its events, metrics and
// texts; [Options.Elicitation] are its options. One that an older upstream pushes waits in the
// process that runs the call. One that an upstream of 2026-07-28 returns waits nowhere: the process
// that gets the answer ends it. The process to which the client comes too late counts the time-out;
// a client that does not come back is not counted: see [elicitation.Relayed].
//
// Answers count until Elicitation.Timeout. Then an upstream that waits reads "Elicitation timed
// out", as does a client that answers later. A client's error to a returned question ends the call:
// the upstream keeps nothing of it. A form that cannot be checked is refused.
//
// # What is not passed on
//
// Instructions of an upstream: they would speak to the model in the name of the gateway, also about
// tools of other upstreams. Write some for [Options.Server]. Extensions other than MCP Apps, and
// changes of roots. The end of a visit (notifications/elicitation/complete) is announced to the
// session that was asked for it; revision 2026-07-28 does not have it.
//
// Sessions: a call at an older upstream has a session there to itself, which has served only this
// caller. Successive calls mostly share one, concurrent calls never do; all clients of a person use
// the same ones, as do all anonymous callers. A session that is idle for five minutes ends. State
// that an upstream keeps in it may be missing in the next call: have it keep that by the caller,
// whom [Upstream.Credential] names.
//
// # Limits
//
// MaxCalls and MaxConnections of [Options] bound the calls at upstreams of older revisions: each
// has a connection of its own while it runs. Calls beyond them are refused with [protocol.CodeBusy]
// before the upstream is called. MaxPending of Options.Elicitation bounds pushed questions, not
// returned ones. Other bounds are those of the server ([Options.Server]).
//
// # Several processes
//
// Relayed calls go on at any replica that shares key and audience. A parked call belongs to the
// process that made it: with Replicas of [Gateway.Handler] another replica passes the request on to
// this owner. If the owner cannot be reached, the client is told to send the request again, and
// loses nothing; if it is gone, the client is told so. No replica makes the call a second time.
package gateway
