package skills

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	// maxFrontmatter bounds the frontmatter of a skill, which each listing repeats.
	maxFrontmatter = 64 << 10
	// maxDepth is how deep mappings and sequences may be nested.
	maxDepth = 8
)

// A frontmatter is what a manifest says of its skill.
type frontmatter struct {
	name, description string
	object            json.RawMessage
}

// readFrontmatter reads the YAML at the beginning of a manifest. It takes what all parsers of YAML
// read alike, and refuses the rest: clients compare the listing with what they read themselves.
func readFrontmatter(text string) (*frontmatter, error) {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	text, begins := strings.CutPrefix(text, "---\n")
	yaml, _, ends := strings.Cut("\n"+text+"\n", "\n---\n")
	if !begins || !ends || len(yaml) > maxFrontmatter {
		return nil, fmt.Errorf("must begin with frontmatter between two lines ---, of at most "+
			"%d bytes", maxFrontmatter)
	}
	y := &yamlReader{lines: strings.Split(strings.TrimPrefix(yaml, "\n"), "\n")}
	object, err := y.readMapping(0, maxDepth)
	if err == nil && y.next() >= 0 {
		err = errors.New("is not indented as the lines before")
	}
	if err != nil {
		return nil, fmt.Errorf("frontmatter: line %d: %w", y.at+2, err)
	}
	f := &frontmatter{object: object}
	for name, field := range map[string]*string{"name": &f.name, "description": &f.description} {
		var members map[string]any
		if err := json.Unmarshal(object, &members); err != nil {
			return nil, err
		}
		*field, _ = members[name].(string)
		if *field == "" {
			return nil, fmt.Errorf("frontmatter: %s: is missing, or no text", name)
		}
	}
	return f, nil
}

// A yamlReader reads lines; at is the one that it has come to.
type yamlReader struct {
	lines []string
	at    int
}

// next skips what says nothing, and returns the indent of the line, -1 at the end.
func (y *yamlReader) next() int {
	for ; y.at < len(y.lines); y.at++ {
		line := strings.TrimLeft(y.lines[y.at], " ")
		if line != "" && line[0] != '#' {
			return len(y.lines[y.at]) - len(line)
		}
	}
	return -1
}

var mappingLine = regexp.MustCompile(`^ *([A-Za-z_][A-Za-z0-9_./-]*):(?: +(.*))?$`)

// readMapping reads a block mapping whose keys are indented so far.
func (y *yamlReader) readMapping(indent, depth int) (json.RawMessage, error) {
	if depth == 0 {
		return nil, errors.New("is nested too deep")
	}
	object := []byte{'{'}
	taken := map[string]bool{}
	for y.next() == indent {
		line := y.lines[y.at]
		m := mappingLine.FindStringSubmatch(line)
		switch {
		case m == nil:
			return nil, errors.New("must be a key of letters, digits, '_', '-', '.' and '/', " +
				"a colon, a space and the value")
		case isAmbiguous(m[1]) || m[1] == "true" || m[1] == "false":
			return nil, fmt.Errorf("key %q: parsers differ about it", m[1])
		case taken[m[1]]:
			return nil, fmt.Errorf("key %q: is there twice", m[1])
		}
		taken[m[1]] = true
		y.at++
		value, err := y.readValue(m[2], indent, depth)
		if err != nil {
			return nil, err
		}
		if len(object) > 1 {
			object = append(object, ',')
		}
		object = append(append(append(object, quote(m[1])...), ':'), value...)
	}
	return append(object, '}'), nil
}

