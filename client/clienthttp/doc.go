// Package clienthttp carries a client's messages to a server over Streamable
// HTTP (basic/transports/streamable-http).
package clienthttp
