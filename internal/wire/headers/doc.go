// Package headers knows which tool arguments a schema wants mirrored into Mcp-Param-* headers
// (basic/transports/streamable-http, "Custom Headers from Tool Parameters"). Clients compute the
// headers with it, servers check them.
package headers