// readSequence reads a block sequence of scalars.
func (y *yamlReader) readSequence(indent int) (json.RawMessage, error) {
	list := []json.RawMessage{}
	for y.next() == indent {
		rest, dash := strings.CutPrefix(y.lines[y.at][indent:], "- ")
		if !dash {
			break
		}
		y.at++
		value, err := y.readScalar(strings.TrimLeft(rest, " "), indent)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return json.Marshal(list)
}

// readValue reads the value of a key: rest is what stands behind it.
func (y *yamlReader) readValue(rest string, indent, depth int) (json.RawMessage, error) {
	if rest != "" && rest[0] != '#' {
		return y.readScalar(rest, indent)
	}
	inner := y.next()
	switch {
	case inner >= indent && strings.HasPrefix(y.lines[y.at][inner:], "- "):
		return y.readSequence(inner)
	case inner > indent:
		return y.readMapping(inner, depth-1)
	}
	return json.RawMessage("null"), nil
}

// readScalar reads a scalar, or a sequence in brackets, that begins with first; indent is that of
// the key.
func (y *yamlReader) readScalar(first string, indent int) (json.RawMessage, error) {
	first = strings.TrimRight(first, " ")
	switch {
	case first == "":
		return nil, errors.New("has no value")
	case strings.ContainsRune("|>", rune(first[0])):
		return y.readBlock(first, indent)
	case first[0] == '[':
		return readFlow(first)
	case first[0] == '"' || first[0] == '\'':
		return readQuoted(first)
	}
	text, commented := cutComment(first)
	for !commented && y.at < len(y.lines) { // goes on in lines that are indented further
		line := strings.TrimLeft(y.lines[y.at], " ")
		if line == "" || line[0] == '#' || len(y.lines[y.at])-len(line) <= indent {
			break
		}
		line, commented = cutComment(line)
		text += " " + strings.TrimRight(line, " ")
		y.at++
	}
	return plain(text)
}

// cutComment cuts a comment off a plain scalar.
func cutComment(text string) (before string, found bool) {
	before, _, found = strings.Cut(text, " #")
	return strings.TrimRight(before, " "), found
}

// readBlock reads a block scalar: its lines as they are, or folded.
func (y *yamlReader) readBlock(header string, indent int) (json.RawMessage, error) {
	style, chomp := header[0], header[1:]
	if chomp != "" && chomp != "-" {
		return nil, fmt.Errorf("%q: write |, |-, > or >-", header)
	}
	var lines []string
	inner := -1
	for ; y.at < len(y.lines); y.at++ {
		line := strings.TrimLeft(y.lines[y.at], " ")
		at := len(y.lines[y.at]) - len(line)
		if line == "" {
			lines = append(lines, "")
			continue
		}
		if inner < 0 {
			inner = at
		}
		if at <= indent || at < inner {
			break
		}
		if style == '>' && (at > inner || line[0] == '\t') {
			return nil, errors.New("a folded text must not be indented further within")
		}
		lines = append(lines, y.lines[y.at][inner:])
	}
	text := strings.TrimRight(strings.Join(lines, "\n"), "\n")
	if text == "" || lines[0] == "" || strings.ContainsRune(text, '\t') {
		return nil, errors.New("a text must begin in the next line, without tabs")
	}
	if style == '>' {
		text = fold(text)
	}
	if chomp == "" {
		text += "\n"
	}
	return quoted(text)
}

// fold makes a space of one line break, and one break less of several.
func fold(text string) string {
	return lineBreaks.ReplaceAllStringFunc(text, func(breaks string) string {
		if len(breaks) == 1 {
			return " "
		}
		return breaks[1:]
	})
}

var lineBreaks = regexp.MustCompile(`\n+`)

// readFlow reads a sequence of scalars in brackets, in one line.
func readFlow(text string) (json.RawMessage, error) {
	inner, closed := strings.CutSuffix(text[1:], "]")
	if !closed || strings.ContainsAny(inner, "[]{}\"'#:") {
		return nil, errors.New("a sequence in brackets must be plain words in one line")
	}
	list := []json.RawMessage{}
	for word := range strings.SplitSeq(inner, ",") {
		if strings.TrimSpace(inner) == "" {
			break
		}
		value, err := plain(strings.TrimSpace(word))
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return json.Marshal(list)
}

var (
	singleQuoted = regexp.MustCompile(`^'((?:[^']|'')*)'(?: +#.*)?$`)
	doubleQuoted = regexp.MustCompile(`^("(?:[^"\\]|\\["\\/nt])*")(?: +#.*)?$`)
)

// readQuoted reads a scalar in quotes, in one line.
func readQuoted(text string) (json.RawMessage, error) {
	if m := singleQuoted.FindStringSubmatch(text); m != nil {
		return quoted(strings.ReplaceAll(m[1], "''", "'"))
	}
	var value string
	m := doubleQuoted.FindStringSubmatch(text)
	if m == nil || json.Unmarshal([]byte(m[1]), &value) != nil {
		return nil, errors.New(`a quoted text must end in its line; in double quotes only ` +
			`\" \\ \/ \n and \t are escapes`)
	}
	return quoted(value)
}

var (
	number    = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?$`)
	ambiguous = regexp.MustCompile(`(?i)^([-+]?(0[box]?[0-9a-f_]+|[0-9][0-9_,]*(\.[0-9_]*)?` +
		`(e[-+]?[0-9]+)?|\.[0-9_]+(e[-+]?[0-9]+)?|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?|\.inf)` +
		`|\.nan|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*|y|n|yes|no|on|off|true|false|null|~|=|<<)$`)
)

// isAmbiguous reports whether parsers differ about a plain scalar, or most would not take it for
// text.
func isAmbiguous(text string) bool {
	return text != "true" && text != "false" && !number.MatchString(text) &&
		ambiguous.MatchString(text)
}

// plain reads a scalar without quotes.
func plain(text string) (json.RawMessage, error) {
	switch {
	case text == "" || isAmbiguous(text) || strings.ContainsAny(text[:1], "[]{},#&*!|>'\"%@`?-:") &&
		!number.MatchString(text) || strings.Contains(text, ": ") || strings.HasSuffix(text, ":"):
		return nil, fmt.Errorf("%.40q: parsers of YAML differ about it; write it in quotes", text)
	case text == "true" || text == "false" || number.MatchString(text):
		return json.RawMessage(text), nil
	}
	return quoted(text)
}

// quoted returns a text as JSON.
func quoted(text string) (json.RawMessage, error) {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r == 0x85 || r == 0x2028 ||
			r == 0x2029
	}) {
		return nil, errors.New("has characters that a text should not have")
	}
	return quote(text), nil
}

func quote(text string) json.RawMessage {
	encoded, _ := json.Marshal(text) // a string can be encoded
	return encoded
}
