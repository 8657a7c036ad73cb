package elicitation

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rondo-mcp/rondo/internal/jsonx"
)

// maxText is how much of a text that a peer has chosen is logged, in characters.
const maxText = 256

// escapeForLog makes a text fit for a log: what does not print is escaped, so that it
// forges no lines and hides no others, and at most maxText characters are kept.
func escapeForLog(s string) string {
	if len(s) <= maxText && isPrintable(s) {
		return s
	}
	var b strings.Builder
	last, length := 0, 0 // where the text can be cut for an ellipsis, and characters so far
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
		if length += utf8.RuneCountInString(piece); length > maxText {
			return b.String()[:last] + "…"
		}
		b.WriteString(piece)
		if length < maxText {
			last = b.Len()
		}
		s = s[size:]
	}
	return b.String()
}

func isPrintable(s string) bool {
	for _, r := range s {
		if r == utf8.RuneError || !strconv.IsPrint(r) {
			return false
		}
	}
	return true
}

// hideURLSecrets cuts a text where the query or fragment of a URI could begin, and
// hides what stands before an @: that is where secrets are put.
func hideURLSecrets(s string) string {
	if i := strings.IndexAny(s, "?#"); i >= 0 {
		s = s[:i+1] + "…"
	}
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		if j := strings.Index(s, "://"); j >= 0 && j < i {
			s = s[:j+3] + "…" + s[i:]
		}
	}
	return s
}

// peekMessage is the text of a question that was turned away, as far as it can
// be read.
func peekMessage(params json.RawMessage) string {
	if len(params) > DefaultMaxSchemaBytes+maxOutsideSchema || jsonx.Check(params) != nil {
		return ""
	}
	text := ""
	if jsonx.KindOf(params) == jsonx.Object {
		_ = jsonx.Members(params, func(key, value []byte) (err error) {
			if string(key) == "message" {
				text, err = jsonx.Text(value)
			}
			return err
		})
	}
	return text
}
