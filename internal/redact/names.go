package redact

import (
	"slices"
	"strings"
	"unicode"
)

// isSecret reports whether a word or pair names a credential, for forms and masking.
func isSecret(words string) bool {
	switch words {
	// Logins. "tokens" nearly always counts something.
	case "password", "passwords", "passwd", "passphrase", "passcode", "pwd",
		"secret", "secrets", "token", "bearer", "credential", "credentials", "pin", "otp",
		"api key", "access key", "private key", "secret key", "api keys", "access keys",
		"private keys", "secret keys",
		// Payment.
		"cvv", "cvc", "iban", "card number", "credit card", "security code", "bank account",
		// Identity.
		"ssn", "passport number",
		// Pairs written as one word.
		"apikey", "accesskey", "privatekey", "secretkey", "cardnumber", "creditcard",
		"passportnumber", "bankaccount",
		"clientsecret", "apitoken", "accesstoken", "authtoken", "bearertoken", "refreshtoken":
		return true
	}
	return false
}

// isDescribing reports whether a word after a credential makes it a property that a form may ask
// for, such as length or name; not "id", because AppRole logs in with a secret_id.
func isDescribing(word string) bool {
	switch word {
	case "age", "budget", "count", "expiry", "kind", "length", "lifetime", "limit", "name",
		"policy", "rotation", "size", "ttl", "type", "usage",
		"color", "colour", "label", "location", "position", // of a pin on a map
		"address", "amount", "symbol", // of a traded token
		"manager", "santa": // a program, a game
		return true
	}
	return false
}

// isHarmless reports whether a pair such as "map pin" is no credential, though its second word is.
func isHarmless(pair string) bool {
	return slices.Contains([]string{"map pin", "page token", "continuation token",
		"progress token", "stop token"}, pair)
}

// FindSecretName returns the word or pair in a name or title that names a credential, or "".
func FindSecretName(text string) string {
	words, pair := splitWords(text), ""
	for i, word := range words {
		if isSecret(word) && !isHarmless(pair) && !describedAt(words, i+1) {
			return word
		}
		if i+1 == len(words) {
			break
		}
		if pair = word + " " + words[i+1]; isSecret(pair) && !describedAt(words, i+2) {
			return pair
		}
	}
	return ""
}

func describedAt(words []string, i int) bool { return i < len(words) && isDescribing(words[i]) }

// splitWords splits a name or title into lower case words: at non-letters, before a capital after a
// small letter ("apiKey"), and before a run's last capital if a small letter follows ("APIKey").
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
