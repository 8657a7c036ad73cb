package attack

import "encoding/json"

// FillForm and SameButFresh are tested directly, because elsewhere their bugs would be misread.
func FillForm(schema json.RawMessage) (json.RawMessage, error) { return fillForm(schema) }

func SameButFresh(text, first, second string) bool { return sameButFresh(text, first, second) }
