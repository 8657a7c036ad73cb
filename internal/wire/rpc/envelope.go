// Package rpc has what packages of the module share of a call beside the exported API: the text
// around the parts of a JSON-RPC message, values of its context, attachments of its result, and
// optional interfaces of its way back.
package rpc

// This file writes the text around params and results. Who encodes these appends them in place,
// which saves the copy that protocol.AppendMessage makes.

import "github.com/rondo-mcp/rondo/internal/wire/jsonx"

// BeginRequest appends to dst what precedes the params of a request. The id is its JSON text. The
// params and a closing brace complete the message.
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

// BeginResult appends to dst what precedes the result of a response. The id is its JSON text, empty
// when the id of the request could not be read. The result and a closing brace complete the
// message.
func BeginResult(dst []byte, id string) []byte {
	return append(appendResponse(dst, id), `,"result":`...)
}

// BeginError appends to dst what precedes the error of a response, as BeginResult does.
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
