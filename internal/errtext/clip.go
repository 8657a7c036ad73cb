// Package errtext writes the texts of errors: it clips what they repeat of peers and authors, and
// puts the name of a package in front of them once.
package errtext

// This file cuts texts of peers and authors that errors and declarations repeat.

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Clip cuts s to at most n bytes, at the boundary of a character.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Mark is [Clip] with an ellipsis behind what was cut.
func Mark(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Clip(s, n) + "…"
}

// Quote returns at most n bytes of s in double quotes, with an ellipsis behind what was cut. What
// does not print is escaped, and so are the bytes of a character that was cut in two.
func Quote(s string, n int) string {
	if len(s) > n {
		s = s[:n] + "…"
	}
	return strconv.Quote(s)
}

// The sizes of what [Values] returns.
const (
	// MaxValues is how many values of a list are named.
	MaxValues = 10
	// maxValue is how much of a text is repeated, in bytes.
	maxValue = 80
)

// Values lists the first [MaxValues] of n values, of which text returns one by its index, and says
// how many more there are: `"a", "b" and 3 more`.
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

// Value quotes a text for [Values], cut at a character. What does not print is escaped.
func Value(s string) string { return strconv.Quote(Mark(s, maxValue)) }
