package schema

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// CheckFormat reports whether s is of the named format: email, uri, date or date-time, the four
// that a form may use. Another name is not checked here and reports true. The same rules apply
// inside [Schema.Validate].
func CheckFormat(format, s string) bool {
	switch format {
	case "email":
		return isEmail(s)
	case "uri":
		return isURI(s)
	case "date":
		return isDate(s)
	case "date-time":
		return isDateTime(s)
	}
	return true
}

var errFormat = errors.New("is not of that format")

// formatNames are those that CheckFormat checks.
var formatNames = []string{"email", "uri", "date", "date-time"}

// formatSteps returns what checking a text takes.
func formatSteps(format, text string) int64 {
	if format != "regex" {
		return int64(1 + len(text)/8)
	}
	steps := regexSteps * int64(1+len(text)/8)
	if len(text) <= maxPattern {
		steps += parseSteps * int64(parseCost(text))
	}
	return steps
}

// newFormat returns a format that CheckFormat checks, nil for no name.
func newFormat(name string) *jsonschema.Format {
	if name == "" {
		return nil
	}
	return &jsonschema.Format{Name: name, Validate: func(v any) error {
		if s, ok := v.(string); ok && !CheckFormat(name, s) {
			return errFormat
		}
		return nil
	}}
}

// isEmail accepts the addr-spec of RFC 5321, section 4.1.2, with its length limits, in ASCII. A
// quoted local part or an address literal for a domain is allowed; a domain without a dot too, as
// the format says nothing about reachability.
func isEmail(s string) bool {
	at := strings.LastIndexByte(s, '@')
	if at < 1 || at > 64 || len(s) > 254 {
		return false
	}
	local, domain := s[:at], s[at+1:]
	return (isDotAtom(local) || isQuotedLocal(local)) &&
		(isHostname(domain) || isAddressLiteral(domain))
}

func isDotAtom(s string) bool {
	previous := byte('.')
	for i := range len(s) {
		c := s[i]
		if c == '.' && previous == '.' {
			return false
		}
		if c != '.' && !isAlphanumeric(c) && strings.IndexByte("!#$%&'*+-/=?^_`{|}~", c) < 0 {
			return false
		}
		previous = c
	}
	return previous != '.'
}

func isQuotedLocal(s string) bool {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return false
	}
	for _, c := range []byte(s[1 : len(s)-1]) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func isHostname(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			if c != '-' && !isAlphanumeric(c) {
				return false
			}
		}
	}
	return true
}

func isAddressLiteral(s string) bool {
	if len(s) < 2 || s[0] != '[' || s[len(s)-1] != ']' {
		return false
	}
	literal, v6 := strings.CutPrefix(s[1:len(s)-1], "IPv6:")
	address, err := netip.ParseAddr(literal)
	return err == nil && address.Zone() == "" && address.Is4() != v6
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// isURI accepts an absolute URI of RFC 3986: a scheme, only characters that RFC 3986 allows, and
// whole percent escapes.
func isURI(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c <= ' ' || c > '~' || strings.IndexByte("\"<>\\^`{|}", c) >= 0 {
			return false
		}
		if c == '%' && (i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2])) {
			return false
		}
	}
	u, err := url.Parse(s)
	return err == nil && u.Scheme != ""
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// isDate accepts the full-date of RFC 3339, section 5.6: four digits, two, two, and a day that the
// month has.
func isDate(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

// isDateTime accepts the date-time of RFC 3339, section 5.6. A leap second is allowed where one
// could be: at 23:59:60 UTC.
func isDateTime(s string) bool {
	if len(s) < len("2006-01-02T15:04:05Z") || s[10] != 'T' && s[10] != 't' {
		return false
	}
	upper := strings.ToUpper(s)
	if !strictClock(upper[11:]) {
		return false
	}
	leap := upper[17:19] == "60"
	if leap {
		upper = upper[:17] + "59" + upper[19:]
	}
	t, err := time.Parse(time.RFC3339, upper)
	if err != nil {
		return false
	}
	t = t.UTC()
	return !leap || t.Hour() == 23 && t.Minute() == 59
}

// strictClock checks the shape that package time is lenient about: two-digit hours, a dot before
// the fraction, and an offset below 24:00.
func strictClock(s string) bool {
	if s[2] != ':' || s[5] != ':' || !digits(s[:2]) || !digits(s[3:5]) || !digits(s[6:8]) {
		return false
	}
	s = s[8:]
	if fraction, ok := strings.CutPrefix(s, "."); ok {
		s = strings.TrimLeft(fraction, "0123456789")
		if len(s) == len(fraction) {
			return false
		}
	}
	if s == "Z" {
		return true
	}
	return len(s) == 6 && (s[0] == '+' || s[0] == '-') && digits(s[1:3]) && s[3] == ':' &&
		digits(s[4:6]) && s[1:3] < "24" && s[4:6] < "60"
}

func digits(s string) bool { return strings.Trim(s, "0123456789") == "" }
