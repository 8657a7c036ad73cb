package fields_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/forms/fields"
	"github.com/rondo-mcp/rondo/internal/forms/schema"
)

func read[T any](tag string) (fields.Tags, error) {
	owner := reflect.TypeFor[struct{ Field T }]()
	field := owner.Field(0)
	field.Tag = reflect.StructTag(tag)
	return fields.Read(owner, field)
}

// Tags of other libraries must not keep a program from starting.
func TestTagsOfOtherLibrariesAreLeftAlone(t *testing.T) {
	for _, key := range []string{
		"json", "yaml", "xml", "toml", "bson", "csv", "msgpack", "cbor", "protobuf", "avro",
		"parquet", "asn1", "plist", "ini", "hcl", "koanf", "cty", "tfsdk",
		"db", "sql", "gorm", "bun", "pg", "xorm", "ent", "orm", "boil", "goqu", "dynamodbav",
		"datastore", "firestore", "spanner", "bigquery", "redis", "ldap",
		"validate", "valid", "binding", "mod", "conform", "sanitize", "v", "vd",
		"form", "uri", "url", "header", "query", "param", "path", "schema", "in", "cookie",
		"jsonapi", "graphql", "swaggertype", "swaggerignore", "extensions",
		"env", "envconfig", "envDefault", "envPrefix", "envSeparator", "envExpand", "split_words",
		"ignored", "desc", "conf", "config", "mapstructure", "structs", "copier", "deepcopier",
		"flag", "help", "short", "long", "name", "label", "usage", "arg", "cmd", "kong",
		"placeholder", "group", "hidden", "negatable", "sep", "alias", "aliases", "optional",
		"type", "choice",
		"example", "doc", "id", "properties", "secret", "mask", "log", "faker", "fake", "diff",
		"hash", "readonly", "nullable", "unique", "index", "order", "size", "len", "length",
		"jsonschema_description", "jsonschema_extras", "description_id", "locationName", "num",
		"text", "date",
	} {
		if _, err := read[int](key + `:"x,y=z"`); err != nil {
			t.Errorf("tag %s: %v", key, err)
		}
	}
	for _, tag := range []string{"", " ", "`raw`", "name,omitempty", `json:"a"  yaml:"b" `,
		`@Ident @@*`} {
		if _, err := read[int](tag); err != nil {
			t.Errorf("tag %q: %v", tag, err)
		}
	}
}

func TestMistakenTagsAreRefused(t *testing.T) {
	for _, tt := range []struct{ tag, want string }{
		{`minumum:"1"`, "minimum"}, {`minimun:"1"`, "minimum"}, {`maximim:"1"`, "maximum"},
		{`Maximum:"1"`, "maximum"}, {`MINIMUM:"1"`, "minimum"}, {`mnimum:"1"`, "minimum"},
		{`minlength:"1"`, "minLength"}, {`min_length:"1"`, "minLength"},
		{`maxLenght:"1"`, "maxLength"}, {`minItem:"1"`, "minItems"},
		{`formt:"email"`, "format"}, {`fromat:"email"`, "format"}, {`enums:"a"`, "enum"},
		{`Enum:"a"`, "enum"}, {`enumTitle:"a"`, "enumTitles"}, {`enum_titles:"a"`, "enumTitles"},
		{`titel:"a"`, "title"}, {`defualt:"1"`, "default"}, {`defaults:"1"`, "default"},
		{`json_schema:"a"`, "jsonschema"}, {`jsonSchema:"a"`, "jsonschema"},
		{`min:"1"`, "minimum"}, {`max:"1"`, "maximum"}, {`minLen:"1"`, "minLength"},
		{`maximumLength:"1"`, "maxLength"}, {`minimumLength:"1"`, "minLength"},
		{`description:"a"`, "jsonschema"}, {`enumNames:"a"`, "enumTitles"}, {`oneOf:"a,b"`, "enum"},
		{`const:"a"`, "enum"}, {`required:"true"`, "omitempty"},
		{`pattern:"^a$"`, "InputSchema"}, {`multipleOf:"2"`, "InputSchema"},
		{`exclusiveMinimum:"0"`, "InputSchema"}, {`uniqueItems:"true"`, "InputSchema"},
		{`readOnly:"true"`, "InputSchema"},
		{`examples:"a"`, "description"},
		{`json:"a" validate:"required" pattern:"x"`, "pattern"},
		{`minimum:"1" minimum:"2"`, "twice"},
		{`minimum:5`, "key"}, {`json:"a" minimum: "5"`, "key"}, {`json:"a",minimum:"5"`, "minimum"},
		{`json:"a" minumum:5`, "key"},
	} {
		t.Run(tt.tag, func(t *testing.T) {
			_, err := read[int](tt.tag)
			if err == nil {
				t.Errorf("%s is accepted", tt.tag)
				return
			}
			said := err.Error()
			for _, want := range []string{tt.want, "struct { Field int }.Field"} {
				if !strings.Contains(said, want) {
					t.Errorf("%s: error lacks %q: %s", tt.tag, want, said)
				}
			}
		})
	}
}

