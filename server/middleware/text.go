package middleware

import (
	"strings"

	"github.com/rondo-mcp/rondo/internal/redact"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	// maxText is how much of a text that a peer may have chosen is logged, in
	// characters: enough to recognise it.
	maxText = 256
	// maxError is the same for the text of a handler's error, in which each layer
	// of the program puts words of its own before the cause.
	maxError = 512
	// maxKey is the same for each of a list of keys.
	maxKey = 64
)

// errorMessage makes the message of the error that answers a request fit for a
// log. Those about resources are likely to quote the URI.
func errorMessage(method, s string) string {
	if method == protocol.MethodReadResource {
		return escapeTarget(s)
	}
	return redact.EscapeText(redact.HideURLSecrets(s), maxText)
}

// escapeTarget makes the name of a tool or prompt, or a URI, fit for a log.
func escapeTarget(s string) string {
	if len(s) <= maxText && isName(s) {
		return s
	}
	if i := strings.IndexAny(s, "?#"); i >= 0 && i < len(s)-1 {
		s = s[:i+1] + "…"
	}
	return redact.EscapeText(redact.HideURLSecrets(s), maxText)
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
