package form

import (
	"cmp"
	"errors"
	"iter"
	"slices"

	"github.com/rondo-mcp/rondo/internal/redact"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// A Secret is a field that seems to ask for a credential. The zero Secret means none.
type Secret struct {
	Field string // its name
	Word  string // found in its name or title
}

// FindSecret returns the first field that seems to ask for a credential, also within keywords of a
// peer's schema that are outside the grammar.
func (f *Form) FindSecret() Secret {
	for i := range f.fields {
		if word := f.fields[i].secretWord(); word != "" {
			return Secret{f.fields[i].name, word}
		}
	}
	if f.extra != nil {
		return FindPeerSecret(f.schema)
	}
	return Secret{}
}

// FindPeerSecret is [Form.FindSecret] for checked JSON of a schema that [ParsePeer] refuses: it
// searches the properties of all schemas in it.
func FindPeerSecret(raw []byte) (found Secret) {
	for key, value := range membersOf(raw) {
		if key == "properties" {
			found = secretOfProperties(value)
		}
	}
	descend := func(value []byte) {
		if found == (Secret{}) {
			found = FindPeerSecret(value)
		}
	}
	for _, value := range membersOf(raw) {
		descend(value)
	}
	for _, value := range eachElement(raw) {
		descend(value)
	}
	return found
}

func secretOfProperties(properties []byte) Secret {
	for name, property := range membersOf(properties) {
		if isChoice(property) {
			continue
		}
		word := cmp.Or(redact.FindSecretName(name), secretOfTitles(property))
		if word != "" {
			return Secret{name, word}
		}
	}
	return Secret{}
}

// secretOfTitles searches the titles of a property and its parts, except its own properties.
func secretOfTitles(raw []byte) (word string) {
	for key, value := range membersOf(raw) {
		if title, err := jsonx.Text(value); key == "title" && err == nil {
			word = cmp.Or(word, redact.FindSecretName(title))
		}
		if key != "properties" {
			word = cmp.Or(word, secretOfTitles(value))
		}
	}
	for _, value := range eachElement(raw) {
		word = cmp.Or(word, secretOfTitles(value))
	}
	return word
}

// isChoice reports whether a property is a boolean or a non-empty list of values. Clients may show
// a text field for an empty list.
func isChoice(property []byte) bool {
	m := readMembers(property)
	free := func(option []byte) bool { return !jsonx.HasMember(option, "const") }
	for _, keyword := range []string{"oneOf", "anyOf"} {
		options := elementsOf(m[keyword])
		if len(options) > 0 && !slices.ContainsFunc(options, free) {
			return true
		}
	}
	typ := string(m["type"])
	return typ == `"boolean"` || len(elementsOf(m["enum"])) > 0 ||
		typ == `"array"` && isChoice(m["items"])
}

func membersOf(raw []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		if jsonx.KindOf(raw) != jsonx.Object {
			return
		}
		_ = jsonx.Members(raw, func(key, value []byte) error {
			if !yield(string(key), value) {
				return errStop
			}
			return nil
		})
	}
}

var errStop = errors.New("stop")

func eachElement(raw []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		if jsonx.KindOf(raw) != jsonx.Array {
			return
		}
		_ = jsonx.Elements(raw, func(i int, value []byte) error {
			if !yield(i, value) {
				return errStop
			}
			return nil
		})
	}
}

func elementsOf(raw []byte) (list [][]byte) {
	for _, value := range eachElement(raw) {
		list = append(list, value)
	}
	return list
}
