package fields

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

var keywords = [...]string{
	"jsonschema", "title", "format", "minLength", "maxLength", "minimum", "maximum",
	"minItems", "maxItems", "enum", "enumTitles", "default",
}

// IsFormat reports whether the validator checks format. Forms allow fewer, see package form.
func IsFormat(format string) bool { return slices.Contains(formats[:], format) }

// formats are the checked formats of JSON Schema; others would not be enforced.
var formats = [...]string{
	"email", "uri", "date", "date-time", "time", "duration", "uuid", "hostname",
	"ipv4", "ipv6", "uri-reference", "uri-template",
	"iri", "iri-reference", "json-pointer", "relative-json-pointer",
}

// The variable foreign maps JSON Schema keywords and short forms, which an author may mistake for
// our tags, to replacements. The package documentation explains the selection.
var foreign = [...]struct{ keys, instead string }{
	{"min", "write minimum, minLength or minItems"},
	{"max", "write maximum, maxLength or maxItems"},
	{"minLen minimumLength", "write minLength"},
	{"maxLen maximumLength", "write maxLength"},
	{"minSize", "write minLength or minItems"},
	{"maxSize", "write maxLength or maxItems"},
	{"minCount minimumItems", "write minItems"},
	{"maxCount maximumItems", "write maxItems"},
	{"minValue", "write minimum"},
	{"maxValue", "write maximum"},
	{"description", `write jsonschema:"…"`},
	{"enumNames", "write enumTitles"},
	{"oneOf anyOf", "write enum"},
	{"const", "write an enum of one value"},
	{"required",
		"leave it out: a field is required unless its json tag says omitempty or omitzero"},
	{"pattern multipleOf exclusiveMinimum exclusiveMaximum exclusiveMin exclusiveMax " +
		"uniqueItems minContains maxContains minProperties maxProperties " +
		"additionalProperties patternProperties propertyNames dependentRequired " +
		"contentEncoding contentMediaType readOnly writeOnly",
		"write an InputSchema for the tool, or ask with a form that has another rule"},
	{"deprecated examples", "say it in the description"},
}

func (r *reader) readPairs() error {
	r.tags.pairs = map[string]string{}
	for rest := string(r.field.Tag); rest != ""; {
		key, value, after, ok := cutPair(rest)
		if !ok {
			if mentionsKeyword(rest) {
				return r.newError("",
					"the struct tag `%s` is not a list of key:\"value\" pairs, so it is not read",
					strings.TrimSpace(rest))
			}
			return nil
		}
		if key == "" { // trailing spaces
			return nil
		}
		if _, twice := r.tags.pairs[key]; twice && slices.Contains(keywords[:], key) {
			return r.newError(key, "occurs twice; only the first is read")
		} else if !twice {
			r.tags.pairs[key] = value
		}
		if reason := mistaken(key); reason != "" {
			return r.newError(key, "%s", reason)
		}
		rest = after
	}
	return nil
}

// cutPair splits the first pair off a struct tag like package reflect. At the end the key is empty.
func cutPair(tag string) (key, value, rest string, ok bool) {
	tag = strings.TrimLeft(tag, " ")
	if tag == "" {
		return "", "", "", true
	}
	end := strings.IndexFunc(tag,
		func(r rune) bool { return r <= ' ' || r == ':' || r == '"' || r == 0x7f })
	if end <= 0 || !strings.HasPrefix(tag[end:], `:"`) {
		return "", "", "", false
	}
	quoted, err := strconv.QuotedPrefix(tag[end+1:])
	if err != nil {
		return "", "", "", false
	}
	if value, err = strconv.Unquote(quoted); err != nil {
		return "", "", "", false
	}
	return tag[:end], value, tag[end+1+len(quoted):], true
}

// mentionsKeyword reports whether malformed text seems to be one of our tags, such as minimum:5.
func mentionsKeyword(s string) bool {
	for word, after := "", s; after != ""; {
		word, after, _ = strings.Cut(after, ":")
		start := strings.LastIndexFunc(word, func(r rune) bool { return !unicode.IsLetter(r) }) + 1
		word = word[start:]
		if after != "" && (slices.Contains(keywords[:], word) || mistaken(word) != "") {
			return true
		}
	}
	return false
}

// The function mistaken returns the advice for a key that looks like one of ours, or "".
func mistaken(key string) string {
	if slices.Contains(keywords[:], key) {
		return ""
	}
	for _, f := range foreign {
		if slices.Contains(strings.Fields(f.keys), key) {
			return "is not read here; " + f.instead
		}
	}
	nearest, least := "", len(key)
	for _, keyword := range keywords {
		low, most := strings.ToLower(key), 2
		if len(keyword) < 7 { // short words resemble many others, such as num and enum
			if most = 1; low == "" || low[0] != keyword[0] {
				continue
			}
		}
		if d := distance(low, strings.ToLower(keyword), most); d <= most && d < least {
			nearest, least = keyword, d
		}
	}
	if nearest == "" {
		return ""
	}
	return "is not read here; do you mean " + nearest + "?"
}

// distance returns the Damerau-Levenshtein distance of a and b, at most most+1.
func distance(a, b string, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return most + 1
	}
	before, previous, current := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		current[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			current[j] = min(previous[j]+1, current[j-1]+1, previous[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		before, previous, current = previous, current, before
	}
	return min(previous[len(b)], most+1)
}

// pairIn returns the part of a jsonschema tag that is meant for another library, or "".
func pairIn(text string) string {
	if text == "required" || text == "-" {
		return text
	}
	for i, part := range strings.Split(text, ",") {
		part = strings.TrimSpace(part)
		key, _, paired := strings.Cut(part, "=")
		if paired && strings.IndexFunc(key, unicode.IsSpace) < 0 && (i == 0 ||
			slices.Contains(otherWords[:], key) || slices.Contains(keywords[:], key) ||
			mistaken(key) != "") {
			return part
		}
	}
	return ""
}

// otherWords are keys of other libraries' jsonschema tags.
var otherWords = [...]string{"type", "example", "nullable", "oneof_required", "oneof_type",
	"anchor"}
