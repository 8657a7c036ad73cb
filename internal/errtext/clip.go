// Package errtext formats error texts: clips quotes of peers and authors, adds package names once.
package errtext

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Clip cuts s to at most n bytes, at a character boundary.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Mark is [Clip] with an ellipsis after a cut.
func Mark(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Clip(s, n) + "…"
}

// Quote returns at most n bytes of s in double quotes, with an ellipsis after a cut. Unprintable
// characters are escaped, and so are the bytes of a split character.
func Quote(s string, n int) string {
	if len(s) > n {
		s = s[:n] + "…"
	}
	return strconv.Quote(s)
}

// Bounds of [Values].
const (
	MaxValues = 10 // values listed
	maxValue  = 80 // bytes of each
)

// Values lists the first [MaxValues] of n values by index, and counts the rest: `"a" and 3 more`.
func Values(n int, text func(int) string) string {
	var b strings.Builder
	for i := range min(n, MaxValues) {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(text(i))
	}
	if n > MaxValues {
		b.WriteString(" and " + strconv.Itoa(n-MaxValues) + " more")
	}
	return b.String()
}

// Value quotes a text for [Values], cut at a character. Unprintable characters are escaped.
func Value(s string) string { return strconv.Quote(Mark(s, maxValue)) }
