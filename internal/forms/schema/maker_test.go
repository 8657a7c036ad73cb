package schema_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// A maker makes schemas of a draft, and related documents from few names and values.
type maker struct {
	*rand.Rand
	draft int
}

var dialects = map[int]string{
	4: "http://json-schema.org/draft-04/schema#", 6: "http://json-schema.org/draft-06/schema#",
	7:    "http://json-schema.org/draft-07/schema#",
	2019: "https://json-schema.org/draft/2019-09/schema",
	2020: "https://json-schema.org/draft/2020-12/schema",
}

func makers(seed uint64) []maker {
	var list []maker
	for _, draft := range slices.Sorted(maps.Keys(dialects)) {
		list = append(list, maker{rand.New(rand.NewPCG(seed, uint64(draft))), draft})
	}
	return list
}

func (m maker) pick(from ...string) string { return from[m.IntN(len(from))] }

// The method set joins one to three distinct texts.
func (m maker) set(text func() string) string {
	texts := map[string]bool{}
	for range m.IntN(3) + 1 {
		texts[text()] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(texts)), ",")
}

func (m maker) name() string {
	return strconv.Quote(m.pick("a", "b", "c", "ab", "x", "é", "a/b", "0"))
}

func (m maker) names() string { return "[" + m.set(m.name) + "]" }

func (m maker) number() string {
	return m.pick("0", "1", "2", "3", "1.0", "-1", "0.5", "1.5", "2.50", "0.1", "1e0", "10e-1",
		"1e3", "1e-3", "-0", "9007199254740993",
		"123456789012345678", "1234567890123456789", "-9223372036854775808", "9223372036854775807",
		"18446744073709551615")
}

func (m maker) count() string { return m.pick("0", "1", "2") }

func (m maker) doc(depth int) string {
	if depth > 0 && m.IntN(2) == 0 {
		var parts []string
		if m.IntN(2) == 0 {
			for range m.IntN(4) {
				parts = append(parts, m.doc(depth-1))
			}
			return "[" + strings.Join(parts, ", ") + "]"
		}
		names := m.names()
		for name := range strings.SplitSeq(names[1:len(names)-1], ",") {
			parts = append(parts,
				strings.Replace(name, "a", m.pick("a", "a", `\u0061`), 1)+" :"+m.doc(depth-1))
		}
		return m.pick("{}", "{"+strings.Join(parts, ",")+"}", "{"+strings.Join(parts, ",")+"}")
	}
	return m.pick(m.number(), m.number(), `"a"`, `"b"`, `""`, `"é"`, `"\u00e9\n"`, `"1"`,
		`"2026-01-01"`, `"a@b.c"`, `"1.2.3.4"`, `"^a$"`, `"[a"`, `"/a~1"`,
		"true", "false", "null", "1e401")
}

// The method value returns doc without values not allowed in a schema.
func (m maker) value(depth int) string { return strings.ReplaceAll(m.doc(depth), "1e401", "1e300") }

func (m maker) subschema(depth int) string {
	always, never := "true", "false"
	if m.draft == 4 {
		always, never = "{}", `{"not":{}}`
	}
	switch {
	case depth > 0 && m.IntN(12) > 0:
		return m.schema(depth)
	case m.IntN(2) == 0:
		return m.pick(always, never)
	}
	return m.pick(`{"type":"string"}`, `{"type":"integer"}`, `{"enum":[1,"a"]}`, `{"minimum":1}`,
		`{"required":["a"]}`, `{"$ref":"`+m.target()+`"}`)
}

func (m maker) target() string { return m.pick("#", "#/$defs/d", "#/$defs/e", "#/$defs/f") }

func (m maker) list(depth int) string {
	list := []string{m.subschema(depth)}
	for range m.IntN(3) {
		list = append(list, m.subschema(depth))
	}
	return "[" + strings.Join(list, ",") + "]"
}

func (m maker) byName(depth int) string {
	names := m.names()
	var members []string
	for name := range strings.SplitSeq(names[1:len(names)-1], ",") {
		members = append(members, name+":"+m.subschema(depth))
	}
	return "{" + strings.Join(members, ",") + "}"
}

// schema makes an object; a draft ignores unknown keywords.
func (m maker) schema(depth int) string {
	keywords := m.plain()
	if depth > 0 {
		keywords = append(keywords, m.nested(depth-1)...)
	}
	return "{" + strings.Join(keywords, ",") + "}"
}

