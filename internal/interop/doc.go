// Package interop lets rondo talk to the implementations that others have
// written, and holds what comes out against what should. It has no code of its
// own. It is a module of its own because it needs them.
//
// # Peers
//
// Our server against the clients of others: every scenario of scenario_test.go
// runs over every route.
//
//	official Go SDK    gosdk_client_test.go    HTTP, stream
//	mcp-go             mcpgo_client_test.go    HTTP, stream
//	TypeScript         tsclient_test.go        HTTP
//	MCP Inspector      inspector_test.go       HTTP, process
//
// Our client against the servers of others, which play the same scenarios by
// script_test.go; what goes wrong in them is in files of its own.
//
//	official Go SDK    gosdk_server_test.go, gosdk_mistakes_test.go    HTTP, stream
//	mcp-go             mcpgo_server_test.go, mcpgo_mistakes_test.go    HTTP, stream
//
// Where a peer makes something else of a scenario than it should, its file says
// what and why, and the test holds it against that: it fails when the peer is
// mended, so that what is said of it stays true. All that is said passes a
// recorder, and what our side says must conform to the published schema.
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
package interop
