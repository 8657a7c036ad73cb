package jsonx

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
)

// Plain returns an error of [Decode] in words that may go to a peer: which member has a value of
// the wrong type, and nothing of the Go type that it was meant for. Other errors are returned as
// they are.
func Plain(err error) error {
	e, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return err
	}
	cause := e.Err
	switch {
	case cause != nil:
		cause = Plain(cause)
	case e.JSONKind != 0:
		cause = fmt.Errorf("must not be %s", KindOf([]byte{byte(e.JSONKind)}))
	default:
		cause = errors.New("has the wrong type")
	}
	if at := strings.TrimPrefix(string(e.JSONPointer), "/"); at != "" {
		return fmt.Errorf("%s: %w", clip([]byte(at)), cause)
	}
	return cause
}
