package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
)

func TestParse(t *testing.T) {
	many := make([]string, 65)
	for i := range many {
		many[i] = fmt.Sprintf(`"p%d":{"type":"string","x-mcp-header":"P%d"}`, i, i)
	}
	tests := []struct {
		name   string
		schema string
		want   string // name=path:type, space-separated
		err    string // part of the error; may be empty
	}{
		{"none", `{"type":"object","properties":{"a":{"type":"string"}}}`, "", ""},
		{"one", `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`, "Region=region:string", ""},
		{"escaped keyword", `{"properties":{"region":{"type":"string","x-mcp-head\u0065r":"Region"}}}`, "Region=region:string", ""},
		{"nested", `{"properties":{"a":{"type":"object","properties":{"b":{"type":"integer","x-mcp-header":"B"}}}}}`, "B=a.b:integer", ""},
		{"property of that name", `{"properties":{"x-mcp-header":{"type":"string"}}}`, "", ""},
		{"in data", `{"properties":{"a":{"const":{"x-mcp-header":1},"default":{"x-mcp-header":""},"enum":[{"x-mcp-header":2}]}}}`, "", ""},
		{"empty", `{"properties":{"a":{"type":"string","x-mcp-header":""}}}`, "", "a: must be a header name"},
		{"not a string", `{"properties":{"a":{"type":"string","x-mcp-header":{}}}}`, "", "a: must be a string"},
		{"null", `{"properties":{"a":{"type":"string","x-mcp-header":null}}}`, "", "a: must be a string"},
		{"space", `{"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}`, "", "must be a header name"},
		{"colon", `{"properties":{"a":{"type":"string","x-mcp-header":"a:b"}}}`, "", "must be a header name"},
		{"control", `{"properties":{"a":{"type":"string","x-mcp-header":"a\r\nb"}}}`, "", "must be a header name"},
		{"not ASCII", `{"properties":{"a":{"type":"string","x-mcp-header":"é"}}}`, "", "must be a header name"},
		{"number", `{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`, "", "only a string, integer or boolean"},
		{"object", `{"properties":{"a":{"type":"object","x-mcp-header":"A"}}}`, "", "only a string, integer or boolean"},
		{"type list", `{"properties":{"a":{"type":["string"],"x-mcp-header":"A"}}}`, "", "only a string, integer or boolean"},
		{"twice", `{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`, "", "used twice"},
		{"root", `{"type":"string","x-mcp-header":"A"}`, "", "not a chain of properties"},
		{"items", `{"properties":{"a":{"items":{"type":"string","x-mcp-header":"A"}}}}`, "", "not a chain of properties"},
		{"anyOf", `{"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}`, "", "not a chain of properties"},
		{"if", `{"if":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}`, "", "not a chain of properties"},
		{"$defs", `{"$defs":{"d":{"type":"string","x-mcp-header":"A"}},"properties":{"a":{"$ref":"#/$defs/d"}}}`, "", "not a chain of properties"},
		{"too many", `{"properties":{` + strings.Join(many, ",") + `}}`, "", "more than 64"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			table, err := rules.ParseMirrors([]byte(test.schema))
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("got error %v, want one with %q", err, test.err)
				}
				return
			}
			noError(t, err)
			var got []string
			for _, p := range table {
				got = append(got, p.Name+"="+strings.Join(p.Path, ".")+":"+p.Type)
			}
			if got := strings.Join(got, " "); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestValuesAndCheck(t *testing.T) {
	table, err := rules.ParseMirrors([]byte(`{"properties":{
		"s":{"type":"string","x-mcp-header":"S"},
		"i":{"type":"integer","x-mcp-header":"I"},
		"b":{"type":"boolean","x-mcp-header":"B"},
		"o":{"properties":{"deep":{"type":"string","x-mcp-header":"Deep"}}}}}`))
	noError(t, err)
	tests := []struct {
		name, arguments, want, err string
	}{
		{"all", `{"s":"x","i":42,"b":true,"o":{"deep":"y"}}`, "S=x I=42 B=true Deep=y", ""},
		{"none", `{}`, "", ""},
		{"absent", ``, "", ""},
		{"nulls", `{"s":null,"i":null,"b":null,"o":null}`, "", ""},
		{"empty string", `{"s":""}`, "S=", ""},
		{"whole float", `{"i":42.0}`, "I=42", ""},
		{"fraction", `{"i":4.5}`, "", ""},
		{"exponent", `{"i":4.2e1}`, "I=42", ""},
		{"minus zero", `{"i":-0}`, "I=0", ""},
		{"fraction beyond floats", `{"i":5.0000000000000000001}`, "", ""},
		{"hostile exponent", `{"i":1e999999999}`, "", ""},
		{"unsafe exponent", `{"i":1e30}`, "", "2^53-1"},
		{"wrong types", `{"s":1,"i":"1","b":"true","o":[]}`, "", ""},
		{"largest safe", `{"i":9007199254740991}`, "I=9007199254740991", ""},
		{"unsafe", `{"i":9007199254740992}`, "", "2^53-1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			values, err := table.Values([]byte(test.arguments))
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("got error %v, want one with %q", err, test.err)
				}
				return
			}
			noError(t, err)
			var got []string
			lines := map[string][]string{}
			for _, v := range values {
				got = append(got, v.Name+"="+v.Value)
				lines[rules.ParamPrefix+v.Name] = []string{rules.EncodeValue(v.Value)}
			}
			if got := strings.Join(got, " "); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if err := table.Check([]byte(test.arguments),
				func(name string) []string { return lines[name] }); err != nil {
				t.Errorf("own headers refused: %v", err)
			}
		})
	}
}

