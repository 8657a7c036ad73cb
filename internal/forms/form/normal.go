package form

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/internal/forms/fields"
	"github.com/rondo-mcp/rondo/internal/forms/schema"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

const (
	maxNesting  = 16            // references and unions within each other
	maxKeywords = 64            // of one schema
	maxResolved = 4 * MaxSchema // bytes read of a schema, including repeated references
)

// normalize rewrites a peer's schema, checked JSON, into the grammar of forms if it has one plain
// reading: it resolves references and allOf, drops nulls, and turns a union of constants into a
// choice. Other rules stay as keywords, described if need be. No property accepts more.
func normalize(raw []byte) ([]byte, error) {
	n := normalizer{root: raw, left: maxResolved, places: map[string][]byte{}}
	form, err := n.readRoot()
	if err != nil {
		return nil, &Error{Reason: err.Error()}
	}
	if form["type"] == nil {
		form.setText("type", "object")
	}
	form.dropBrokenTexts()
	dialect := form.textOf("$schema")
	if !strings.Contains(dialect, "json-schema.org/draft") ||
		strings.Contains(dialect, "draft-04") { // spells bounds differently
		delete(form, "$schema")
	}
	if p := form["properties"]; p == nil || string(p) == "[]" { // an empty map in PHP
		form["properties"] = []byte("{}")
	}
	if jsonx.KindOf(form["properties"]) == jsonx.Object {
		form["properties"], err = rewrite(form["properties"],
			func(name string, property []byte) ([]byte, error) {
				normal, err := n.normalizeProperty(property)
				if err != nil {
					return nil, fieldError(name, err.Error())
				}
				n.left -= len(normal)
				return normal, nil
			})
		if err != nil {
			return nil, err
		}
	}
	normal := form.encodeLike(raw)
	if form["$defs"] != nil || form["definitions"] != nil {
		delete(form, "$defs")
		delete(form, "definitions")
		short := form.encodeLike(raw)
		if !bytes.Contains(bytes.ToLower(short), []byte(`ref"`)) { // in a keyword that is kept
			normal = short
		}
	}
	return normal, nil
}

var errNesting = errors.New("refers to itself, or is too large with what it refers to")

type normalizer struct {
	root   []byte
	left   int               // bytes left of maxResolved
	places map[string][]byte // by reference
}

func (n *normalizer) readRoot() (members, error) {
	form := readMembers(n.root)
	for range maxNesting + 1 {
		ref := form["$ref"]
		if ref == nil {
			return form, form.settleType()
		}
		place, err := n.resolveReference(ref)
		if err != nil {
			return nil, err
		}
		delete(form, "$ref")
		if err := form.addKeywords(readMembers(place)); err != nil {
			return nil, err
		}
	}
	return nil, errNesting
}

func (n *normalizer) resolveReference(raw []byte) ([]byte, error) {
	ref, err := jsonx.Text(raw)
	if err != nil || !strings.HasPrefix(ref, "#/") {
		return nil, fmt.Errorf("has the reference %s, which leads to no part of the schema",
			quote([]byte(ref)))
	}
	if place := n.places[ref]; place != nil {
		return place, nil
	}
	place := n.root
	for step := range strings.SplitSeq(ref[2:], "/") {
		if n.left -= len(place); n.left < 0 {
			return nil, errNesting
		}
		if plain, err := url.PathUnescape(step); err == nil {
			step = plain
		}
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		place = partOf(place, step)
	}
	if place == nil {
		return nil, fmt.Errorf("has the reference %s, which leads nowhere", quote([]byte(ref)))
	}
	n.places[ref] = place
	return place, nil
}

// partOf returns the member or element that a step of a reference names.
func partOf(raw []byte, step string) []byte {
	for key, value := range membersOf(raw) {
		if key == step {
			return value
		}
	}
	for i, value := range eachElement(raw) {
		if strconv.Itoa(i) == step {
			return value
		}
	}
	return nil
}

// The variable combining has the keywords with further schemas for the same value.
var combining = [...]string{"$ref", "allOf", "anyOf", "oneOf"}

// flattenSchema returns the keywords of a schema and of those it refers to, with at most one type.
func (n *normalizer) flattenSchema(raw []byte, depth int) (members, error) {
	n.left -= len(raw)
	switch {
	case depth > maxNesting || n.left < 0:
		return nil, errNesting
	case string(raw) == "true":
		return members{}, nil
	case string(raw) == "false":
		return nil, errors.New("allows no value")
	case jsonx.KindOf(raw) != jsonx.Object:
		return nil, errors.New("must be a schema object, got " + jsonx.KindOf(raw).String())
	}
	own := readMembers(raw)
	if len(own) > maxKeywords {
		return nil, fmt.Errorf("has more than %d keywords", maxKeywords)
	}
	parts := maps.Clone(own)
	for _, keyword := range combining {
		delete(own, keyword)
	}
	delete(own, "nullable") // OpenAPI
	err := own.settleKeywords()
	for _, keyword := range combining {
		if part := parts[keyword]; part != nil && err == nil {
			err = n.addPart(own, keyword, part, depth+1)
		}
	}
	return own, err
}

