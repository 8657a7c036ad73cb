package rpc

// This file attaches a value of package roundtrip to a [protocol.InputRequiredResult]: options of
// the handler that are not on the wire. The result is a public type, so its field is unexported and
// only this package gives access.
//
// [protocol.InputRequiredResult]:
// https://pkg.go.dev/github.com/rondo-mcp/rondo/protocol#InputRequiredResult

// field accesses the attachment of a result, as registered by package protocol.
var field struct {
	get func(result any) any
	set func(result, value any)
}

// RegisterAttachments sets the access functions. Package protocol calls it once, while its
// variables are initialized; the useless result allows the call in a declaration.
func RegisterAttachments(get func(result any) any, set func(result, value any)) struct{} {
	field.get, field.set = get, set
	return struct{}{}
}

// Attach attaches value to result, a *protocol.InputRequiredResult.
func Attach(result, value any) { field.set(result, value) }

// Attached returns the attachment of result, a *protocol.InputRequiredResult; may be nil.
func Attached(result any) any { return field.get(result) }
