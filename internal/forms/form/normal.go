package form

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
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
	// maxReferences is how many places of a schema its references may lead to.
	maxReferences = 200
	// maxNesting is how deep references and unions may lead into each other.
	maxNesting = 16
	// maxKeywords is how many keywords a schema may have.
	maxKeywords = 64
	// maxResolved is how much is read of a schema, in bytes, with what its references repeat.
	maxResolved = 4 * MaxSchema
)

// normalize returns a peer's schema, checked JSON, as the grammar of forms spells it, where it has
// one plain reading: references and allOf are resolved, null and what is null is left out, and a
// union of constants becomes a choice. What the grammar cannot say stays as a keyword beside it,
// and is said in the description where a person needs it. No property takes more than before.
// What is not flat is left to the parser to refuse.
func normalize(raw []byte) ([]byte, error) {
	n := normalizer{root: raw, left: maxResolved, places: map[string][]byte{}}
	form := readMembers(raw)
	for depth := 0; form.valueOf("$ref") != nil; depth++ {
		place, err := n.resolveReference(form.valueOf("$ref"))
		if err == nil && depth == maxNesting {
			err = errNesting
		}
		if err == nil {
			form.dropKeyword("$ref")
			err = form.addKeywords(readMembers(place))
		}
		if err != nil {
			return nil, &Error{Reason: err.Error()}
		}
	}
	if err := form.settleType(); err != nil {
		return nil, &Error{Reason: err.Error()}
	}
	if form.valueOf("type") == nil {
		form.setText("type", "object")
	}
	form.dropBrokenTexts()
	dialect, _ := jsonx.Text(form.valueOf("$schema"))
	if !understoodDialect(dialect) {
		form.dropKeyword("$schema")
	}
	properties := form.valueOf("properties")
	if properties == nil || string(properties) == "[]" { // as PHP writes an empty map
		properties = []byte("{}")
	}
	if jsonx.KindOf(properties) == jsonx.Object {
		var err error
		properties, err = rewrite(properties, func(name string, property []byte) ([]byte, error) {
			normal, err := n.normalizeProperty(property)
			if err == nil {
				n.left -= len(normal)
				return normal, nil
			}
			return nil, fieldError(name, err.Error())
		})
		if err != nil {
			return nil, err
		}
	}
	form.setValue("properties", properties)
	definitions := members{{"$defs", form.valueOf("$defs")},
		{"definitions", form.valueOf("definitions")}}
	form.dropKeyword("$defs")
	form.dropKeyword("definitions")
	normal := form.encode()
	if bytes.Contains(bytes.ToLower(normal), []byte(`ref"`)) { // in a keyword beside the grammar
		for _, d := range definitions {
			if d.value != nil {
				form.setValue(d.key, d.value)
			}
		}
		normal = form.encode()
	}
	return normal, nil
}

// understoodDialect reports whether a normal form may keep its "$schema": bounds are spelled as
// drafts do from 6 on.
func understoodDialect(dialect string) bool {
	return strings.Contains(dialect, "json-schema.org/draft") &&
		!strings.Contains(dialect, "draft-04")
}

var errNesting = errors.New("refers to itself, or is too large with what it refers to")

// normalizer reads the schemas of the properties of a form.
type normalizer struct {
	root   []byte
	left   int               // of maxResolved
	places map[string][]byte // by reference
}

// resolveReference returns the place of the schema that a reference leads to.
func (n *normalizer) resolveReference(raw []byte) ([]byte, error) {
	ref, err := jsonx.Text(raw)
	if err != nil || !strings.HasPrefix(ref, "#/") {
		return nil, fmt.Errorf("has the reference %s, which leads to no part of the schema",
			quote([]byte(ref)))
	}
	if place := n.places[ref]; place != nil {
		return place, nil
	}
	if len(n.places) == maxReferences {
		return nil, fmt.Errorf("refers to more than %d places of the schema", maxReferences)
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
		place = findStep(place, step)
	}
	if place == nil {
		return nil, fmt.Errorf("has the reference %s, which leads nowhere", quote([]byte(ref)))
	}
	n.places[ref] = place
	return place, nil
}

