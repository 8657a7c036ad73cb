package htmlform

import (
	"strconv"
	"strings"

	"github.com/rondo-mcp/rondo/internal/errtext"
)

// Text makes untrusted text safe to display after HTML escaping: it spells out control characters
// of terminals and writing direction. It uses at most limit bytes of s and a cut gets an ellipsis.
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