func TestCheckRefuses(t *testing.T) {
	table, err := rules.ParseMirrors([]byte(`{"properties":{"s":{"type":"string","x-mcp-header":"S"},"i":{"type":"integer","x-mcp-header":"I"}}}`))
	noError(t, err)
	tests := []struct {
		name, arguments string
		s, i            []string
		err             string // empty if accepted
	}{
		{"equal", `{"s":"Hello"}`, []string{"Hello"}, nil, ""},
		{"base64", `{"s":"Hello"}`, []string{"=?base64?SGVsbG8=?="}, nil, ""},
		{"literal without suffix",
			`{"s":"=?base64?SGVsbG8="}`, []string{"=?base64?SGVsbG8="}, nil, ""},
		{"surrounding space", `{"s":"Hello"}`, []string{" Hello\t"}, nil, ""},
		{"numerically equal", `{"i":42}`, nil, []string{"42.0"}, ""},
		{"differs", `{"s":"Hello"}`, []string{"hello"}, nil, "does not match"},
		{"missing", `{"s":"Hello"}`, nil, nil, "header Mcp-Param-S is missing"},
		{"not in body", `{}`, []string{"Hello"}, nil, "no such argument"},
		{"null in body", `{"s":null}`, []string{"null"}, nil, "no such argument"},
		{"twice", `{"s":"a"}`, []string{"a", "a"}, nil, "more than once"},
		{"bad padding", `{"s":"Hello"}`, []string{"=?base64?SGVsbG8?="}, nil, "invalid base64"},
		{"bad characters",
			`{"s":"Hello"}`, []string{"=?base64?SGVs!!!bG8=?="}, nil, "invalid base64"},
		{"other integer", `{"i":42}`, nil, []string{"43"}, "does not match"},
		{"numerically equal, negative", `{"i":-42}`, nil, []string{"-42.0"}, ""},
		{"not an integer", `{"i":42}`, nil, []string{"x"}, "as JSON spells it"},
		{"plus", `{"i":1}`, nil, []string{"+1"}, "as JSON spells it"},
		{"leading zero", `{"i":1}`, nil, []string{"01"}, "as JSON spells it"},
		{"negative leading zero", `{"i":-1}`, nil, []string{"-01"}, "as JSON spells it"},
		{"bare point", `{"i":1}`, nil, []string{"1."}, "as JSON spells it"},
		{"fraction", `{"i":1}`, nil, []string{"2/2"}, "as JSON spells it"},
		{"hexadecimal", `{"i":16}`, nil, []string{"0x10"}, "as JSON spells it"},
		{"underscore", `{"i":10}`, nil, []string{"1_0"}, "as JSON spells it"},
		{"space within base64", `{"i":1}`, nil, []string{"=?base64?IDE=?="}, "as JSON spells it"},
		{"text", `{"i":1}`, nil, []string{`"1"`}, "as JSON spells it"},
		{"nothing", `{"i":1}`, nil, []string{""}, "as JSON spells it"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := table.Check([]byte(test.arguments), func(name string) []string {
				return map[string][]string{"Mcp-Param-S": test.s, "Mcp-Param-I": test.i}[name]
			})
			if (err == nil) != (test.err == "") ||
				(err != nil && !strings.Contains(err.Error(), test.err)) {
				t.Errorf("got %v, want an error with %q", err, test.err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"properties":{"s":{"type":"string","x-mcp-header":"S"}}}`), []byte(`{"s":"x"}`))
	f.Fuzz(func(t *testing.T, schema, arguments []byte) {
		table, err := rules.ParseMirrors(schema)
		// invalid input has no headers
		if err != nil || len(arguments) > 0 && jsonx.Check(arguments) != nil {
			return
		}
		values, err := table.Values(arguments)
		if err != nil {
			return
		}
		lines := map[string][]string{}
		for _, v := range values {
			lines[rules.ParamPrefix+v.Name] = []string{rules.EncodeValue(v.Value)}
		}
		if err := table.Check(arguments,
			func(name string) []string { return lines[name] }); err != nil {
			t.Errorf("own headers refused: %v", err)
		}
	})
}
