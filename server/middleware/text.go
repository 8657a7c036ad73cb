package middleware

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rondo-mcp/rondo/protocol"
)

const (
	// maxText is how much of a text that a peer may have chosen is logged, in
	// bytes: enough to recognise it.
	maxText = 256
	// maxError is the same for the text of a handler's error, in which each layer
	// of the program puts words of its own before the cause.
	maxError = 512
	// maxKey is the same for each of a list of keys.
	maxKey = 64
)

// escapeText makes a text that a peer may have chosen safe to log: unprintable
// characters are escaped, so that the text can neither forge nor hide lines, and
// at most limit bytes are kept.
func escapeText(s string, limit int) string {
	if len(s) <= limit && isPrintable(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		mark := b.Len()
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(s[0])|0x100, 16)[1:])
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		if b.Len() > limit {
			return b.String()[:mark] + "…"
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
	for _, r := range s[ascii:] {
		if r == utf8.RuneError || !strconv.IsPrint(r) {
			return false
		}
	}
	return true
}

// cutQuery cuts a text where the query or the fragment of a URI in it
// begins, and hides the user name and password of one: these are where secrets
// are put. What follows a query is not kept either, since where it ends cannot
// be told. A number sign after a space or a quote begins no fragment; it is how
// issues and parts of schemas are named.
func cutQuery(s string) string {
	for i := 0; i < len(s)-1; i++ {
		if s[i] == '?' || s[i] == '#' && i > 0 && s[i-1] != ' ' && s[i-1] != '"' {
			s = s[:i+1] + "…"
			break
		}
	}
	// No URI has more than one user part, but a text may have several URIs.
	for start := 0; ; {
		i := strings.Index(s[start:], "://")
		if i < 0 {
			return s
		}
		start += i + len("://")
		authority := s[start:]
		if end := strings.IndexAny(authority, "/ \"'"); end >= 0 {
			authority = authority[:end]
		}
		if at := strings.LastIndexByte(authority, '@'); at >= 0 {
			s = s[:start] + "…" + s[start+at:]
		}
	}
}

// errorMessage makes the message of the error that answers a request fit for a
// log. Those about resources are likely to quote the URI.
func errorMessage(method, s string) string {
	if method == protocol.MethodReadResource {
		return escapeTarget(s)
	}
	return escapeText(cutQuery(s), maxText)
}

// escapeTarget makes the name of a tool or prompt, or a URI, fit for a log.
func escapeTarget(s string) string {
	if len(s) <= maxText && isName(s) {
		return s
	}
	if i := strings.IndexAny(s, "?#"); i >= 0 && i < len(s)-1 {
		s = s[:i+1] + "…"
	}
	return escapeText(cutQuery(s), maxText)
}

// isName reports whether s is spelled as the names of nearly all tools are, in
// which there is nothing to escape or to leave out.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c|0x20)-'a' >= 26 && c-'0' >= 10 && c != '_' && c != '-' && c != '.' {
			return false
		}
	}
	return true
}
