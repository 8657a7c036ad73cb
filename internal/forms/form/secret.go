package form

import (
	"github.com/rondo-mcp/rondo/internal/redact"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// A Secret is a field of a form that looks like a request for a credential. The zero Secret is
// none.
type Secret struct {
	Field string // its name
	Word  string // in its name or title
}

// FindSecret returns the first field of the form that looks like a request for a credential. Where
// a peer's schema uses keywords outside the grammar, those are searched, too.
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

// FindPeerSecret is [Form.FindSecret] for a schema that [ParsePeer] refuses: the properties of all
// schemas in it count, at any depth. raw is JSON that has been checked.
func FindPeerSecret(raw []byte) (found Secret) {
	walkMembers(raw, func(key string, value []byte) {
		if key == "properties" && found == (Secret{}) {
			found = secretOfProperties(value)
		}
	})
	descend := func(value []byte) {
		if found == (Secret{}) {
			found = FindPeerSecret(value)
		}
	}
	walkMembers(raw, func(_ string, value []byte) { descend(value) })
	walkElements(raw, descend)
	return found
}

// secretOfProperties searches the names and titles of the properties of one schema.
func secretOfProperties(properties []byte) (found Secret) {
	walkMembers(properties, func(name string, property []byte) {
		if found != (Secret{}) || isChoice(property) {
			return
		}
		word := redact.FindSecretName(name)
		if word == "" {
			word = secretOfTitles(property)
		}
		if word != "" {
			found = Secret{name, word}
		}
	})
	return found
}

// secretOfTitles searches the titles of a property, and of what it consists of.
func secretOfTitles(raw []byte) (word string) {
	descend := func(value []byte) {
		if word == "" {
			word = secretOfTitles(value)
		}
	}
	walkMembers(raw, func(key string, value []byte) {
		if title, err := jsonx.Text(value); key == "title" && word == "" && err == nil {
			word = redact.FindSecretName(title)
		}
		if key != "properties" { // which have a turn of their own
			descend(value)
		}
	})
	walkElements(raw, descend)
	return word
}

// isChoice reports whether the schema of a property cannot take a text of the person's: that of a
// boolean, or a list of values. An empty list is none: clients may show a field for text.
func isChoice(property []byte) (choice bool) {
	array := false
	walkMembers(property, func(key string, value []byte) {
		array = array || key == "type" && string(value) == `"array"`
	})
	walkMembers(property, func(key string, value []byte) {
		values, constants := 0, 0
		walkElements(value, func(option []byte) {
			values++
			if jsonx.HasMember(option, "const") {
				constants++
			}
		})
		switch key {
		case "type":
			choice = choice || string(value) == `"boolean"`
		case "enum":
			choice = choice || values > 0
		case "oneOf", "anyOf":
			choice = choice || values > 0 && values == constants
		case "items":
			choice = choice || array && isChoice(value)
		}
	})
	return choice
}

// walkMembers calls f with the members of an object, and not at all for other JSON.
func walkMembers(raw []byte, f func(key string, value []byte)) {
	if jsonx.KindOf(raw) != jsonx.Object {
		return
	}
	_ = jsonx.Members(raw, func(key, value []byte) error {
		f(string(key), value)
		return nil
	})
}

// walkElements calls f with the elements of an array, and not at all for other JSON.
func walkElements(raw []byte, f func(value []byte)) {
	if jsonx.KindOf(raw) != jsonx.Array {
		return
	}
	_ = jsonx.Elements(raw, func(_ int, value []byte) error {
		f(value)
		return nil
	})
}
