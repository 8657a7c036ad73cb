package schema

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

var errTooDeep = errors.New("the document is nested too deep")

// checkValue refuses a value of a type that a JSON decoder does not return, one that is nested too
// deep, and one with a number that fails CheckNumber.
func checkValue(v any, depth int) error {
	switch v := v.(type) {
	case nil, bool, string:
		return nil
	case json.Number:
		return CheckNumber(v)
	case []any:
		if depth == jsonx.MaxDepth {
			return errTooDeep
		}
		for _, item := range v {
			if err := checkValue(item, depth+1); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		if depth == jsonx.MaxDepth {
			return errTooDeep
		}
		for _, value := range v {
			if err := checkValue(value, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("a Go value of type %T is not JSON", v)
}
