package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// The type ruled decodes itself, from any text.
type ruled struct{ url.URL }

func (r *ruled) UnmarshalText(text []byte) error { return r.UnmarshalBinary(text) }

type booked struct {
	Name  string                `json:"name" minLength:"1"`
	Seats int8                  `json:"seats,omitempty"`
	Price float64               `json:"price,omitempty"`
	Paid  bool                  `json:"paid,omitempty"`
	When  time.Time             `json:"when,omitzero"`
	Photo []byte                `json:"photo,omitempty"`
	Tags  []string              `json:"tags,omitempty"`
	Lines []bookedLine          `json:"lines,omitempty"`
	By    map[string]bookedLine `json:"by,omitempty"`
	Any   any                   `json:"any,omitempty"`
	Raw   json.RawMessage       `json:"raw,omitempty"`
	Site  *ruled                `json:"site,omitempty"`
	Quote int                   `json:"quote,omitempty,string"`
	Owner string                `json:"owner,omitempty"`
	Out   string                `json:"-"`
}

type bookedLine struct {
	Cents int `json:"cents"`
}

func book[In any](s *server.Server, schema string) (said string) {
	defer func() {
		if v := recover(); v != nil {
			said = fmt.Sprint(v)
		}
	}()
	server.AddTool(s, server.Tool{Name: "book", InputSchema: json.RawMessage(schema)},
		func(_ context.Context, _ *server.ToolCall, in In) (toolOutcome, error) {
			return server.Structured(in)
		})
	return ""
}

// Values that the schema allows must reach the handler.
func TestInputSchemaMustFitItsStruct(t *testing.T) {
	object := func(properties, more string) string {
		return `{"type":"object","properties":{` + properties + `}` + more + `}`
	}
	const name = `"name":{"type":"string","minLength":1}`
	for _, tt := range []struct{ schema, bad string }{
		{object(name, ""), ""},
		{object(name+`,"seats":{"type":"integer","maximum":5},"price":{"type":"number"},"paid":{"type":"boolean"},"when":{"type":"string","format":"date-time"},"photo":{"type":"string"}`, ""), ""},
		{object(name+`,"tags":{"type":["array","null"],"items":{"type":"string"}},"lines":{"type":"array","items":{"type":"object","properties":{"cents":{"type":"integer"}}}}`, ""), ""},
		{object(name+`,"by":{"type":"object","additionalProperties":{"type":"object","required":["cents"]}},"any":{"type":["string","integer"]},"raw":{"type":"array"},"site":{"type":"string"},"quote":{"type":"string"}`, ""), ""},
		{object(name+`,"seats":{"type":"number"}`, ""), ""}, // some numbers fit
		{object(name+`,"seats":{"enum":[1,2,3,null]}`, ""), ""},
		{object(name+`,"admin":false`, ""), ""},                                 // the schema forbids it
		{object(name, `,"required":["name"],"additionalProperties":false`), ""}, // owner may not be set
		// bounds may be behind a reference
		{object(`"name":{"$ref":"#/$defs/n"}`, `,"$defs":{"n":{"minLength":1}}`), ""},
		{`{"type":"object"}`, ""},
		{object(name+`,"adress":{"type":"string"}`, ""), "adress"},
		{object(name+`,"Seats":{"type":"integer"}`, ""), "Seats"},
		{object(name+`,"Out":{"type":"string"}`, ""), "Out"},
		{object(name+`,"seats":{"type":"string"}`, ""), "seats"},
		{object(name+`,"seats":{"type":["integer","string"]}`, ""), "seats"},
		{object(name+`,"seats":{"enum":[1,1000]}`, ""), "seats"},
		{object(name+`,"seats":{"const":"x"}`, ""), "seats"},
		{object(name+`,"paid":{"type":"string"}`, ""), "paid"},
		{object(name+`,"photo":{"type":"array"}`, ""), "photo"},
		{object(name+`,"tags":{"type":"string"}`, ""), "tags"},
		{object(name+`,"tags":{"type":"array","items":{"type":"integer"}}`, ""), "tags[]"},
		{object(name+`,"lines":{"type":"array","items":{"type":"object","properties":{"cent":{}}}}`, ""), "lines[].cent"},
		{object(name+`,"by":{"type":"object","additionalProperties":{"type":"integer"}}`, ""), "by.*"},
		{object(name, `,"required":["name","adress"]`), "adress"},
		{object(name, `,"required":["name","owner"],"additionalProperties":false`), "owner"},
		{object(`"name":{"type":"string"}`, ""), "minLength"},
	} {
		t.Run(tt.schema, func(t *testing.T) {
			h := newHarness(t, nil)
			said := book[booked](h.Server, tt.schema)
			if (tt.bad == "") != (said == "") || !strings.Contains(said, tt.bad) {
				t.Errorf("%s: %q, want %q", tt.schema, said, tt.bad)
			}
			if tt.bad != "" && !strings.Contains(said, "server_test.booked") &&
				!strings.Contains(said, "server_test.bookedLine") {
				t.Errorf("%s: the type is not named: %s", tt.schema, said)
			}
		})
	}
	h := newHarness(t, nil)
	wantPart(t, "an object for an int", book[int](h.Server, `{"type":"object"}`), "int")
	if said := book[struct {
		V int `json:"v" minumum:"1"`
	}](h.Server, `{"type":"object","properties":{"v":{"type":"integer"}}}`); !strings.Contains(said, "minumum") {
		t.Errorf("a mistaken tag beside a schema: %q", said)
	}
	wantEqual(t, "a map takes everything, but",
		book[map[string]any](h.Server, object(`"x":{"type":"string"}`, "")), "")
}

