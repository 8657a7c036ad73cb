// Package sse reads and writes server-sent events, the stream format of
// Streamable HTTP (HTML standard, "Server-sent events").
//
// The reader takes what the standard takes (LF, CR and CRLF line ends, a byte
// order mark, comments, several data lines, unknown fields) and bounds what it
// keeps: an event larger than its limit is an error. Unlike a browser it
// reports a stream that ends inside an event. The writer produces one spelling.
package sse
