package form

import (
	"strings"
	"unicode"
)

// isSecret reports whether a word, or a pair of words, names a credential. Plurals are listed if
// they name one too; "tokens" is not listed, since it nearly always counts something.
func isSecret(words string) bool {
	switch words {
	case "password", "passwords", "passwd", "passphrase", "passcode", "pwd",
		"secret", "secrets", "token", "credential", "credentials",
		"cvv", "cvc", "ssn", "pin", "otp":
		return true
	case "api key", "access key", "private key", "secret key", "api keys", "access keys",
		"private keys", "secret keys", "card number", "credit card", "security code":
		return true
	// Two words that people run together.
	case "apikey", "accesskey", "privatekey", "secretkey", "cardnumber", "creditcard",
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
