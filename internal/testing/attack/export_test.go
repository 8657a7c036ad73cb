package attack

import "encoding/json"

// FillForm and SameButFresh are tested directly, because their bugs would show elsewhere.
func FillForm(schema json.RawMessage) (json.RawMessage, error) { return fillForm(schema) }

func SameButFresh(text, first, second string) bool { return sameButFresh(text, first, second) }
