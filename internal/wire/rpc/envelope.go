// Package rpc has parts of a call that packages share beside the exported API: the JSON-RPC
// envelope, context values, attachments of results, and optional interfaces of the way back.
package rpc

// This file writes the envelope around params and results, which are then appended in place,
// without the copy of protocol.AppendMessage.

import "github.com/rondo-mcp/rondo/internal/wire/jsonx"

// BeginRequest appends a request, whose id is JSON text, up to its params; the caller closes it.
func BeginRequest(dst []byte, id, method string) []byte {
	return append(AppendRequest(dst, id, method), `,"params":`...)
}

// AppendRequest appends a request to dst, without the closing brace.
func AppendRequest(dst []byte, id, method string) []byte {
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), id...)
	return jsonx.AppendText(append(dst, `,"method":`...), method)
}

// AppendNotification appends a notification to dst, without the closing brace.
func AppendNotification(dst []byte, method string) []byte {
	return jsonx.AppendText(append(dst, `{"jsonrpc":"2.0","method":`...), method)
}

// BeginResult appends a response up to its result. The id is JSON text, empty if the request's id
// was unreadable. The caller appends the result and a closing brace.
func BeginResult(dst []byte, id string) []byte {
	return append(appendResponse(dst, id), `,"result":`...)
}

// BeginError is BeginResult for an error.
func BeginError(dst []byte, id string) []byte {
	return append(appendResponse(dst, id), `,"error":`...)
}

func appendResponse(dst []byte, id string) []byte {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	if id != "" {
		dst = append(append(dst, `,"id":`...), id...)
	}
	return dst
}