func findStep(raw []byte, step string) (found []byte) {
	walkMembers(raw, func(key string, value []byte) {
		if key == step {
			found = value
		}
	})
	index := 0
	walkElements(raw, func(value []byte) {
		if strconv.Itoa(index) == step {
			found = value
		}
		index++
	})
	return found
}

// flattenSchema returns the keywords of a schema together with those of the schemas that it
// consists of. Its type is one name, or absent where any value is allowed.
func (n *normalizer) flattenSchema(raw []byte, depth int) (members, error) {
	n.left -= len(raw)
	switch {
	case depth > maxNesting || n.left < 0:
		return nil, errNesting
	case string(raw) == "true":
		return nil, nil
	case string(raw) == "false":
		return nil, errors.New("allows no value")
	case jsonx.KindOf(raw) != jsonx.Object:
		return nil, errors.New("must be a schema object, got " + jsonx.KindOf(raw).String())
	}
	own, parts := readMembers(raw), members{}
	if len(own) > maxKeywords {
		return nil, fmt.Errorf("has more than %d keywords", maxKeywords)
	}
	for _, keyword := range []string{"$ref", "allOf", "anyOf", "oneOf"} {
		if value := own.valueOf(keyword); value != nil {
			parts = append(parts, member{keyword, value})
			own.dropKeyword(keyword)
		}
	}
	own.dropKeyword("nullable") // of OpenAPI
	err := own.settleKeywords()
	for _, part := range parts {
		if err != nil {
			break
		}
		err = n.addPart(&own, part, depth+1)
	}
	return own, err
}

func (n *normalizer) addPart(own *members, part member, depth int) error {
	if part.key == "$ref" {
		place, err := n.resolveReference(part.value)
		if err != nil {
			return err
		}
		return n.addSchema(own, place, depth)
	}
	if jsonx.KindOf(part.value) != jsonx.Array {
		return fmt.Errorf("%s must be an array", part.key)
	}
	if part.key != "allOf" {
		return n.addUnion(own, part, depth)
	}
	return jsonx.Elements(part.value, func(_ int, value []byte) error {
		return n.addSchema(own, value, depth)
	})
}

func (n *normalizer) addSchema(own *members, raw []byte, depth int) error {
	flat, err := n.flattenSchema(raw, depth)
	if err != nil {
		return err
	}
	return own.addKeywords(flat)
}

