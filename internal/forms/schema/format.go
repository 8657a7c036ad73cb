package schema

import (
	"errors"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// CheckFormat reports whether s has the format email, uri, date or date-time, the formats that
// forms allow. For any other format it reports true. [Schema.Validate] uses the same rules.
func CheckFormat(format, s string) bool {
	switch format {
	case "email":
		return isEmail(s)
	case "uri":
		return isURI(s)
	case "date":
		_, err := time.Parse(time.DateOnly, s)
		return err == nil
	case "date-time":
		return isDateTime(s)
	}
	return true
}

var errFormat = errors.New("is not of that format")

// formatNames are the formats of CheckFormat.
var formatNames = [...]string{"email", "uri", "date", "date-time"}

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

// newFormat returns a format that applies CheckFormat, nil for an empty name.
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

const (
	atom  = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
	label = "[A-Za-z0-9]+(-+[A-Za-z0-9]+)*"
)

var (
	emailForm = regexp.MustCompile("^(" + atom + `(\.` + atom + `)*|"[ !#-\[\]-~]*")@(` +
		label + `(\.` + label + `)*|\[[^\[\]@]+\])$`)
	longLabel = regexp.MustCompile(`[^.]{64}`)
	uriForm   = regexp.MustCompile(`^([!#$&-;=?-\[\]_a-z~]|%[0-9A-Fa-f]{2})*$`)
	clockForm = regexp.MustCompile(
		`^.{10}[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$`)
)

// isEmail accepts an ASCII addr-spec of RFC 5321, section 4.1.2, with its length limits, including
// quoted local parts, address literals, and domains without a dot.
func isEmail(s string) bool {
	at := strings.LastIndexByte(s, '@')
	if at > 64 || len(s) > 254 || !emailForm.MatchString(s) {
		return false
	}
	literal, ok := strings.CutPrefix(s[at+1:], "[")
	if !ok {
		return !longLabel.MatchString(s[at+1:])
	}
	literal, v6 := strings.CutPrefix(strings.TrimSuffix(literal, "]"), "IPv6:")
	address, err := netip.ParseAddr(literal)
	return err == nil && address.Zone() == "" && address.Is4() != v6
}

// isURI accepts an absolute URI of RFC 3986.
func isURI(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme != "" && uriForm.MatchString(s)
}

// isDateTime accepts the date-time of RFC 3339, section 5.6, for which package time is too lenient.
// A leap second is allowed only at 23:59:60 UTC.
func isDateTime(s string) bool {
	if !clockForm.MatchString(s) {
		return false
	}
	s = strings.ToUpper(s)
	leap := s[17:19] == "60"
	if leap {
		s = s[:17] + "59" + s[19:]
	}
	t, err := time.Parse(time.RFC3339, s)
	t = t.UTC()
	return err == nil && (!leap || t.Hour() == 23 && t.Minute() == 59)
}