func (n *normalizer) addPart(own members, keyword string, part []byte, depth int) error {
	schemas := elementsOf(part)
	switch {
	case keyword == "$ref":
		place, err := n.resolveReference(part)
		if err != nil {
			return err
		}
		schemas = [][]byte{place}
	case jsonx.KindOf(part) != jsonx.Array:
		return fmt.Errorf("%s must be an array", keyword)
	case keyword != "allOf" && own["enum"] != nil: // enum already has the values
		return own.addKeywords(members{keyword: part})
	case keyword != "allOf":
		return n.addUnion(own, keyword, schemas, depth)
	}
	for _, raw := range schemas {
		flat, err := n.flattenSchema(raw, depth)
		if err == nil {
			err = own.addKeywords(flat)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addUnion adds the only non-null schema of a union, its constants, or a union within one type.
func (n *normalizer) addUnion(own members, keyword string, union [][]byte, depth int) error {
	var branches []members
	var types []string
	nulls, constants := false, true
	for _, raw := range union {
		branch, err := n.flattenSchema(raw, depth)
		if err != nil {
			return err
		}
		if branch.textOf("type") == "null" {
			nulls = true
			continue
		}
		branches = append(branches, branch)
		types = append(types, cmp.Or(branch.textOf("type"), "any value"))
		constants = constants && branch.isConstant()
	}
	switch {
	case len(branches) == 0:
		return fmt.Errorf("%s allows no value but null", keyword)
	case len(branches) == 1 && (nulls || !constants):
		return own.addKeywords(branches[0])
	}
	slices.Sort(types)
	typ, err := onlyType(keyword+" of ", slices.Compact(types))
	switch {
	case err != nil:
		return err
	case typ == "array" || typ == "object" || typ == "any value":
		return readingsError(keyword+" of ", types[:1])
	}
	added := members{}
	if constants {
		added = readOptions(typ, branches)
	} else {
		encoded := [][]byte{}
		for _, branch := range branches {
			encoded = append(encoded, branch.encode())
		}
		added[keyword] = encodeList(encoded)
	}
	added.setText("type", typ)
	return own.addKeywords(added)
}

// onlyType returns the one type of a list, in which integers are numbers. of begins error texts.
func onlyType(of string, types []string) (string, error) {
	only := types[0]
	for _, typ := range types {
		switch {
		case typ == only || only == "number" && typ == "integer":
		case only == "integer" && typ == "number":
			only = typ
		default:
			return "", readingsError(of, types)
		}
	}
	return only, nil
}

func readingsError(of string, types []string) error {
	return errors.New("has more than one reading: " + of +
		errtext.Mark(strings.Join(types, ", "), 64))
}

// constantKeywords are the keywords that a constant may have.
var constantKeywords = [...]string{"type", "title", "description", "const", "enum", "default",
	"deprecated", "examples", "$comment"}

func (m members) isConstant() bool {
	for key := range m {
		if !slices.Contains(constantKeywords[:], key) {
			return false
		}
	}
	return (m["enum"] != nil) != (m["const"] != nil)
}

// readOptions returns the keywords of a choice. For numbers, explainRules describes the titles.
func readOptions(typ string, branches []members) members {
	var values, names, titled [][]byte
	hasTitles := false
	for _, branch := range branches {
		list := [][]byte{branch["const"]}
		if enum := branch["enum"]; enum != nil {
			list = elementsOf(enum)
		}
		title := ""
		if len(list) == 1 {
			title = branch.textOf("title")
		}
		hasTitles = hasTitles || title != ""
		for _, value := range list {
			text, _ := jsonx.Text(value)
			name := jsonx.AppendText(nil, cmp.Or(title, text))
			values, names = append(values, value), append(names, name)
			titled = append(titled, members{"const": value, "title": name}.encode())
		}
	}
	switch {
	case !hasTitles:
		return members{"enum": encodeList(values)}
	case typ == "string":
		return members{"oneOf": encodeList(titled)}
	}
	return members{"enum": encodeList(values), "enumNames": encodeList(names)}
}

func (n *normalizer) normalizeProperty(raw []byte) ([]byte, error) {
	m, err := n.flattenSchema(raw, 0)
	if err != nil {
		return nil, err
	}
	fallback := typeOf(m["default"])
	if m["type"] == nil { // any value, such as a text
		m.setText("type", cmp.Or(fallback, "string"))
	}
	m.dropBrokenTexts()
	typ := m.textOf("type")
	if items := m["items"]; items != nil && typ == "array" {
		choices, err := n.flattenSchema(items, 1)
		if err != nil {
			return nil, withKeyword(err, "items")
		}
		if choices["oneOf"] != nil && choices["enum"] == nil && choices["anyOf"] == nil {
			choices["anyOf"] = choices["oneOf"]
			delete(choices, "oneOf")
		}
		m["items"] = choices.encode()
	}
	if fallback != typ && !(fallback == "integer" && typ == "number") {
		delete(m, "default")
	}
	m.explainRules(typ)
	return m.encodeLike(raw), nil
}

// bounds are the keywords of bounds, with words for exclusive bounds.
var bounds = [...]struct{ exclusive, inclusive, words string }{
	{"exclusiveMinimum", "minimum", "more than "},
	{"exclusiveMaximum", "maximum", "less than "},
}

// explainRules describes rules that the grammar has no keyword for.
func (m members) explainRules(typ string) {
	notes := []string{}
	numeric := typ == "integer" || typ == "number"
	format := m.textOf("format")
	if typ == "string" && format != "" && !isFormat(format) && m["enum"] == nil &&
		m["oneOf"] == nil {
		// Clients refuse formats outside the grammar.
		m["allOf"] = encodeList([][]byte{members{"format": m["format"]}.encode()})
		delete(m, "format")
		notes = append(notes, "format: "+errtext.Mark(format, 40))
	}
	for _, bound := range bounds {
		if raw := m[bound.exclusive]; numeric && raw != nil {
			notes = append(notes, bound.words+errtext.Mark(string(raw), 40))
			if m[bound.inclusive] == nil {
				m[bound.inclusive] = raw
			}
		}
	}
	if values := m["enum"]; numeric && values != nil {
		var list []string
		names, _ := parseTexts(m["enumNames"])
		for i, value := range eachElement(values) {
			list = append(list, string(value))
			if i < len(names) {
				list[i] += " " + names[i]
			}
		}
		notes = append(notes, "one of: "+errtext.Values(len(list), func(i int) string {
			return errtext.Mark(list[i], 40)
		}))
	}
	description := m.textOf("description")
	for _, note := range notes {
		if !strings.Contains(description, note) {
			description = strings.TrimSpace(description + " (" + note + ")")
		}
	}
	if len(notes) > 0 {
		m.setText("description", description)
	}
}

// typeOf returns the JSON Schema type of a value, or "" for null or no value.
func typeOf(raw []byte) string {
	switch k := jsonx.KindOf(raw); k {
	case jsonx.Number:
		if n, err := fields.ParseNumber(string(raw)); err == nil && n.IsInteger() {
			return "integer"
		}
		return "number"
	case jsonx.String, jsonx.Bool, jsonx.Array, jsonx.Object:
		return k.String()
	}
	return ""
}

type members map[string][]byte // keywords of a schema

// valueKeywords restrict values: dropping null from them would allow more or change a default.
var valueKeywords = [...]string{"const", "enum", "allOf", "anyOf", "oneOf", "items", "default"}

// readMembers returns the members of an object; some encoders write null for absent ones.
func readMembers(raw []byte) members {
	m := members{}
	for key, value := range membersOf(raw) {
		if !isNull(value) || slices.Contains(valueKeywords[:], key) {
			m[key] = value
		}
	}
	return m
}

func isNull(raw []byte) bool { return jsonx.KindOf(raw) == jsonx.Null }

func (m members) textOf(key string) string {
	s, _ := jsonx.Text(m[key])
	return s
}

func (m members) setText(key, value string) { m[key] = jsonx.AppendText(nil, value) }

// dropBrokenTexts drops a title or description that is not a string.
func (m members) dropBrokenTexts() {
	for _, key := range []string{"title", "description"} {
		if jsonx.KindOf(m[key]) != jsonx.String {
			delete(m, key)
		}
	}
}

func (m members) encode() []byte { return m.encodeLike(nil) }

// encodeLike encodes keywords in the order of raw, then the others.
func (m members) encodeLike(raw []byte) []byte {
	b, written := []byte{'{'}, 0
	for key := range membersOf(raw) {
		if value, ok := m[key]; ok {
			b = appendRaw(b, key, value)
			written++
		}
	}
	if written < len(m) {
		others := maps.Clone(m)
		for key := range membersOf(raw) {
			delete(others, key)
		}
		for _, key := range slices.Sorted(maps.Keys(others)) {
			b = appendRaw(b, key, others[key])
		}
	}
	return append(b, '}')
}

func encodeList(values [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(values, []byte{','})...), ']')
}

// annotations restrict nothing: the one nearest to the property counts.
var annotations = [...]string{"title", "description", "default", "examples", "deprecated",
	"readOnly", "writeOnly", "$comment", "$id", "$schema"}

// addKeywords adds the keywords of another schema that must hold as well.
func (m members) addKeywords(other members) error {
	for _, key := range slices.Sorted(maps.Keys(other)) {
		switch own, added := m[key], other[key]; {
		case own == nil:
			m[key] = added
		case slices.Contains(annotations[:], key) || bytes.Equal(own, added):
		case key == "type":
			types := []string{m.textOf("type"), other.textOf("type")}
			if _, err := onlyType("", types); err != nil {
				return fmt.Errorf("is of type %s and of type %s at once", quote([]byte(types[0])),
					quote([]byte(types[1])))
			}
			m.setText("type", "integer") // the narrower one
		default:
			return fmt.Errorf("has the keyword %s twice, with different values",
				quote([]byte(key)))
		}
	}
	return nil
}

func (m members) settleType() error {
	if jsonx.KindOf(m["type"]) != jsonx.Array {
		return nil
	}
	types, err := parseTexts(m["type"])
	if err != nil {
		return withKeyword(err, `"type"`)
	}
	types = slices.DeleteFunc(types, func(s string) bool { return s == "null" })
	if len(types) == 0 {
		types = []string{"null"}
	}
	only, err := onlyType("type of ", types)
	if err == nil {
		m.setText("type", only)
	}
	return err
}

// settleKeywords normalizes type, enum, const and bounds, and infers an absent type.
func (m members) settleKeywords() error {
	if err := m.settleType(); err != nil {
		return err
	}
	if values := elementsOf(m["enum"]); slices.ContainsFunc(values, isNull) {
		values = slices.DeleteFunc(values, isNull)
		delete(m, "enumNames") // also had a name for null
		m["enum"] = encodeList(values)
		if len(values) == 0 {
			m.setText("type", "null")
		}
	}
	switch constant := m["const"]; {
	case constant == nil:
	case isNull(constant):
		m.setText("type", "null")
	case jsonx.KindOf(constant) == jsonx.String && m["enum"] == nil:
		delete(m, "const")
		m["enum"] = encodeList([][]byte{constant})
	}
	for _, bound := range bounds {
		if raw := m[bound.exclusive]; jsonx.KindOf(raw) == jsonx.Bool { // draft 4
			delete(m, bound.exclusive)
			if limit := m[bound.inclusive]; string(raw) == "true" && limit != nil {
				m[bound.exclusive] = limit
			}
		}
	}
	types := m.inferTypes()
	if m["type"] != nil || len(types) == 0 {
		return nil
	}
	typ, err := onlyType("values of type ", types)
	if typ != "" {
		m.setText("type", typ)
	}
	return err
}

func typeOfKeyword(keyword string) string {
	switch keyword {
	case "minLength", "maxLength", "pattern", "format":
		return "string"
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		return "number"
	case "items", "minItems", "maxItems", "prefixItems":
		return "array"
	case "properties":
		return "object"
	}
	return ""
}

// inferTypes returns the sorted types of the values, or else the types that the keywords imply.
func (m members) inferTypes() (types []string) {
	if constant := m["const"]; constant != nil {
		types = append(types, typeOf(constant))
	}
	for _, value := range eachElement(m["enum"]) {
		types = append(types, typeOf(value))
	}
	if len(types) == 0 {
		for key := range m {
			if typ := typeOfKeyword(key); typ != "" {
				types = append(types, typ)
			}
		}
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// dropUncheckable removes examples and invalid patterns, except where that would accept less.
func dropUncheckable(raw []byte) []byte {
	switch jsonx.KindOf(raw) {
	case jsonx.Array:
		list := elementsOf(raw)
		for i, value := range list {
			list[i] = dropUncheckable(value)
		}
		return encodeList(list)
	case jsonx.Object:
		m := readMembers(raw)
		for key, value := range m {
			text, err := jsonx.Text(value)
			switch {
			case key == "pattern" && err == nil && schema.CheckPattern(text) != nil,
				key == "examples" && jsonx.KindOf(value) != jsonx.Object:
				delete(m, key)
			case !slices.Contains([]string{"not", "if", "oneOf", "const", "enum"}, key):
				m[key] = dropUncheckable(value)
			}
		}
		return m.encode()
	}
	return raw
}
