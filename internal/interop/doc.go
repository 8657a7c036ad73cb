// Package interop lets rondo talk to the implementations that others have
// written, and holds what comes out against what should. It has no code of its
// own. It is a module of its own because it needs them.
//
// # Peers
//
// Our server against the clients of others: every scenario of scenario_test.go
// runs over every route, in revision 2026-07-28 and in those with sessions,
// with the same handlers (subject_test.go).
//
//	official Go SDK  gosdk_client_test.go  HTTP, stream   2026-07-28, 2024-11-05 to 2025-11-25
//	mcp-go           mcpgo_client_test.go  HTTP, stream   2026-07-28, 2024-11-05 to 2025-11-25
//	TypeScript 2     tsclient_test.go      HTTP, process  2026-07-28, 2025-11-25
//	TypeScript 1     tsclient_test.go      HTTP, process  2025-11-25
//	MCP Inspector    inspector_test.go     HTTP, process  2026-07-28, 2025-11-25
//
// The servers of others with ours in front (package server/hosted), and the same clients: both SDKs
// for Go, whose handlers return their questions or push them (hosted_test.go, hosted_node_test.go).
//
// Our client against the servers of others, which play the same scenarios by
// script_test.go. In sessions their handlers push their questions or,
// "returned", leave that to the implementation.
//
//	official Go SDK  gosdk_server_test.go    HTTP, stream   2026-07-28, 2025-11-25
//	mcp-go           mcpgo_server_test.go    HTTP, stream   2026-07-28, 2025-11-25
//	TypeScript 1     tsserver_test.go        HTTP, process  2025-11-25
//
// Where a peer makes something else of a scenario than it should, its file says
// what and why, and the test holds it against that: it fails when the peer is
// mended, so that what is said of it stays true. All that is said passes a
// recorder. What our side says must conform to the published schema of the
// revision, and neither side may say what is of the other era: questions in
// results and the _meta of requests that stand for themselves in a session,
// requests from the server outside of one (eras_test.go).
//
// Gateways: elicitation/gateway stands between clients of five makes and servers of six, over HTTP
// and as processes, in all four pairings of eras, for two people at the same time:
// frontdoor_ts_test.go prints the table of questions that were shown and of what the servers did.
//
// Replicas: three processes of internal/conformance/everything behind a real nginx and a real
// HAProxy with plain round robin, and five clients of 2025-11-25 before them
// (replicas_test.go). What the clients make of a replica that dies or drains is
// the table testdata/replicas.md (outcomes_test.go). The configurations,
// nginx.conf and haproxy.cfg of examples/production, are those that server/README.md
// shows. Three processes of examples/production itself stand behind them, and behind
// haproxy-sticky.cfg, with clients of both eras; they are killed, their keys are
// changed, and a real Prometheus reads their metrics (production_test.go).
//
// Authorization servers: our client logs in there, and our server checks their tokens
// (foreign_test.go; authserver_test.go has more of the first).
//
//	oidc-provider         foreign_node_test.go     also private_key_jwt, and machines
//	better-auth           foreign_node_test.go
//	TypeScript SDK, demo  foreign_node_test.go     opaque tokens, bearer.Issuer.Verify
//	zitadel/oidc          foreign_zitadel_test.go  JSON Web Tokens, introspection, Verify
//
// # Shapes
//
// A server that an author wrote before there was rondo, on both SDKs, hosted and with
// every client in both eras (shape_*_test.go): its HTTP server limits how long a response may take,
// and calls are abandoned while the person looks at a question.
//
// # Comparison
//
// What our library and both SDKs for Go do by themselves is the table of README.md, which
// comparison_test.go fills in.
//
// # Running
//
// Peers that are written in Go need nothing but Go:
//
//	go test ./...
//
// The others need npm, which fetches them, and Node itself, into the user's
// cache directory; where that cannot be done the tests fail:
//
//	go test -tags node ./...
//
// Proxies and Prometheus come from Debian's packages, which apt-get fetches and nobody installs,
// unpacked into the same directory. No root is needed, and no service is started:
//
//	go test -tags node,proxy -run 'TestSessionsBehindProxies|TestProductionFleet' ./...
package interop
