// Package redact masks secrets in texts before they are logged. It finds them in two ways:
//
//   - [Secrets] masks what a request has brought, in all spellings and encodings, and what looks
//     like a credential. It is for errors of handlers and hooks, which know nothing of our secrets
//     but may quote the request.
//   - [MaskParts] masks credentials that are known, whole and in parts of eight bytes and more. It
//     is for errors of authentication, which quote parts of tokens.
//
// One cannot stand for the other. Secrets would leave the part of a token that an error quotes.
// MaskParts would take words out of an error only because an argument of the call has them too.
//
// Two functions are for texts of peers, whose secrets nobody knows: [HideURLSecrets] leaves out the
// parts of URLs in which secrets are put, and [EscapeText] keeps a text on its line and short.
package redact

import (
	"slices"
	"strings"
)

const (
	// Mask stands where a secret was.
	Mask = "[redacted]"
	// minWhole is the length of the shortest secret that is masked. A shorter string is not a
	// secret and occurs in every text.
	minWhole = 4
	// minPart is the length of the shortest part of a secret that is masked. Programs shorten what
	// they quote, quote tokens in parts, and put names in front, such as token=eyJhbGci.
	minPart = 8
	// MaxSecrets is how many bytes of secrets are searched for, plus one for each secret. It bounds
	// the work, and is several times what headers usually hold.
	MaxSecrets = 16 << 10
	// tooMany is the text where there is more than that.
	tooMany = "[redacted: the request is too large to be searched for secrets]"
)

// MaskParts returns text with each secret masked, and each long enough part of one that has no
// spaces. If the secrets are longer than MaxSecrets it returns no part of text.
func MaskParts(text string, secrets []string) string {
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
	hideParts(hidden, text, secrets)
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

// hideParts hides what text has in common with a secret. It looks each minPart
// bytes of a secret up in the pieces of text that may be part of one.
func hideParts(hidden []bool, text string, secrets []string) {
	var starts []int // of the pieces
	word := 0        // bytes before i, and i, that tokens contain
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
	done := make([]bool, len(starts)) // once is enough: a secret may be one piece over and over
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
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		strings.IndexByte("-._~+/=", c) >= 0
}