// addUnion adds the one schema of a union that remains beside null, the constants of a union as a
// list to choose from, or a union within one type as it is.
func (n *normalizer) addUnion(own *members, union member, depth int) error {
	if own.valueOf("enum") != nil { // it has the values already
		return own.addKeywords(members{union})
	}
	var branches []members
	nulls := false
	err := jsonx.Elements(union.value, func(_ int, value []byte) error {
		branch, err := n.flattenSchema(value, depth)
		if branch.textOf("type") == "null" {
			nulls = true
		} else {
			branches = append(branches, branch)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case len(branches) == 0:
		return fmt.Errorf("%s allows no value but null", union.key)
	case len(branches) == 1 && (nulls || !branches[0].isOption()):
		return own.addKeywords(branches[0])
	}
	typ, err := commonType(union.key, branches)
	if err != nil {
		return err
	}
	added := members{{"type", jsonx.AppendText(nil, typ)}}
	if slices.ContainsFunc(branches, func(b members) bool { return !b.isOption() }) {
		encoded := [][]byte{}
		for _, branch := range branches {
			encoded = append(encoded, branch.encode())
		}
		added.setValue(union.key, encodeList(encoded))
	} else {
		added = append(added, readOptions(typ, branches)...)
	}
	return own.addKeywords(added)
}

// commonType returns the one type of which all branches of a union are.
func commonType(keyword string, branches []members) (string, error) {
	var types []string
	for _, branch := range branches {
		types = append(types, cmp.Or(branch.textOf("type"), "any value"))
	}
	typ, ok := onlyType(types)
	if !ok || typ == "array" || typ == "object" || typ == "any value" {
		slices.Sort(types)
		return "", fmt.Errorf("has more than one reading: %s of %s", keyword,
			errtext.Mark(strings.Join(slices.Compact(types), ", "), 64))
	}
	return typ, nil
}

// onlyType returns the one type of a list. An integer is a number.
func onlyType(types []string) (string, bool) {
	only := types[0]
	for _, typ := range types {
		switch {
		case typ == only || only == "number" && typ == "integer":
		case only == "integer" && typ == "number":
			only = typ
		default:
			return "", false
		}
	}
	return only, true
}

// optionKeywords are those that a constant may have beside its value.
var optionKeywords = [...]string{"type", "title", "description", "const", "enum", "default",
	"deprecated", "examples", "$comment"}

// isOption reports whether a schema is nothing but a constant, or some.
func (m members) isOption() bool {
	return (m.valueOf("enum") != nil) != (m.valueOf("const") != nil) &&
		!slices.ContainsFunc(m, func(k member) bool {
			return !slices.Contains(optionKeywords[:], k.key)
		})
}

// readOptions returns the keywords of a list to choose from. Numbers have no titles in the grammar:
// explainRules puts theirs into the description.
func readOptions(typ string, branches []members) members {
	var values, names, titled [][]byte
	hasTitles := false
	for _, branch := range branches {
		list := [][]byte{branch.valueOf("const")}
		if enum := branch.valueOf("enum"); enum != nil {
			list = nil
			walkElements(enum, func(value []byte) { list = append(list, value) })
		}
		title := branch.textOf("title")
		hasTitles = hasTitles || len(list) == 1 && title != ""
		for _, value := range list {
			values = append(values, value)
			if len(list) != 1 || title == "" {
				title, _ = jsonx.Text(value)
			}
			option := members{{"const", value}, {"title", jsonx.AppendText(nil, title)}}
			titled = append(titled, option.encode())
			names = append(names, jsonx.AppendText(nil, title))
		}
	}
	switch {
	case !hasTitles:
		return members{{"enum", encodeList(values)}}
	case typ == "string":
		return members{{"oneOf", encodeList(titled)}}
	}
	return members{{"enum", encodeList(values)}, {"enumNames", encodeList(names)}}
}

// normalizeProperty returns the schema of one property.
func (n *normalizer) normalizeProperty(raw []byte) ([]byte, error) {
	m, err := n.flattenSchema(raw, 0)
	if err != nil {
		return nil, err
	}
	if m.valueOf("type") == nil { // any value: a text is one
		m.setText("type", cmp.Or(typeOf(m.valueOf("default")), "string"))
	}
	m.dropBrokenTexts()
	typ := m.textOf("type")
	if items := m.valueOf("items"); items != nil && typ == "array" {
		choices, err := n.flattenSchema(items, 1)
		if err != nil {
			return nil, withKeyword(err, "items")
		}
		if titled := choices.valueOf("oneOf"); titled != nil && choices.valueOf("enum") == nil &&
			choices.valueOf("anyOf") == nil {
			choices.dropKeyword("oneOf")
			choices.setValue("anyOf", titled)
		}
		m.setValue("items", choices.encode())
	}
	fallback := typeOf(m.valueOf("default"))
	if fallback != typ && !(fallback == "integer" && typ == "number") {
		m.dropKeyword("default")
	}
	m.explainRules(typ)
	return m.encode(), nil
}

// explainRules says in the description what the grammar has no keyword for.
func (m *members) explainRules(typ string) {
	notes := []string{}
	numeric := typ == "integer" || typ == "number"
	format := m.textOf("format")
	if typ == "string" && format != "" && !isFormat(format) && m.valueOf("enum") == nil &&
		m.valueOf("oneOf") == nil {
		// Clients refuse a format that the grammar does not have.
		rule := members{{"format", m.valueOf("format")}}
		m.dropKeyword("format")
		m.setValue("allOf", encodeList([][]byte{rule.encode()}))
		notes = append(notes, "format: "+errtext.Mark(format, 40))
	}
	for _, bound := range [...]struct{ exclusive, inclusive, words string }{
		{"exclusiveMinimum", "minimum", "more than "},
		{"exclusiveMaximum", "maximum", "less than "},
	} {
		raw := m.valueOf(bound.exclusive)
		if numeric && raw != nil {
			notes = append(notes, bound.words+errtext.Mark(string(raw), 40))
			if m.valueOf(bound.inclusive) == nil {
				m.setValue(bound.inclusive, raw)
			}
		}
	}
	if values := m.valueOf("enum"); numeric && values != nil {
		var list []string
		names, _ := parseTexts(m.valueOf("enumNames"))
		walkElements(values, func(value []byte) {
			if list = append(list, string(value)); len(list) <= len(names) {
				list[len(list)-1] += " " + names[len(list)-1]
			}
		})
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

// typeOf returns the type of a value in JSON Schema, "" for null and none.
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

// member is one keyword of a schema.
type member struct {
	key   string
	value []byte
}

// members are the keywords of a schema, in order.
type members []member

// valueKeywords say which values there are. Null there is not the same as no keyword: it would make
// any text of a choice, and another value of a field that is left empty.
var valueKeywords = [...]string{"const", "enum", "allOf", "anyOf", "oneOf", "items", "default"}

// readMembers returns the members of an object without those that are null: some encoders write
// null for what is absent.
func readMembers(raw []byte) (m members) {
	walkMembers(raw, func(key string, value []byte) {
		if jsonx.KindOf(value) != jsonx.Null || slices.Contains(valueKeywords[:], key) {
			m = append(m, member{key, value})
		}
	})
	return m
}

func (m members) indexOf(key string) int {
	return slices.IndexFunc(m, func(k member) bool { return k.key == key })
}

// valueOf returns the value of a keyword, nil for none.
func (m members) valueOf(key string) []byte {
	if i := m.indexOf(key); i >= 0 {
		return m[i].value
	}
	return nil
}

func (m members) textOf(key string) string {
	s, _ := jsonx.Text(m.valueOf(key))
	return s
}

func (m *members) setValue(key string, value []byte) {
	if i := m.indexOf(key); i >= 0 {
		(*m)[i].value = value
		return
	}
	*m = append(*m, member{key, value})
}

func (m *members) setText(key, value string) { m.setValue(key, jsonx.AppendText(nil, value)) }

func (m *members) dropKeyword(key string) {
	*m = slices.DeleteFunc(*m, func(k member) bool { return k.key == key })
}

// dropBrokenTexts drops what is shown where it is no text.
func (m *members) dropBrokenTexts() {
	for _, key := range []string{"title", "description"} {
		if jsonx.KindOf(m.valueOf(key)) != jsonx.String {
			m.dropKeyword(key)
		}
	}
}

func (m members) encode() []byte {
	b := []byte{'{'}
	for _, k := range m {
		b = appendRaw(b, k.key, k.value)
	}
	return append(b, '}')
}

func encodeList(values [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(values, []byte{','})...), ']')
}

// annotations are the keywords that restrict nothing: what stands nearer to the property counts.
var annotations = [...]string{"title", "description", "default", "examples", "deprecated",
	"readOnly", "writeOnly", "$comment", "$id", "$schema"}

// addKeywords adds the keywords of a schema that has to hold, too.
func (m *members) addKeywords(other members) error {
	for _, k := range other {
		own := m.valueOf(k.key)
		switch {
		case own == nil:
			*m = append(*m, k)
		case slices.Contains(annotations[:], k.key) || bytes.Equal(own, k.value):
		case k.key == "type":
			a, b := m.textOf("type"), other.textOf("type")
			if _, ok := onlyType([]string{a, b}); !ok {
				return fmt.Errorf("is of type %s and of type %s at once", quote([]byte(a)),
					quote([]byte(b)))
			}
			m.setText("type", "integer") // the narrower of the two
		default:
			return fmt.Errorf("has the keyword %s twice, with different values",
				quote([]byte(k.key)))
		}
	}
	return nil
}

// settleType makes one name of a list of types.
func (m *members) settleType() error {
	raw := m.valueOf("type")
	if jsonx.KindOf(raw) != jsonx.Array {
		return nil
	}
	types, err := parseTexts(raw)
	if err != nil {
		return withKeyword(err, `"type"`)
	}
	types = slices.DeleteFunc(types, func(s string) bool { return s == "null" })
	if len(types) == 0 {
		types = []string{"null"}
	}
	only, ok := onlyType(types)
	if !ok {
		return fmt.Errorf("has more than one reading: type of %s",
			errtext.Mark(strings.Join(types, ", "), 64))
	}
	m.setText("type", only)
	return nil
}

// settleKeywords spells type, enum, const and bounds in one way, and finds the type out where it is
// not said.
func (m *members) settleKeywords() error {
	if err := m.settleType(); err != nil {
		return err
	}
	if enum := m.valueOf("enum"); jsonx.KindOf(enum) == jsonx.Array {
		var values [][]byte
		nulls := false
		walkElements(enum, func(value []byte) {
			if jsonx.KindOf(value) == jsonx.Null {
				nulls = true
			} else {
				values = append(values, value)
			}
		})
		if nulls {
			m.dropKeyword("enumNames") // which counted null
			m.setValue("enum", encodeList(values))
		}
		if nulls && len(values) == 0 {
			m.setText("type", "null")
		}
	}
	switch constant := m.valueOf("const"); {
	case constant == nil:
	case jsonx.KindOf(constant) == jsonx.Null:
		m.setText("type", "null")
	case jsonx.KindOf(constant) == jsonx.String && m.valueOf("enum") == nil:
		m.dropKeyword("const")
		m.setValue("enum", encodeList([][]byte{constant}))
	}
	for _, bound := range [...][2]string{
		{"exclusiveMinimum", "minimum"}, {"exclusiveMaximum", "maximum"},
	} {
		if raw := m.valueOf(bound[0]); jsonx.KindOf(raw) == jsonx.Bool { // as in draft 4
			m.dropKeyword(bound[0])
			if limit := m.valueOf(bound[1]); string(raw) == "true" && limit != nil {
				m.setValue(bound[0], limit)
			}
		}
	}
	if m.valueOf("type") != nil {
		return nil
	}
	typ, err := m.inferType()
	if typ != "" {
		m.setText("type", typ)
	}
	return err
}

// keywordTypes are the types that a keyword is for.
var keywordTypes = [...]struct {
	typ      string
	keywords []string
}{
	{"string", []string{"minLength", "maxLength", "pattern", "format"}},
	{"number", []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
		"multipleOf"}},
	{"array", []string{"items", "minItems", "maxItems", "prefixItems"}},
	{"object", []string{"properties"}},
}

// inferType returns the type that the values or keywords are of, "" if nothing tells.
func (m members) inferType() (string, error) {
	var types []string
	if constant := m.valueOf("const"); constant != nil {
		types = append(types, typeOf(constant))
	}
	walkElements(m.valueOf("enum"), func(value []byte) { types = append(types, typeOf(value)) })
	if len(types) == 0 {
		for _, k := range keywordTypes {
			if slices.ContainsFunc(k.keywords, func(s string) bool { return m.valueOf(s) != nil }) {
				types = append(types, k.typ)
			}
		}
	}
	if len(types) == 0 {
		return "", nil
	}
	typ, ok := onlyType(types)
	if !ok {
		slices.Sort(types)
		return "", fmt.Errorf("has more than one reading: values of type %s",
			strings.Join(slices.Compact(types), ", "))
	}
	return typ, nil
}

// dropUncheckable returns a schema without the patterns that cannot be compiled here, and without
// examples, which may be anything. Where a weaker schema takes less, it stays as it is.
func dropUncheckable(raw []byte) []byte {
	switch jsonx.KindOf(raw) {
	case jsonx.Array:
		values := [][]byte{}
		walkElements(raw, func(value []byte) { values = append(values, dropUncheckable(value)) })
		return encodeList(values)
	case jsonx.Object:
		m := readMembers(raw)
		m = slices.DeleteFunc(m, func(k member) bool {
			text, err := jsonx.Text(k.value)
			return k.key == "pattern" && err == nil && schema.CheckPattern(text) != nil ||
				k.key == "examples" && jsonx.KindOf(k.value) != jsonx.Object
		})
		for i, k := range m {
			if !slices.Contains([]string{"not", "if", "oneOf", "const", "enum"}, k.key) {
				m[i].value = dropUncheckable(k.value)
			}
		}
		return m.encode()
	}
	return raw
}
