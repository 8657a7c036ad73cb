package rpc

// This file keeps a value of package roundtrip in a [protocol.InputRequiredResult]: what
// the author of a handler said beyond the wire. The result is a public type and the value is not
// part of the protocol, so the field is unexported and this package is the only way to it.
//
// [protocol.InputRequiredResult]:
// https://pkg.go.dev/github.com/rondo-mcp/rondo/protocol#InputRequiredResult

// field is how the attachment of a result is read and written. Package protocol, which imports this
// package and cannot be imported by it, provides both functions.
var field struct {
	get func(result any) any
	set func(result, value any)
}

// RegisterAttachments provides the access to the field. Package protocol calls it once, while its
// variables are initialized, before any other function of this package can run. The returned value
// is of no use; it allows the call in a declaration.
func RegisterAttachments(get func(result any) any, set func(result, value any)) struct{} {
	field.get, field.set = get, set
	return struct{}{}
}

// Attach attaches value to result, a *protocol.InputRequiredResult.
func Attach(result, value any) { field.set(result, value) }

// Attached returns what is attached to result, a *protocol.InputRequiredResult, nil when nothing
// is.
func Attached(result any) any { return field.get(result) }
