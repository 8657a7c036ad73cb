// Package clip cuts texts of peers and authors that errors and declarations repeat.
package clip

import (
	"strconv"
	"unicode/utf8"
)

// Text cuts s to at most n bytes, at the boundary of a character.
func Text(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Mark is [Text] with an ellipsis behind what was cut.
func Mark(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Text(s, n) + "…"
}

// Quote returns at most n bytes of s in double quotes, with an ellipsis behind what was cut. What
// does not print is escaped, and so are the bytes of a character that was cut in two.
func Quote(s string, n int) string {
	if len(s) > n {
		s = s[:n] + "…"
	}
	return strconv.Quote(s)
}
