package jsonx

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
)

// Plain rewrites an error of [Decode] for peers: it names the member of the wrong type, but not the
// Go type. Other errors are returned unchanged.
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
