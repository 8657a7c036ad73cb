package form

import (
	"strings"
	"unicode"

	"github.com/rondo-mcp/rondo/internal/jsonx"
)

// isSecret reports whether a word, or a pair of words, names a credential. Plurals are listed if
// they name one too; "tokens" is not listed, since it nearly always counts something.
func isSecret(words string) bool {
	switch words {
	case "password", "passwords", "passwd", "passphrase", "passcode", "pwd",
		"secret", "secrets", "token", "credential", "credentials",
		"cvv", "cvc", "ssn", "pin", "otp", "iban":
		return true
	case "api key", "access key", "private key", "secret key", "api keys", "access keys",
		"private keys", "secret keys", "card number", "credit card", "security code",
		"passport number", "bank account":
		return true
	// Two words that people run together.
	case "apikey", "accesskey", "privatekey", "secretkey", "cardnumber", "creditcard",
		"passportnumber", "bankaccount",
		"clientsecret", "apitoken", "accesstoken", "authtoken", "bearertoken", "refreshtoken":
		return true
	}
	return false
}

// isDescribing reports whether a word after a credential makes it a property that a form may ask
// for, such as its length or name.
func isDescribing(word string) bool {
	switch word {
	case "age", "budget", "count", "expiry", "kind", "length", "lifetime", "limit", "name",
		"policy", "rotation", "size", "ttl", "type", "usage":
		return true
	}
	return false
}

// secretIn returns the word or pair in text that names a credential, or "".
func secretIn(text string) string {
	words := splitWords(text)
	for i, word := range words {
		if isSecret(word) && !describedAt(words, i+1) {
			return word
		}
		if i+1 == len(words) {
			break
		}
		if pair := word + " " + words[i+1]; isSecret(pair) && !describedAt(words, i+2) {
			return pair
		}
	}
	return ""
}

func describedAt(words []string, i int) bool { return i < len(words) && isDescribing(words[i]) }

// splitWords splits a name or title into lower-case words: at everything that is not a letter,
// before a capital that follows a small letter ("apiKey"), and before the last capital of a run
// that a small letter follows ("APIKey").
func splitWords(text string) []string {
	var words []string
	var word []rune
	flush := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
			word = word[:0]
		}
	}
	runes := []rune(text)
	for i, r := range runes {
		if !unicode.IsLetter(r) {
			flush()
			continue
		}
		if unicode.IsUpper(r) && i > 0 {
			afterSmall := unicode.IsLower(runes[i-1])
			beforeSmall := i+1 < len(runes) && unicode.IsLower(runes[i+1])
			if afterSmall || beforeSmall && unicode.IsUpper(runes[i-1]) {
				flush()
			}
		}
		word = append(word, r)
	}
	flush()
	return words
}

// A Secret is a field of a form that looks like a request for a credential. The zero Secret is
// none.
type Secret struct {
	Field string // its name
	Word  string // in its name or title
}

// FindSecret returns the first field of the form that looks like a request for a credential.
// Where a peer's schema uses keywords outside the grammar, those are searched, too.
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
		word := secretIn(name)
		walkMembers(property, func(key string, value []byte) {
			if title, err := jsonx.Text(value); key == "title" && word == "" && err == nil {
				word = secretIn(title)
			}
		})
		if word != "" {
			found = Secret{name, word}
		}
	})
	return found
}

// isChoice reports whether the schema of a property cannot take a text of the person's: that of a
// boolean, or a list of values.
func isChoice(property []byte) (choice bool) {
	walkMembers(property, func(key string, value []byte) {
		switch key {
		case "type":
			choice = choice || string(value) == `"boolean"`
		case "enum":
			choice = choice || jsonx.KindOf(value) == jsonx.Array
		case "oneOf", "anyOf":
			all := jsonx.KindOf(value) == jsonx.Array
			walkElements(value, func(option []byte) {
				all = all && jsonx.HasMember(option, "const")
			})
			choice = choice || all
		case "items":
			choice = choice || isChoice(value)
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
