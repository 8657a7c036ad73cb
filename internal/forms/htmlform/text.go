package htmlform

import (
	"strconv"
	"strings"

	"github.com/rondo-mcp/rondo/internal/errtext"
)

// Text makes a text that strangers may have chosen safe to look at, once it is escaped for HTML:
// characters that control the terminal or the direction of writing are spelled out. The result is
// made of at most limit bytes; an ellipsis follows what was cut.
func Text(s string, limit int) string {
	s = errtext.Mark(s, limit)
	var b strings.Builder
	for _, r := range s {
		switch {
		case strconv.IsPrint(r), r == '\n', r == '\t', r == '\u200c', r == '\u200d': // joiners
			b.WriteRune(r)
		default:
			spelled := strconv.QuoteRune(r)
			b.WriteString(spelled[1 : len(spelled)-1])
		}
	}
	return b.String()
}
