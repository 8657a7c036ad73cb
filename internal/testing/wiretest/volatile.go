package wiretest

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// uuids are looked for inside every string, since they turn up within URLs and messages.
var uuids = regexp.MustCompile(`[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`)

// placeholders replaces values that differ from run to run, each by a number of its own kind given
// at first sight.
type placeholders struct {
	members map[string]string // member name to the kind of placeholder
	given   map[string]string // kind and value to placeholder
	counts  map[string]int
}

func newPlaceholders(volatile []string) *placeholders {
	p := &placeholders{
		members: map[string]string{
			"requestState":  "state",
			"elicitationId": "elicitation",
			"reference":     "reference", // in an error's data: names the log line that knows more
		},
		given:  make(map[string]string),
		counts: make(map[string]int),
	}
	for _, name := range volatile {
		p.members[name] = name
	}
	return p
}

// of is the placeholder for value. An empty value stays: empty and absent differ on the wire, and
// must in a transcript.
func (p *placeholders) of(kind, value string) string {
	if value == "" {
		return ""
	}
	key := kind + "\x00" + value
	if p.given[key] == "" {
		p.counts[kind]++
		p.given[key] = fmt.Sprintf("<%s %d>", kind, p.counts[kind])
	}
	return p.given[key]
}

func (p *placeholders) text(s string) string {
	return uuids.ReplaceAllStringFunc(s, func(id string) string { return p.of("uuid", id) })
}

// header replaces the session id, and uuids elsewhere.
func (p *placeholders) header(line string) string {
	name, value, _ := strings.Cut(line, ": ")
	if strings.EqualFold(name, "Mcp-Session-Id") {
		return name + ": " + p.of("session", value)
	}
	return p.text(line)
}

// body is the message on one line, members in their order. What is not JSON is quoted whole, so
// that it is visible as such.
func (p *placeholders) body(raw []byte) string {
	out, err := p.json(raw)
	if err != nil {
		return fmt.Sprintf("not JSON: %q", p.text(string(raw)))
	}
	return out
}

// lenient reads duplicates and broken UTF-8 as they are: a recorder that tidied up would hide the
// defect it is there to show.
func lenient() []jsontext.Options {
	return []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
}

func (p *placeholders) json(raw []byte) (string, error) {
	in := jsontext.NewDecoder(bytes.NewReader(raw), lenient()...)
	var out bytes.Buffer
	enc := jsontext.NewEncoder(&out, append(lenient(), jsontext.PreserveRawStrings(true))...)
	for {
		switch kind := in.PeekKind(); kind {
		case '{', '}', '[', ']':
			token, err := in.ReadToken()
			if err != nil {
				return "", err
			}
			if err := enc.WriteToken(token); err != nil {
				return "", err
			}
		default: // a scalar, a member name, the end or an error
			value, err := in.ReadValue()
			if err == io.EOF {
				if out.Len() == 0 {
					return "", io.ErrUnexpectedEOF
				}
				return strings.ReplaceAll(strings.TrimSuffix(out.String(), "\n"), "\n", " "), nil
			}
			if err != nil {
				return "", err
			}
			if kind == '"' {
				value = p.scalar(enc, value)
			}
			if err := enc.WriteValue(value); err != nil {
				return "", err
			}
		}
	}
}

// scalar replaces what is volatile in a string that is about to be written: a member's name or its
// value.
func (p *placeholders) scalar(enc *jsontext.Encoder, value jsontext.Value) jsontext.Value {
	text, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return value // broken UTF-8: shown as it is
	}
	replaced := p.text(string(text))
	if kind, ok := p.memberKind(enc); ok && kind != "" {
		replaced = p.of(kind, string(text))
	}
	if replaced == string(text) {
		return value
	}
	quoted, err := jsontext.AppendQuote(nil, replaced)
	if err != nil {
		return value
	}
	return quoted
}

// memberKind is the placeholder's kind for the member whose value comes next. It reports false
// where no member's value does.
func (p *placeholders) memberKind(enc *jsontext.Encoder) (string, bool) {
	container, written := enc.StackIndex(enc.StackDepth())
	if container != '{' || written%2 == 0 {
		return "", false
	}
	return p.members[enc.StackPointer().LastToken()], true
}