// No float64 could hold these bounds.
func TestLargeBoundsAreListedExactly(t *testing.T) {
	type within struct {
		N int64 `json:"n" minimum:"-9007199254740993"`
	}
	type large struct {
		Max  int64    `json:"max" maximum:"9007199254740993"`
		Wide uint64   `json:"wide,omitempty" maximum:"18446744073709551615"`
		Rate float64  `json:"rate,omitempty" maximum:"100.5"`
		List []within `json:"list,omitempty"`
	}
	h := newHarness(t, nil)
	server.AddTool(h.Server, server.Tool{Name: "large"},
		func(_ context.Context, _ *server.ToolCall, in large) (toolOutcome, error) {
			return server.Text(fmt.Sprint(in.Max)), nil
		})
	list := h.send(protocol.MethodListTools, "").raw
	for _, want := range []string{`"maximum":9007199254740993`, `"maximum":18446744073709551615`,
		`"maximum":100.5`, `"minimum":-9007199254740993`} {
		wantPart(t, "list lacks", list, want)
	}
	h.call("large", `{"max":9007199254740993,"wide":18446744073709551615,"list":[{"n":-9007199254740993}]}`).text("9007199254740993")
	h.call("large", `{"max":9007199254740994}`).failed("max")
	h.call("large", `{"max":1,"list":[{"n":-9007199254740994}]}`).failed("n")
}

// Members with defaults may be left out, at every depth; sent values are kept.
func TestDefaultsOfArguments(t *testing.T) {
	type line struct {
		Cents int    `json:"cents" default:"100"`
		Unit  string `json:"unit,omitempty" enum:"a,b" enumTitles:"A,B" default:"b"`
	}
	type base struct {
		Env string `json:"env" default:"dev"`
	}
	type order struct {
		base
		Count *int            `json:"count,omitempty" default:"2"`
		On    bool            `json:"on,omitempty" default:"true"`
		Tags  []string        `json:"tags,omitempty" default:"x,y"`
		Rate  float64         `json:"rate" default:"1e3"`
		Lines []line          `json:"lines,omitempty"`
		By    map[string]line `json:"by,omitempty"`
		One   *line           `json:"one,omitempty"`
		Note  string          `json:"note,omitempty"`
	}
	h := newHarness(t, nil)
	server.AddTool(h.Server, server.Tool{Name: "order"},
		func(_ context.Context, call *server.ToolCall, in order) (toolOutcome, error) {
			text, err := json.Marshal(in)
			return server.Text(string(text) + " of " + string(call.Arguments)), err
		})
	for _, tt := range []struct{ arguments, want string }{
		{`{}`, `{"env":"dev","count":2,"on":true,"tags":["x","y"],"rate":1000}`},
		{`{"env":"prod","count":null,"on":false,"tags":[],"rate":0,"note":"\""}`, `{"env":"prod","rate":0,"note":"\""}`},
		{`{"lines":[{},{"cents":1,"unit":"a"}],"by":{"k":{}},"one":{"unit":"a"}}`,
			`{"env":"dev","count":2,"on":true,"tags":["x","y"],"rate":1000,"lines":[{"cents":100,"unit":"b"},{"cents":1,"unit":"a"}],"by":{"k":{"cents":100,"unit":"b"}},"one":{"cents":100,"unit":"a"}}`},
	} {
		h.call("order", tt.arguments).text(tt.want + " of " + tt.arguments)
	}
	h.call("order", `{"lines":[{"unit":"c"}]}`).failed("unit")
	list := h.send(protocol.MethodListTools, "").raw
	for _, want := range []string{`"default":"dev"`, `"default":["x","y"]`, `"oneOf":[{"title":"A","const":"a"},{"title":"B","const":"b"}]`} {
		wantPart(t, "list lacks", list, want)
	}
	wantNoPart(t, "what has a default is required", list, `"required"`)
}

type tree struct {
	Kids []*tree `json:"kids"`
}

// The error for a recursive type asks for a schema.
func TestRecursiveTypes(t *testing.T) {
	of := json.RawMessage(
		`{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#"}}}}`)
	s, err := server.New(nil)
	noError(t, err)
	defer s.Close()
	register := func(input, output json.RawMessage) {
		server.AddToolOut(s, server.Tool{Name: "t", InputSchema: input, OutputSchema: output},
			func(context.Context, *server.ToolCall, tree) (map[string]tree, error) {
				return nil, nil
			})
	}
	const advice = "schema: server_test.tree contains itself: give the tool an InputSchema"
	wantPanic(t, "input "+advice, func() { register(nil, of) })
	wantPanic(t, "output "+advice, func() { register(of, nil) })
	register(of, of)
}
