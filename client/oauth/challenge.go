package oauth

import (
	"net/http"
	"strings"

	"github.com/rondo-mcp/rondo/internal/scope"
)

// A challenge is what a server says in WWW-Authenticate when it refuses a bearer token.
type challenge struct {
	bearer   bool   // there is one
	code     string // the member error
	scopes   []string
	metadata string // where its metadata is
}

// maxChallenge is the longest header that is read.
const maxChallenge = 8 << 10

// readChallenge returns the Bearer challenge of a response, among those of other schemes (RFC 9110,
// 11.6.1). One that cannot be read is none.
func readChallenge(h http.Header) challenge {
	text := strings.Join(h.Values("WWW-Authenticate"), ", ")
	if len(text) > maxChallenge {
		return challenge{}
	}
	p := challengeParser{rest: text}
	var c challenge
	found := false
	for p.nextChallenge() {
		bearer := strings.EqualFold(p.scheme, "Bearer")
		for p.nextParameter() {
			if bearer && !found {
				c.set(p.name, p.value)
			}
		}
		found = found || bearer
	}
	if p.broken {
		return challenge{}
	}
	c.bearer = found
	return c
}

func (c *challenge) set(name, value string) {
	switch strings.ToLower(name) {
	case "error":
		c.code = value
	case "scope":
		c.scopes = scope.Parse(value)
	case "resource_metadata":
		c.metadata = value
	}
}

// A challengeParser reads challenges: schemes with parameters or a token68.
type challengeParser struct {
	rest        string
	scheme      string // of the challenge
	name, value string // of the parameter
	broken      bool
}

// nextChallenge reads a scheme, and skips the token68 that may follow.
func (p *challengeParser) nextChallenge() bool {
	p.skip(" \t,")
	if p.rest == "" || p.broken {
		return false
	}
	if p.scheme = p.token(); p.scheme == "" {
		p.broken = true
		return false
	}
	before := p.rest
	p.skip(" \t")
	if token68 := p.token68(); token68 == "" || !p.atEnd() {
		p.rest = before
	}
	return true
}

// nextParameter reads a parameter of the challenge, if one follows and no other scheme does.
func (p *challengeParser) nextParameter() bool {
	before := p.rest
	p.skip(" \t,")
	name := p.token()
	p.skip(" \t")
	if name == "" || !strings.HasPrefix(p.rest, "=") {
		p.rest = before
		return false
	}
	p.rest = p.rest[1:]
	p.skip(" \t")
	p.name = name
	if !strings.HasPrefix(p.rest, `"`) {
		p.value = p.token()
		return true
	}
	return p.quoted()
}

func (p *challengeParser) quoted() bool {
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

func (p *challengeParser) atEnd() bool {
	rest := strings.TrimLeft(p.rest, " \t")
	return rest == "" || rest[0] == ','
}

func (p *challengeParser) skip(set string) { p.rest = strings.TrimLeft(p.rest, set) }

// token reads a token of RFC 9110, 5.6.2.
func (p *challengeParser) token() string {
	return p.take(func(c byte) bool {
		return isAlphanumeric(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
	})
}

func (p *challengeParser) token68() string {
	text := p.take(func(c byte) bool {
		return isAlphanumeric(c) || strings.IndexByte("-._~+/", c) >= 0
	})
	if text != "" {
		text += p.take(func(c byte) bool { return c == '=' })
	}
	return text
}

func (p *challengeParser) take(is func(byte) bool) string {
	n := 0
	for n < len(p.rest) && is(p.rest[n]) {
		n++
	}
	text := p.rest[:n]
	p.rest = p.rest[n:]
	return text
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