// adder returns a list, and a function that adds a keyword with a chance of one in chance.
func (m maker) adder() (keywords *[]string, add func(chance int, keyword, value string)) {
	keywords = &[]string{}
	return keywords, func(chance int, keyword, value string) {
		if m.IntN(chance) == 0 {
			*keywords = append(*keywords, strconv.Quote(keyword)+":"+value)
		}
	}
}

// The method plain makes keywords without schemas.
func (m maker) plain() []string {
	keywords, add := m.adder()
	add(3, "type", m.pick(`"string"`, `"integer"`, `"number"`, `"boolean"`, `"object"`, `"object"`,
		`"array"`, `"null"`, `["string","null"]`, `["integer","object"]`,
		`["array","object"]`, `["integer","number","string"]`,
		`["object","array","integer","string"]`))
	add(14, "enum",
		"["+m.set(func() string {
			return m.pick(`"a"`, `"1"`, `{}`, "[1, 1.0]", "1", "null", "true", "1.50", m.value(2))
		})+"]")
	add(24, "const", m.value(2))
	add(16, "minLength", m.count())
	add(16, "maxLength", m.count())
	add(16, "pattern", m.pick(`"a"`, `"^é?$"`, `"^.$"`))
	add(16, "format", m.pick(`"date"`, `"email"`, `"ipv4"`, `"regex"`, `"json-pointer"`, `"uri"`,
		`"date-time"`, `"uuid"`, `"hostname"`, `"unheard-of"`))
	if m.draft == 4 {
		add(8, "minimum",
			m.number()+m.pick("", `,"exclusiveMinimum":true`, `,"exclusiveMinimum":false`))
		add(8, "maximum",
			m.number()+m.pick("", `,"exclusiveMaximum":true`, `,"exclusiveMaximum":false`))
	} else {
		add(12, "minimum", m.number())
		add(12, "maximum", m.number())
		add(16, "exclusiveMinimum", m.number())
		add(16, "exclusiveMaximum", m.number())
	}
	add(18, "multipleOf", m.pick("1", "2", "0.5", "0.1", "1e-2", "1.0", "3", "9223372036854775807"))
	add(6, "required", m.names())
	add(16, "minProperties", m.count())
	add(16, "maxProperties", m.count())
	add(16, "minItems", m.count())
	add(16, "maxItems", m.count())
	add(10, "uniqueItems", m.pick("true", "true", "false"))
	add(18, "dependentRequired", `{"a":`+m.names()+`}`)
	add(30, "contentEncoding", `"base64"`)
	add(9, "description", `"a"`)
	return *keywords
}

// The method nested makes keywords with schemas.
func (m maker) nested(depth int) []string {
	keywords, add := m.adder()
	sub := func() string { return m.subschema(depth) }
	add(3, "properties", m.byName(depth))
	add(9, "patternProperties", `{"`+m.pick("a", "^.$", "b$", "é")+`":`+sub()+`}`)
	add(6, "additionalProperties", m.pick("true", "false", sub()))
	if m.draft < 2020 {
		add(4, "items", m.pick(sub(), m.list(depth)))
		add(9, "additionalItems", m.pick("true", "false", sub()))
	} else {
		add(4, "items", sub())
		add(8, "prefixItems", m.list(depth))
	}
	add(9, "allOf", m.list(depth))
	add(12, "anyOf", m.list(depth))
	add(14, "oneOf", m.list(depth))
	add(18, "not", sub())
	add(12, "$ref", strconv.Quote(m.target()))
	add(14, "contains",
		sub()+m.pick(``, `,"minContains":0`, `,"minContains":2`, `,"maxContains":1`,
			`,"minContains":1,"maxContains":2`))
	add(18, "propertyNames", sub())
	add(18, "dependencies", `{"a":`+m.pick(m.names(), sub())+`,"b":`+m.pick(m.names(), sub())+`}`)
	add(18, "dependentSchemas", m.byName(depth))
	add(9, "if",
		sub()+m.pick(`,"then":`+sub(), `,"else":`+sub(), `,"then":`+sub()+`,"else":`+sub()))
	add(10, "unevaluatedProperties", m.pick("true", "false", "false", sub()))
	add(10, "unevaluatedItems", m.pick("true", "false", "false", sub()))
	return *keywords
}

// root makes a whole schema, whose definitions refer to each other and to the root, also in cycles.
func (m maker) root() string {
	head := fmt.Sprintf(`{"$schema":%q,"$defs":{"d":%s,"e":%s,"f":%s}`, dialects[m.draft], m.schema(1), m.schema(2), m.schema(0))
	rest := m.schema(2)
	if rest == "{}" {
		return head + rest[1:]
	}
	return head + "," + rest[1:]
}
