package server

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"
)

// A uriMatcher extracts the values of a URI template, in time linear in the length of the URI.
type uriMatcher struct {
	names   []string
	pattern *regexp.Regexp
}

const (
	// Characters not reserved in RFC 3986, section 2.2. Non-ASCII passes: clients send IRIs.
	unreserved = `([^:/?#\[\]@!$&'()*+,;=]+)`
	anything   = `(.+)`
)

// newURIMatcher compiles a template of literals, {name} and {+name}: the levels 1 and, in part, 2
// of RFC 6570. Values of other expressions cannot be recovered from a URI.
func newURIMatcher(uriTemplate string) (*uriMatcher, error) {
	if err := checkName(uriTemplate); err != nil {
		return nil, err
	}
	m := &uriMatcher{}
	seen := map[string]bool{}
	pattern := `(?s)\A`
	rest := uriTemplate
	for rest != "" {
		literal, expression, found := strings.Cut(rest, "{")
		if strings.Contains(literal, "}") {
			return nil, fmt.Errorf("has a } without {")
		}
		pattern += regexp.QuoteMeta(literal)
		if !found {
			break
		}
		if expression, rest, found = strings.Cut(expression, "}"); !found {
			return nil, fmt.Errorf("has a { without }")
		}
		name, group := expression, unreserved
		if plain, ok := strings.CutPrefix(expression, "+"); ok {
			name, group = plain, anything
		}
		if !isVariable(name) {
			return nil, fmt.Errorf("expression {%s} is not supported: use {name} or {+name}",
				expression)
		}
		if err := checkUnique("variable", name, seen); err != nil {
			return nil, err
		}
		m.names = append(m.names, name)
		pattern += group
	}
	if len(m.names) == 0 {
		return nil, fmt.Errorf("has no expression: register a resource instead")
	}
	var err error
	m.pattern, err = regexp.Compile(pattern + `\z`)
	return m, err
}

// isVariable reports whether name is a varname (RFC 6570, section 2.3) without percent-encoding.
func isVariable(name string) bool {
	for part := range strings.SplitSeq(name, ".") {
		if part == "" || strings.Trim(part,
			"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" {
			return false
		}
	}
	return true
}

// maxMatched limits matched URIs, at some 50 ns a byte and template, even for unknown clients.
const maxMatched = 16 << 10

// matchURI returns the percent-decoded values. A URI with badly encoded values does not match.
func (m *uriMatcher) matchURI(uri string) (map[string]string, bool) {
	if len(uri) > maxMatched {
		return nil, false
	}
	groups := m.pattern.FindStringSubmatch(uri)
	if groups == nil {
		return nil, false
	}
	values := make(map[string]string, len(m.names))
	for i, name := range m.names {
		value, err := url.PathUnescape(groups[i+1])
		if err != nil || !utf8.ValidString(value) {
			return nil, false
		}
		values[name] = value
	}
	return values, true
}
