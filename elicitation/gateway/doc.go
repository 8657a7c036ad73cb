// Package gateway is a complete gateway: one server in front of others, whichever era each speaks.
//
//	g, err := gateway.New(&gateway.Options{Upstreams: []gateway.Upstream{
//		{Name: "docs", Connect: gateway.HTTP("https://docs.example/mcp", nil)},
//		{Name: "files", Connect: gateway.Command("files-server", "--root", "/srv")},
//	}})
//	handler, err := g.Handler(nil)
//
// It publishes the tools, prompts and resources of its upstreams, and relays an upstream's
// questions only to the client of the call. Hosts with their own server and client, of the official
// SDK or mcp-go, use package elicitation: see examples/sdkgateway.
//
// # Four pairings
//
// A call to an upstream of revision 2026-07-28 is relayed leg by leg. The gateway keeps no state:
// the upstream's requestState travels unchanged inside its own, sealed and bound to the caller and
// the request. As without a gateway, the upstream's handler runs once per round.
//
// A call to an upstream of an older revision is parked: it runs once and stays open while the
// person thinks. A client of 2026-07-28 gets the questions and returns with answers; a client in a
// session is sent them, and their withdrawals. The call is never repeated: if the gateway no longer
// knows it, the client gets an error that says so.
//
// Neither side notices the other's era.
//
// # Names
//
// The tool "search" of the upstream "docs" is published as "docs_search", its resource "file:///a"
// as "docs+file:///a", also in links and in the contents of results. A view of MCP Apps, ui://a,
// becomes "ui://docs/a". Names depend on the configuration only: see [Upstream.Unprefixed]. Invalid
// definitions are left out and logged.
//
// An upstream that is down is retried after 1 s at first, finally every minute. Its entries stay
// published, and calls report that it is unreachable.
//
// # What an upstream learns
//
// Upstreams get the name and arguments of a call, its client's declared capabilities as far as
// [Upstream.Refuse] allows, and the wanted log level: no metadata, header or token.
// [Upstream.Credential] decides which identity the gateway uses. Callers with one credential share
// lists and announced changes.
//
// # Logins
//
// If an upstream requires a login, the call asks the user to visit a link, and continues
// afterwards: see [Logins]. The link leads to the gateway, which lets only that user go on to the
// authorization server. A client without URL elicitation gets an error that says what to do. A
// login is valid for all clients of the user. Before it they see the lists of the zero principal,
// read with the gateway's own credential; so do anonymous callers, unless Credential refuses them.
// A subscription (subscriptions/listen) opened earlier follows these lists until it is reopened.
//
// # Questions
//
// Questions of upstreams go through the router of package elicitation, with its events, metrics and
// texts; [Options.Elicitation] configures it. A question pushed by an older upstream waits in the
// process that runs the call. One returned by an upstream of 2026-07-28 waits in no process: the
// process that gets the answer ends the question, and counts a timeout if the answer is late; a
// question whose client does not return is not counted, see [elicitation.Relayed].
//
// Answers are accepted until Elicitation.Timeout. Then a waiting upstream gets "Elicitation timed
// out", as does a client that answers later. A client's error to a returned question ends the call.
// A form that cannot be checked is refused.
//
// # What is not passed on
//
// Instructions of an upstream are not passed on, because they would address the model in the
// gateway's name, even about other upstreams' tools: write your own in [Options.Server]. Nor are
// extensions other than MCP Apps, and changes of roots. A visit's completion
// (notifications/elicitation/complete) goes only to the session that was asked; revision 2026-07-28
// does not have it.
//
// Sessions: a call to an older upstream has a session of its own, which has served only this
// caller. Successive calls mostly share one, concurrent calls never; all clients of a user share
// sessions, as do all anonymous callers. A session ends after five idle minutes. The upstream may
// lose session state between calls: have it key state by the caller ([Upstream.Credential]).
//
// # Limits
//
// MaxCalls and MaxConnections of [Options] limit calls to upstreams of older revisions: each has
// its own connection while it runs. Calls over the limit are refused with [protocol.CodeBusy]
// before the upstream is called. MaxPending of Options.Elicitation limits pushed questions, not
// returned ones. Other limits are the server's ([Options.Server]).
//
// # Several processes
//
// Relayed calls continue at any replica that shares key and audience. A parked call belongs to the
// process that made it: with Replicas of [Gateway.Handler] another replica forwards requests to
// this owner. If the owner is unreachable, the client is told to retry, without loss; if it is
// gone, the client is told so. No replica repeats the call.
package gateway