// Keywords in the jsonschema tags of other libraries would be read as the form's text.
func TestDescriptionsAreTexts(t *testing.T) {
	for _, text := range []string{
		"required", "-", "title=Name", "minimum=1", "required,minimum=1", "what to buy,minLength=2",
		"type=string", "a=b", "the name, pattern=^a$", "x,enum=a,enum=b", "required,title=x",
	} {
		if _, err := read[string](`jsonschema:"` + text + `"`); err == nil ||
			!strings.Contains(err.Error(), "jsonschema") {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"why now?", "a filter, such as a=b", "the rows where x = y",
		"required, if there is a card", "title and name", "a query, limit=10 at most",
		"ask for type = 2"} {
		tags, err := read[string](`jsonschema:"` + text + `"`)
		if err != nil || tags.Description != text {
			t.Errorf("%q: %q, %v", text, tags.Description, err)
		}
	}
}

func TestSenselessTagsAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		read func(tag string) (fields.Tags, error)
		tags []string
	}{
		{"string", read[string], []string{
			`format:"bananas"`, `format:""`, `format:"idn-email"`, `format:"regex"`,
			`minLength:"2" maxLength:"1"`, `minLength:"-1"`, `minLength:"1.5"`, `minLength:"one"`,
			`maxLength:"2147483648"`,
			`enum:""`, `enum:"a,"`, `enum:"a,,b"`, `enum:"a,b,a"`, `enumTitles:"A"`,
			`enum:"a,b" enumTitles:"A"`, `enum:"a,b" enumTitles:"A,"`, `enum:"a" minLength:"1"`,
			`enum:"a" format:"email"`,
			`minimum:"1"`, `maximum:"1"`, `minItems:"1"`, "title:\"\\xff\"", `jsonschema:""`,
		}},
		{"int8", read[int8],
			[]string{`maximum:"1000"`, `maximum:"128"`, `minimum:"-129"`, `minimum:"1000"`,
				`minimum:"2" maximum:"1"`, `minimum:"0.5"`, `minimum:"one"`, `minimum:"+1"`,
				`minimum:"01"`, `minimum:" 1"`, `minimum:"0x1"`, `minimum:"NaN"`,
				`minimum:"1e99999999"`, `minimum:""`, `format:"date"`, `enum:"1,2"`, `default:"x"`,
				`default:"1.5"`, `minLength:"1"`}},
		{"uint", read[uint], []string{`minimum:"-1"`, `maximum:"18446744073709551616"`}},
		{"int64", read[int64],
			[]string{`maximum:"9223372036854775808"`, `minimum:"-9223372036854775809"`}},
		{"float64", read[float64], []string{`maximum:"9007199254740993"`, `maximum:"1e400"`,
			`minimum:".5"`, `minimum:"Inf"`}},
		{"float32", read[float32], []string{`maximum:"16777217"`, `maximum:"1e39"`}},
		{"bool", read[bool], []string{`default:"yes"`, `minimum:"1"`, `enum:"true"`}},
		{"time", read[time.Time], []string{`format:"date"`, `enum:"now"`, `minimum:"1"`}},
		{"[]string", read[[]string], []string{`minItems:"2" maxItems:"1"`, `minLength:"1"`,
			`format:"email"`, `minimum:"1"`, `enum:"a,a"`}},
		{"[]int", read[[]int], []string{`enum:"1"`, `default:"1"`, `maxLength:"1"`}},
		{"[3]string", read[[3]string], []string{`minItems:"4"`, `maxItems:"2"`}},
		{"[]byte", read[[]byte], []string{`minLength:"1"`, `minItems:"1"`, `enum:"a"`}},
		{"map", read[map[string]int], []string{`minimum:"1"`, `default:"{}"`, `minItems:"1"`}},
		{"struct", read[struct{}], []string{`minimum:"1"`, `format:"date"`}},
		{"any", read[any], []string{`minimum:"1"`, `enum:"a"`}},
		{"*int8", read[*int8], []string{`maximum:"1000"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, tag := range tt.tags {
				_, err := tt.read(tag)
				if err == nil {
					t.Errorf("%s with %s is accepted", tt.name, tag)
				} else if key, _, _ := strings.Cut(tag, ":"); !strings.Contains(err.Error(),
					".Field: tag ") || !strings.Contains(err.Error(), key[:3]) {
					t.Errorf("%s with %s: error names no tag: %v", tt.name, tag, err)
				}
			}
		})
	}
}

func TestBoundsAreExact(t *testing.T) {
	for _, tt := range []struct {
		name string
		read func(tag string) (fields.Tags, error)
		text string
	}{
		{"int64 over 2^53", read[int64], "9007199254740993"},
		{"largest uint64", read[uint64], "18446744073709551615"},
		{"largest int64", read[int64], "9223372036854775807"},
		{"int with an exponent", read[int], "1e3"},
		{"largest int8", read[int8], "127"},
		{"largest uint8", read[uint8], "255"},
		{"float64 of 2^53", read[float64], "9007199254740992"},
		{"float64 of 2^63", read[float64], "9223372036854775808"},
		{"float64 fraction", read[float64], "0.1"},
		{"large float64", read[float64], "1e300"},
		{"float32 of 2^24", read[float32], "16777216"},
		{"float32 fraction", read[float32], "0.1"},
		{"pointer", read[*int], "7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tags, err := tt.read(`maximum:"` + tt.text + `"`)
			if err != nil || string(*tags.Maximum) != tt.text {
				t.Errorf("%s: %v, %v", tt.text, tags.Maximum, err)
			}
		})
	}
}

// An unchecked format would not be enforced.
func TestListedFormatsHold(t *testing.T) {
	for _, format := range []string{
		"email", "uri", "date", "date-time", "time", "duration", "uuid", "hostname", "ipv4", "ipv6",
		"uri-reference", "uri-template", "iri", "iri-reference", "json-pointer",
		"relative-json-pointer",
	} {
		if !fields.IsFormat(format) {
			t.Errorf("%s is refused", format)
		}
		s, err := schema.Compile(fmt.Appendf(nil, `{"type":"string","format":%q}`, format),
			schema.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if s.Validate([]byte(`"%zz {~"`)) == nil {
			t.Errorf("%s is not checked", format)
		}
	}
	for _, format := range []string{"", "bananas", "Email", "password", "int32", "idn-hostname",
		"regex"} {
		if fields.IsFormat(format) {
			t.Errorf("%q is accepted", format)
		}
	}
}

type inner struct {
	Deep int `json:"deep" minumum:"1"`
}

type Embedded struct {
	A int `json:"a"`
}

func TestMistakesAreFoundWhereverTheyAre(t *testing.T) {
	type cycle struct {
		Next *struct {
			Loop []map[string]*inner
		}
	}
	type self struct {
		Self *self `json:"self"`
		Bad  int   `json:"bad" min:"1"`
	}
	type unexported struct{ inner }
	type embeds struct {
		Embedded `title:"lost"`
	}
	for _, tt := range []struct {
		of   reflect.Type
		want string
	}{
		{reflect.TypeFor[inner](), "inner.Deep"}, {reflect.TypeFor[*[]inner](), "inner.Deep"},
		{reflect.TypeFor[cycle](), "inner.Deep"},
		{reflect.TypeFor[self](), "self.Bad"}, {reflect.TypeFor[unexported](), "inner.Deep"},
		{reflect.TypeFor[embeds](), "embedded"},
	} {
		t.Run(tt.of.String(), func(t *testing.T) {
			if err := fields.CheckType(tt.of); err == nil ||
				!strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v: %v", tt.of, err)
			}
		})
	}
	type leftOut struct {
		Out    inner `json:"-"`
		hidden inner
	}
	_ = leftOut{}.hidden
	for _, of := range []reflect.Type{reflect.TypeFor[leftOut](), reflect.TypeFor[any](),
		reflect.TypeFor[map[string]int](), reflect.TypeFor[time.Time]()} {
		if err := fields.CheckType(of); err != nil {
			t.Errorf("%v: %v", of, err)
		}
	}
}

func TestMembersAreThoseOfEncodingJSON(t *testing.T) {
	type Named struct {
		B int `json:"b"`
	}
	type Text string
	type outer struct {
		Embedded
		Named `json:"named"`
		Text
		Z   string `json:"a,omitempty"`
		Out int    `json:"-"`
	}
	var got []string
	for _, m := range fields.Members(reflect.TypeFor[outer]()) {
		got = append(got, m.Name+" "+m.Field.Type.String())
	}
	want := "a string,named fields_test.Named,Text fields_test.Text"
	if strings.Join(got, ",") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func FuzzRead(f *testing.F) {
	for _, tag := range []string{`minimum:"1" maximum:"2"`, `json:"a" enum:"a,b" enumTitles:"A,B" default:"a"`, `format:"email" minLength:"1"`, `jsonschema:"title=x"`, `minimum: "5`} {
		f.Add(tag)
	}
	f.Fuzz(func(t *testing.T, tag string) {
		for _, read := range []func(string) (fields.Tags, error){read[string], read[int8],
			read[float64], read[[]string], read[bool]} {
			tags, err := read(tag)
			if err != nil {
				continue
			}
			for _, value := range tags.Values {
				if value == "" {
					t.Errorf("%q: an empty choice", tag)
				}
			}
			if tags.Titles != nil && len(tags.Titles) != len(tags.Values) {
				t.Errorf("%q: %d titles for %d values", tag, len(tags.Titles), len(tags.Values))
			}
			if tags.Minimum != nil && tags.Maximum != nil &&
				tags.Minimum.Compare(*tags.Maximum) > 0 {
				t.Errorf("%q: minimum above maximum", tag)
			}
		}
	})
}
