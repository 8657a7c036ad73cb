package redact

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"
)

// minBeginning is the length of the shortest beginning of a secret that is masked where a text has
// no more of it. Shorter ones are words that an error and an argument have in common.
const minBeginning = 12

// beginnings are secrets of minPart bytes and more, by their first minPart bytes. Those that share
// them are sorted.
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

// maskCut masks where text has a secret that was cut off: a beginning of it that ends with a word.
func (b beginnings) maskCut(text string) string {
	hidden := make([]bool, len(text))
	for i := 0; i+minBeginning <= len(text); {
		n := b.commonLength(text[i:])
		next, _ := utf8.DecodeRuneInString(text[i+n:])
		if n < minBeginning || wordRune(next) {
			i += max(1, n/64) // else a letter over and over costs the square of its number
			continue
		}
		hide(hidden[i : i+n])
		i += n
	}
	return mask(text, hidden)
}

// commonLength returns how many bytes text has in common with the start of the secret that has
// most, 0 where these are fewer than minPart.
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

// maskEncoded masks the words of text that are base64, in any alphabet, or hexadecimal and in which
// a secret begins. The secret may be part of what was encoded, so that words are decoded from each
// place at which a group of digits can start.
func (b beginnings) maskEncoded(text string) string {
	if len(b) == 0 {
		return text
	}
	const hexDigits = "0123456789abcdefABCDEF"
	const base64Digits = hexDigits + "ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ+/"
	hidden := make([]bool, len(text))
	standard := strings.NewReplacer("-", "+", "_", "/").Replace(text)
	for _, code := range [...]struct {
		digits string
		group  int
		decode func(string) ([]byte, error) // what precedes an error counts
	}{{hexDigits, 2, hex.DecodeString}, {base64Digits, 4, base64.RawStdEncoding.DecodeString}} {
		for start, end := 0, 0; end < len(text); start = end + 1 {
			for end = start; end < len(text) && strings.IndexByte(code.digits, standard[end]) >= 0; {
				end++
			}
			for skip := range min(code.group, end-start) {
				if decoded, _ := code.decode(standard[start+skip : end]); b.beginIn(decoded) {
					hide(hidden[start:end])
					break
				}
			}
		}
	}
	return mask(text, hidden)
}

// beginIn reports whether a secret begins in data.
func (b beginnings) beginIn(data []byte) bool {
	for i := minPart; i <= len(data); i++ {
		if b[string(data[i-minPart:i])] != nil {
			return true
		}
	}
	return false
}
