// Package redact masks secrets in texts that are about to be logged.
package redact

import "strings"

const (
	// Mask stands where a secret was.
	Mask = "[redacted]"
	// minWhole is the shortest secret that is masked wherever it occurs. A
	// shorter one is no secret, and occurs in every text.
	minWhole = 4
	// minPart is from which length on a word that is part of a secret is masked:
	// programs shorten what they quote, and quote tokens in parts.
	minPart = 8
	// MaxSecrets is how many bytes of secrets are looked for, one more counted for
	// each. It bounds the work, for each word is looked for in all secrets, and is
	// several times what headers hold as a rule.
	MaxSecrets = 16 << 10
	// tooMany is the text where there is more than that.
	tooMany = "[redacted: the request is too large to be searched for secrets]"
)

// Text returns text with each secret masked, and each word that is part of one.
// Where the secrets are too long to be looked for it returns no part of text.
func Text(text string, secrets []string) string {
	total := 0
	for _, secret := range secrets {
		if total += len(secret) + 1; total > MaxSecrets {
			return tooMany
		}
	}
	hidden := make([]bool, len(text)) // bytes of secrets, found in what text was
	for _, secret := range secrets {
		if len(secret) >= minWhole {
			hideAll(hidden, text, secret)
		}
	}
	for i := 0; i < len(text); {
		if !isWordByte(text[i]) {
			i++
			continue
		}
		start := i
		for i < len(text) && isWordByte(text[i]) {
			i++
		}
		word := strings.TrimRight(text[start:i], ".-_") // of the sentence, not of the word
		if isPart(word, secrets) {
			hide(hidden[start : start+len(word)])
		}
	}
	return mask(text, hidden)
}

func hideAll(hidden []bool, text, secret string) {
	for from := 0; ; {
		i := strings.Index(text[from:], secret)
		if i < 0 {
			return
		}
		from += i + len(secret)
		hide(hidden[from-len(secret) : from])
	}
}

func hide(part []bool) {
	for i := range part {
		part[i] = true
	}
}

// mask writes one Mask for each run of hidden bytes.
func mask(text string, hidden []bool) string {
	var b strings.Builder
	for i := range len(text) {
		switch {
		case !hidden[i]:
			b.WriteByte(text[i])
		case i == 0 || !hidden[i-1]:
			b.WriteString(Mask)
		}
	}
	return b.String()
}

// isWordByte reports whether tokens contain c.
func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~+/=", c) >= 0
}

func isPart(word string, secrets []string) bool {
	if len(word) < minPart {
		return false
	}
	for _, secret := range secrets {
		if strings.Contains(secret, word) {
			return true
		}
	}
	return false
}
