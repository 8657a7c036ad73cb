package oauth

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/rondo-mcp/rondo/internal/wire/rules"
)

// A challenge is the Bearer challenge of a response (RFC 6750, section 3); zero means no challenge.
type challenge struct {
	found    bool
	code     string   // parameter error
	why      string   // parameter error_description
	scopes   []string // parameter scope
	metadata string   // parameter resource_metadata (RFC 9728, section 5.1)
}

const maxChallenge = 8 << 10 // bytes of WWW-Authenticate; longer headers are ignored

// challengePart matches a parameter of a challenge (name, quoted value, token value), or another
// scheme with its optional token68 (RFC 9110, section 11.3).
var challengePart = func() *regexp.Regexp {
	const token, space = "[-!#$%&'*+.^_`|~0-9A-Za-z]", `[ \t]*`
	return regexp.MustCompile(`^(?s:(` + token + `+)` + space + `=` + space +
		`(?:"((?:[^"\\]|\\.)*)"|(` + token + `*))` +
		`|(` + token + `+)(?:[ \t]+[-._~+/0-9A-Za-z]+=*` + space + `(?:,|$))?)`)
}()

var quotedPair = regexp.MustCompile(`(?s)\\(.)`) // RFC 9110, section 5.6.4

// readChallenge returns the first Bearer challenge (RFC 9110, section 11.6.1); zero if malformed.
func readChallenge(h http.Header) challenge {
	text := strings.Join(h.Values("WWW-Authenticate"), ", ")
	if len(text) > maxChallenge {
		return challenge{}
	}
	var bearer challenge
	var c *challenge // the challenge being read, or nil
	for text = strings.TrimLeft(text, " \t,"); text != ""; text = strings.TrimLeft(text, " \t,") {
		part := challengePart.FindStringSubmatch(text)
		if part == nil || part[1] != "" && c == nil {
			return challenge{}
		}
		text = text[len(part[0]):]
		name, quoted, token, scheme := part[1], part[2], part[3], part[4]
		switch {
		case name != "":
			c.setParameter(name, token+quotedPair.ReplaceAllString(quoted, "$1"))
			continue
		case strings.EqualFold(scheme, "Bearer") && !bearer.found:
			c = &bearer
		default: // another scheme, or not the first Bearer challenge: skip it
			c = &challenge{}
		}
		c.found = true
	}
	return bearer
}

func (c *challenge) setParameter(name, value string) {
	switch strings.ToLower(name) {
	case "error":
		c.code = value
	case "error_description":
		c.why = value
	case "scope":
		c.scopes = rules.ParseScopes(value)
	case "resource_metadata":
		c.metadata = value
	}
}
