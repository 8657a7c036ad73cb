// Package redact masks secrets in texts before they are logged.
//
//   - [Secrets] masks the strings of a request, in all spellings and encodings, and whatever looks
//     like a credential. It is for errors of handlers and hooks, which may quote the request.
//   - [MaskParts] masks known credentials, whole and in parts of eight bytes and more. It is for
//     errors of authentication, which quote parts of tokens.
//
// Neither replaces the other: Secrets would leave parts of tokens, and MaskParts would mask words
// that an error merely shares with an argument.
//
// For peers' texts, whose secrets are unknown, [HideURLSecrets] removes the parts of URLs that hold
// secrets, and [EscapeText] keeps a text short and on its line.
package redact

import (
	"slices"
	"strings"
)

const (
	Mask = "[redacted]" // replaces a secret
	// minWhole is the shortest masked secret; shorter strings occur in every text.
	minWhole = 4
	// minPart is the shortest masked part of a secret: errors cut tokens and quote their parts.
	minPart = 8
	// MaxSecrets bounds the searched secrets, in bytes plus one for each secret.
	MaxSecrets = 16 << 10
	// tooMany replaces the text if the secrets exceed MaxSecrets.
	tooMany = "[redacted: the request is too large to be searched for secrets]"
)

// MaskParts returns text with each secret masked, and each part of at least minPart bytes of a
// secret without spaces. If the secrets exceed MaxSecrets, it returns no part of text.
func MaskParts(text string, secrets []string) string {
	total := 0
	for _, secret := range secrets {
		if total += len(secret) + 1; total > MaxSecrets {
			return tooMany
		}
	}
	hidden := make([]bool, len(text)) // bytes of secrets
	for _, secret := range secrets {
		for end := 0; len(secret) >= minWhole; {
			i := strings.Index(text[end:], secret)
			if i < 0 {
				break
			}
			end += i + len(secret)
			hide(hidden[end-len(secret) : end])
		}
	}
	hideParts(hidden, text, secrets)
	return mask(text, hidden)
}

// hideParts hides the parts that text shares with a secret, by each minPart bytes of secrets.
func hideParts(hidden []bool, text string, secrets []string) {
	var starts []int // of the pieces
	word := 0        // token bytes up to i
	for i := range len(text) {
		if word++; !isWordByte(text[i]) {
			word = 0
		}
		if word >= minPart {
			starts = append(starts, i+1-minPart)
		}
	}
	if len(starts) == 0 {
		return
	}
	slices.SortFunc(starts,
		func(i, j int) int { return strings.Compare(text[i:i+minPart], text[j:j+minPart]) })
	done := make([]bool, len(starts)) // once is enough: a secret may repeat one piece
	for _, secret := range secrets {
		for i := minPart; i <= len(secret); i++ {
			piece := secret[i-minPart : i]
			at, found := slices.BinarySearchFunc(starts, piece, func(start int, piece string) int {
				return strings.Compare(text[start:start+minPart], piece)
			})
			if !found || done[at] {
				continue
			}
			done[at] = true
			for _, start := range starts[at:] {
				if text[start:start+minPart] != piece {
					break
				}
				hide(hidden[start : start+minPart])
			}
		}
	}
}

func hide(part []bool) {
	for i := range part {
		part[i] = true
	}
}

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

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		strings.IndexByte("-._~+/=", c) >= 0
}
