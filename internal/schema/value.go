package schema

import (
	"encoding/json"
	"errors"
	"fmt"
)

var errTooDeep = errors.New("the document is nested too deep")

// checkValue makes sure that v is made of what a JSON decoder makes, is not too deep, and has no number that takes long to
// compute with.
func checkValue(v any, depth int) error {
	switch v := v.(type) {
	case nil, bool, string:
		return nil
	case json.Number:
		return CheckNumber(v)
	case []any:
		if depth == maxDepth {
			return errTooDeep
		}
		for _, item := range v {
			if err := checkValue(item, depth+1); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		if depth == maxDepth {
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
