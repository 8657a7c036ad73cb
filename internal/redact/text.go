package redact

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// EscapeText makes a text that a peer may have chosen safe to log: characters that do not print are
// escaped, so that the text can neither forge nor hide lines. The result has at most limit
// characters; where it is cut, the last of them is an ellipsis.
//
// The limit counts characters and not bytes, so that a text of any script keeps as many.
func EscapeText(s string, limit int) string {
	if len(s) <= limit && isPrintable(s) {
		return s
	}
	var b strings.Builder
	cut, length := 0, 0 // where the result can be cut for an ellipsis, and its characters so far
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

// isPrintable reports whether EscapeText leaves the characters of s as they are.
func isPrintable(s string) bool {
	ascii := 0
	for ascii < len(s) && s[ascii]-' ' < 0x7f-' ' {
		ascii++
	}
	for _, r := range s[ascii:] {
		if r == utf8.RuneError || !strconv.IsPrint(r) {
			return false
		}
	}
	return true
}

// HideURLSecrets hides the parts of URLs in a text in which secrets are put: the text is cut where
// a query or a fragment begins, since nobody can tell where one ends in a text, and user names and
// passwords are left out. A number sign at the start, after a space or after a quote begins no
// fragment: issues and parts of schemas are named so.
func HideURLSecrets(s string) string {
	for i := 0; i < len(s)-1; i++ {
		if s[i] == '?' || s[i] == '#' && i > 0 && s[i-1] != ' ' && s[i-1] != '"' {
			s = s[:i+1] + "…"
			break
		}
	}
	var b strings.Builder
	done := 0           // what comes before is in b
	end, at := 0, 0     // of the word that is searched, and of the last at sign in it
	for start := 0; ; { // where what follows a scheme starts
		i := strings.Index(s[start:], "://")
		if i < 0 {
			break
		}
		if start += i + len("://"); start >= end { // in a new word: each is searched once
			end = start + wordLength(s[start:])
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

func wordLength(s string) int {
	if end := strings.IndexAny(s, " \t\r\n\"'"); end >= 0 {
		return end
	}
	return len(s)
}

// mayHoldUser reports whether what follows the scheme of a URL may begin with a user name and
// password, which an at sign ends. An at sign in the path is one of the path, unless there is
// another one or a colon before the path: then it may be that of a password with a slash.
func mayHoldUser(s string) bool {
	authority, _, _ := strings.Cut(s, "/")
	return strings.ContainsAny(authority, ":@")
}
