package oauth

import (
	"net/http"
	"strings"

	"github.com/rondo-mcp/rondo/internal/wire/headers"
)

// A challenge is the Bearer challenge of a response (RFC 6750, section 3), or the DPoP challenge
// (RFC 9449, section 7.1). Zero: there is none.
type challenge struct {
	found    bool     // there is one
	isBound  bool     // it is that of DPoP, and there is none of Bearer
	code     string   // the parameter error
	scopes   []string // the parameter scope
	metadata string   // the parameter resource_metadata (RFC 9728, section 5.1)
}

// maxChallenge bounds WWW-Authenticate, in bytes. A longer one is not read.
const maxChallenge = 8 << 10

// readChallenge returns the first challenge of a response (RFC 9110, section 11.6.1). Servers that
// take both kinds of tokens send two: that of DPoP counts if it says what is wrong, and else the
// other one. A header that cannot be parsed has none.
func readChallenge(h http.Header) challenge {
	text := strings.Join(h.Values("WWW-Authenticate"), ", ")
	if len(text) > maxChallenge {
		return challenge{}
	}
	p := challengeParser{rest: text}
	var bearer, bound challenge
	for p.nextChallenge() {
		c := &challenge{} // of another scheme, or not the first: it is dropped
		switch {
		case strings.EqualFold(p.scheme, "Bearer") && !bearer.found:
			c = &bearer
		case strings.EqualFold(p.scheme, dpopScheme) && !bound.found:
			c = &bound
		}
		c.found = true
		for p.nextParameter() {
			c.setParameter(p.name, p.value)
		}
	}
	bound.isBound = bound.found && !bearer.found
	switch {
	case p.broken:
		return challenge{}
	case bound.code != "" || !bearer.found:
		return bound
	}
	return bearer
}

// setParameter sets the field of a parameter. Other parameters are ignored.
func (c *challenge) setParameter(name, value string) {
	switch strings.ToLower(name) {
	case "error":
		c.code = value
	case "scope":
		c.scopes = headers.ParseScopes(value)
	case "resource_metadata":
		c.metadata = value
	}
}

// A challengeParser parses challenges, which are schemes with parameters or a token68 (RFC 9110,
// section 11.3).
type challengeParser struct {
	rest        string // unread text
	scheme      string // of the last challenge
	name, value string // of the last parameter
	broken      bool   // the text is malformed
}

// nextChallenge reads the scheme of the next challenge, and skips the token68 that may follow. It
// returns false at the end and for malformed text.
func (p *challengeParser) nextChallenge() bool {
	p.skipAny(" \t,")
	if p.rest == "" || p.broken {
		return false
	}
	if p.scheme = p.readToken(); p.scheme == "" {
		p.broken = true
		return false
	}
	before := p.rest
	p.skipAny(" \t")
	if token68 := p.readToken68(); token68 == "" || !p.isAtEnd() {
		p.rest = before
	}
	return true
}

// nextParameter reads the next parameter of the challenge. It returns false, and reads nothing, if
// another challenge or the end follows.
func (p *challengeParser) nextParameter() bool {
	before := p.rest
	p.skipAny(" \t,")
	name := p.readToken()
	p.skipAny(" \t")
	if name == "" || !strings.HasPrefix(p.rest, "=") {
		p.rest = before
		return false
	}
	p.rest = p.rest[1:]
	p.skipAny(" \t")
	p.name = name
	if !strings.HasPrefix(p.rest, `"`) {
		p.value = p.readToken()
		return true
	}
	return p.readQuoted()
}

// readQuoted reads a quoted-string as the value of the parameter (RFC 9110, section 5.6.4).
func (p *challengeParser) readQuoted() bool {
	var value strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; c {
		case '"':
			p.value, p.rest = value.String(), p.rest[i+1:]
			return true
		case '\\':
			if i++; i < len(p.rest) {
				value.WriteByte(p.rest[i])
			}
		default:
			value.WriteByte(c)
		}
	}
	p.broken = true // it does not end
	return false
}

// isAtEnd reports whether the end of the challenge follows.
func (p *challengeParser) isAtEnd() bool {
	rest := strings.TrimLeft(p.rest, " \t")
	return rest == "" || rest[0] == ','
}

// skipAny skips the characters of set.
func (p *challengeParser) skipAny(set string) { p.rest = strings.TrimLeft(p.rest, set) }

// readToken reads a token (RFC 9110, section 5.6.2); empty: none follows.
func (p *challengeParser) readToken() string {
	return p.readWhile(func(c byte) bool {
		return isAlphanumeric(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
	})
}

// readToken68 reads a token68 (RFC 9110, section 11.2); empty: none follows.
func (p *challengeParser) readToken68() string {
	text := p.readWhile(func(c byte) bool {
		return isAlphanumeric(c) || strings.IndexByte("-._~+/", c) >= 0
	})
	if text != "" {
		text += p.readWhile(func(c byte) bool { return c == '=' })
	}
	return text
}

// readWhile reads the characters up to the first for which is returns false.
func (p *challengeParser) readWhile(is func(byte) bool) string {
	n := 0
	for n < len(p.rest) && is(p.rest[n]) {
		n++
	}
	text := p.rest[:n]
	p.rest = p.rest[n:]
	return text
}

// isAlphanumeric reports whether c is an ASCII letter or digit.
func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
