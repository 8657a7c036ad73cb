package redact

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"
)

// minBeginning is the shortest cut-off secret that is masked. Shorter texts may be ordinary words.
const minBeginning = 12

// The type beginnings maps the first minPart bytes of secrets to the sorted secrets.
type beginnings map[string][]string

func newBeginnings(secrets []string) beginnings {
	slices.Sort(secrets)
	b := beginnings{}
	for _, secret := range secrets {
		if len(secret) >= minPart {
			b[secret[:minPart]] = append(b[secret[:minPart]], secret)
		}
	}
	return b
}

// maskCut masks truncated secrets: beginnings that end with a word.
func (b beginnings) maskCut(text string) string {
	hidden := make([]bool, len(text))
	for i, n := 0, 0; i+minBeginning <= len(text); i += 1 + n/64 { // n/64 keeps it linear
		n = b.commonLength(text[i:])
		if next, _ := utf8.DecodeRuneInString(text[i+n:]); n >= minBeginning && !wordRune(next) {
			hide(hidden[i : i+n])
		}
	}
	return mask(text, hidden)
}

// commonLength returns the longest common prefix of text and a secret.
func (b beginnings) commonLength(text string) (most int) {
	secrets := b[text[:minPart]]
	i, _ := slices.BinarySearch(secrets, text)
	for _, secret := range secrets[max(i-1, 0):min(i+1, len(secrets))] {
		n := 0
		for n < len(secret) && n < len(text) && secret[n] == text[n] {
			n++
		}
		most = max(most, n)
	}
	return most
}

// maskEncoded masks base64 and hexadecimal words whose bytes contain a secret's beginning.
func (b beginnings) maskEncoded(text string) string {
	const digits = "0123456789abcdefABCDEF"
	const base64Digits = digits + "ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ+/"
	hidden := make([]bool, len(text))
	b.hideWords(hidden, text, digits, 2, hex.DecodeString)
	standard := strings.NewReplacer("-", "+", "_", "/").Replace(text)
	b.hideWords(hidden, standard, base64Digits, 4, base64.RawStdEncoding.DecodeString)
	return mask(text, hidden)
}

// hideWords hides words of digits that encode a secret's start; group digits encode whole bytes.
func (b beginnings) hideWords(hidden []bool, text, digits string, group int,
	decode func(string) ([]byte, error)) {
	for start, end := 0, 0; end < len(text); start = end + 1 {
		end = len(text) - len(strings.TrimLeft(text[start:], digits))
		for skip := range min(group, end-start) {
			decoded, _ := decode(text[start+skip : end]) // bytes before an error count
			for i := range len(decoded) - minPart + 1 {
				if b[string(decoded[i:i+minPart])] != nil {
					hide(hidden[start:end])
					break
				}
			}
		}
	}
}
