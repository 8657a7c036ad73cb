package redact

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// EscapeText makes a peer's text safe to log: unprintable characters are escaped, so that it can
// neither forge nor hide lines. The result has at most limit characters, in any script; if cut, it
// ends with an ellipsis.
func EscapeText(s string, limit int) string {
	if len(s) <= limit && isPrintable(s) {
		return s
	}
	var b strings.Builder
	cut, length := 0, 0 // where to cut for an ellipsis, and the characters so far
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		piece := s[:size]
		switch {
		case r == utf8.RuneError && size == 1:
			piece = `\x` + strconv.FormatUint(uint64(s[0])|0x100, 16)[1:]
		case !strconv.IsPrint(r):
			piece = strconv.QuoteRune(r)
			piece = piece[1 : len(piece)-1]
		}
		if length += utf8.RuneCountInString(piece); length > limit {
			return b.String()[:cut] + "…"
		}
		b.WriteString(piece)
		if length < limit {
			cut = b.Len()
		}
		s = s[size:]
	}
	return b.String()
}

func isPrintable(s string) bool {
	ascii := 0
	for ascii < len(s) && s[ascii]-' ' < 0x7f-' ' {
		ascii++
	}
	return !strings.ContainsFunc(s[ascii:], func(r rune) bool {
		return r == utf8.RuneError || !strconv.IsPrint(r)
	})
}

// HideURLSecrets hides secrets in URLs in a text: the text is cut where a query or fragment begins,
// because its end cannot be determined, and user names and passwords are removed. A number sign at
// the start, after a space or after a quote begins no fragment, as in issue numbers and schemas.
func HideURLSecrets(s string) string {
	for i := 0; i < len(s)-1; i++ {
		if s[i] == '?' || s[i] == '#' && i > 0 && s[i-1] != ' ' && s[i-1] != '"' {
			s = s[:i+1] + "…"
			break
		}
	}
	var b strings.Builder
	done := 0           // text before it is in b
	end, at := 0, 0     // of the current word, and its last at sign
	for start := 0; ; { // after a scheme
		i := strings.Index(s[start:], "://")
		if i < 0 {
			break
		}
		if start += i + len("://"); start >= end { // a new word: each is searched once
			end = len(s)
			if n := strings.IndexAny(s[start:], " \t\r\n\"'"); n >= 0 {
				end = start + n
			}
			at = start + strings.LastIndexByte(s[start:end], '@')
		}
		if at > start && mayHoldUser(s[start:end]) {
			b.WriteString(s[done:start])
			b.WriteString("…")
			start, done = at, at
		}
	}
	b.WriteString(s[done:])
	return b.String()
}

// mayHoldUser reports whether the text after a URL's scheme may begin with user name and password,
// ended by an at sign. An at sign in the path belongs to the path, unless another at sign or a
// colon precedes the path: then the later one may end a password with a slash.
func mayHoldUser(s string) bool {
	authority, _, _ := strings.Cut(s, "/")
	return strings.ContainsAny(authority, ":@")
}
