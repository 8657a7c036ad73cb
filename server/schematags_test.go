package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/server"
)

// A taggedField is a struct with the field v, as a form and as tool arguments.
type taggedField struct {
	name   string
	form   func() (*form.Form, error)
	tool   func(*server.Server)
	decode func(content []byte) (any, error)
	values []string // of v; "" for none
}

func tagged[T any](values ...string) taggedField {
	t := reflect.TypeFor[T]()
	return taggedField{
		name: t.Field(0).Type.String() + " " + string(t.Field(0).Tag),
		form: func() (*form.Form, error) { return form.Derive(t, form.Options{}) },
		tool: func(s *server.Server) {
			server.AddTool(s, server.Tool{Name: "tool"},
				func(_ context.Context, _ *server.ToolCall, in T) (toolOutcome, error) {
					return server.Structured(in)
				})
		},
		decode: func(content []byte) (any, error) {
			var in T
			err := json.Unmarshal(content, &in)
			return in, err
		},
		values: values,
	}
}

// The function registered returns the panic of a registration, or nil.
func registered(s *server.Server, register func(*server.Server)) (said any) {
	defer func() { said = recover() }()
	register(s)
	return nil
}

// Forms and arguments accept the same values, with the same meaning.
func TestFormsAndArgumentsReadTagsAlike(t *testing.T) {
	const email = `"a@example.com"`
	texts := []string{"", `""`, `"a"`, `"ab"`, `"abc"`, `"é"`, `" a"`, `1`, `true`, `["a"]`, `{}`,
		email, `"https://example.com/"`, `"2026-02-29"`, `"2024-02-29"`, `"2026-01-01T00:00:00Z"`}
	// Whole numbers such as 1.0 or -0 are left out: forms normalize them, arguments do not.
	numbers := []string{"", "0", "1", "1.5", "-1", "127", "128", "1000", "9007199254740992",
		"9007199254740993", "9007199254740994", "9223372036854775807", "9223372036854775808",
		"18446744073709551615", "18446744073709551616", "1e400", `"1"`, "true"}
	lists := []string{"", `[]`, `["a"]`, `["a","b"]`, `["a","a"]`, `["a","b","c"]`, `["d"]`,
		`[1]`, `"a"`}
	for _, tt := range []taggedField{
		tagged[struct {
			V string `json:"v" title:"T" jsonschema:"what it is"`
		}](texts...),
		tagged[struct {
			V string `json:"v" minLength:"2"`
		}](texts...),
		tagged[struct {
			V string `json:"v,omitempty" maxLength:"1"`
		}](texts...),
		tagged[struct {
			V string `json:"v" format:"email"`
		}](texts...),
		tagged[struct {
			V string `json:"v" format:"uri" maxLength:"19"`
		}](texts...),
		tagged[struct {
			V string `json:"v" format:"date"`
		}](texts...),
		tagged[struct {
			V string `json:"v" format:"date-time"`
		}](texts...),
		tagged[struct {
			V time.Time `json:"v" format:"date-time"`
		}](texts...),
		tagged[struct {
			V string `json:"v" enum:"a, ab"`
		}](texts...),
		tagged[struct {
			V string `json:"v" enum:"a,ab" enumTitles:"One,Two"`
		}](texts...),
		tagged[struct {
			V *string `json:"v,omitempty" enum:"a,ab" enumTitles:"One,Two"`
		}](texts...),
		tagged[struct {
			V string `json:"v" default:"ab" maxLength:"2"`
		}](texts...),
		tagged[struct {
			V string `json:"v" enum:"a,b" default:"b"`
		}](texts...),
		tagged[struct {
			V int `json:"v" minimum:"1" maximum:"1000"`
		}](numbers...),
		tagged[struct {
			V int8 `json:"v"`
		}](numbers...),
		tagged[struct {
			V int8 `json:"v" maximum:"1"`
		}](numbers...),
		tagged[struct {
			V uint8 `json:"v" default:"7"`
		}](numbers...),
		tagged[struct {
			V int64 `json:"v" maximum:"9007199254740993"`
		}](numbers...),
		tagged[struct {
			V int64 `json:"v" minimum:"9007199254740993"`
		}](numbers...),
		tagged[struct {
			V uint64 `json:"v" maximum:"18446744073709551615"`
		}](numbers...),
		tagged[struct {
			V float64 `json:"v" minimum:"0.1" maximum:"1e3"`
		}](numbers...),
		tagged[struct {
			V *float64 `json:"v,omitempty" maximum:"9007199254740992"`
		}](numbers...),
		tagged[struct {
			V bool `json:"v" default:"true"`
		}]("", "true", "false", "1", `"true"`),
		tagged[struct {
			V []string `json:"v" enum:"a,b,c" minItems:"1" maxItems:"2"`
		}](lists...),
		tagged[struct {
			V []string `json:"v,omitempty" enum:"a,b" enumTitles:"A,B" default:"a,b"`
		}](lists...),
		// Both refuse these mistakes.
		tagged[struct {
			V int `json:"v" minumum:"1"`
		}](),
		tagged[struct {
			V int `json:"v" min:"1"`
		}](),
		tagged[struct {
			V string `json:"v" pattern:"^a$"`
		}](),
		tagged[struct {
			V string `json:"v" minimum:"1"`
		}](),
		tagged[struct {
			V int `json:"v" minimum:"one"`
		}](),
		tagged[struct {
			V int `json:"v" minLength:"1"`
		}](),
		tagged[struct {
			V string `json:"v" maxLength:"-1"`
		}](),
		tagged[struct {
			V string `json:"v" minItems:"1"`
		}](),
		tagged[struct {
			V int `json:"v" enum:"1,2"`
		}](),
		tagged[struct {
			V int `json:"v" format:"email"`
		}](),
		tagged[struct {
			V string `json:"v" required:"true"`
		}](),
		tagged[struct {
			V string `json:"v" maximumLength:"1"`
		}](),
		tagged[struct {
			V string `json:"v" jsonschema:"title=Name"`
		}](),
		tagged[struct {
			V string `json:"v" format:"bananas"`
		}](),
		tagged[struct {
			V int `json:"v" minimum:"2" maximum:"1"`
		}](),
		tagged[struct {
			V string `json:"v" minLength:"2" maxLength:"1"`
		}](),
		tagged[struct {
			V string `json:"v" enum:"a,"`
		}](),
		tagged[struct {
			V string `json:"v" enum:"a,b" enumTitles:"A"`
		}](),
		tagged[struct {
			V int8 `json:"v" maximum:"1000"`
		}](),
		tagged[struct {
			V float64 `json:"v" maximum:"9007199254740993"`
		}](),
		tagged[struct {
			V int8 `json:"v" default:"1000"`
		}](),
		tagged[struct {
			V string `json:"v" default:"abc" maxLength:"2"`
		}](),
		tagged[struct {
			V string `json:"v" enum:"a" default:"b"`
		}](),
		tagged[struct {
			V string `json:"v" format:"email" default:"nobody"`
		}](),
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := tt.form()
			h := newHarness(t, nil)
			said := registered(h.Server, tt.tool)
			if tt.values == nil {
				for who, text := range map[string]string{"form": fmt.Sprint(err),
					"tool": fmt.Sprint(said)} {
					wantPart(t, who, text, ".V: ")
				}
				return
			}
			if err != nil || said != nil {
				t.Fatalf("form: %v; tool: %v", err, said)
			}
			for _, value := range tt.values {
				arguments := `{"v":` + value + `}`
				if value == "" {
					arguments = "{}"
				}
				accepted, _ := f.Accept([]byte(arguments))
				formErr := f.Check([]byte(arguments)) // a field left empty is not an argument
				r := h.call("tool", arguments)
				refused := r.result["isError"] == true
				if refused != (formErr != nil) {
					t.Errorf("%s: the form says %v, the tool %s", arguments, formErr, r.raw)
					continue
				}
				if refused {
					continue
				}
				want, err := tt.decode(accepted)
				noError(t, err)
				text, _ := json.Marshal(want)
				r.text(string(text))
			}
		})
	}
}

type refundLine struct {
	Cents int `json:"cents" minimum:"1"`
}

type refundBase struct {
	Reason string `json:"reason" minLength:"3" maxLength:"5"`
}

type refund struct {
	refundBase
	Amount float64               `json:"amount" minimum:"1" maximum:"100.5"`
	Kind   string                `json:"kind" enum:"card, cash" title:"Kind"`
	Mail   *string               `json:"mail,omitempty" format:"email"`
	Tags   []string              `json:"tags,omitempty" minItems:"1" maxItems:"2" enum:"a,b"`
	Lines  []refundLine          `json:"lines,omitempty"`
	Named  map[string]refundLine `json:"named,omitempty"`
	Level  *string               `json:"level,omitempty" enum:"high"`
}

func TestTagsBoundArguments(t *testing.T) {
	const good = `"amount":1,"kind":"cash","reason":"abc"`
	for _, tc := range []struct{ name, arguments, bad string }{
		{"required", `{` + good + `}`, ""},
		{"everything", `{` + good + `,"mail":"a@example.com","tags":["a","b"],"lines":[{"cents":1}],"named":{"x":{"cents":2}},"level":"high"}`, ""},
		{"null for an optional one", `{` + good + `,"level":null}`, ""},
		{"too small", `{"amount":0,"kind":"cash","reason":"abc"}`, "amount"},
		{"too large", `{"amount":100.6,"kind":"cash","reason":"abc"}`, "amount"},
		{"not in the list", `{"amount":1,"kind":"gold","reason":"abc"}`, "kind"},
		{"too short", `{"amount":1,"kind":"cash","reason":"ab"}`, "reason"},
		{"too long", `{"amount":1,"kind":"cash","reason":"abcdef"}`, "reason"},
		{"no address", `{` + good + `,"mail":"nobody"}`, "mail"},
		{"too few items", `{` + good + `,"tags":[]}`, "tags"},
		{"item twice", `{` + good + `,"tags":["a","b","a"]}`, "tags"},
		{"item not in the list", `{` + good + `,"tags":["c"]}`, "tags"},
		{"bound in a list", `{` + good + `,"lines":[{"cents":0}]}`, "cents"},
		{"bound in a map", `{` + good + `,"named":{"x":{"cents":0}}}`, "cents"},
		{"value of an optional one", `{` + good + `,"level":"low"}`, "level"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHarness(t, nil)
			server.AddTool(h.Server, server.Tool{Name: "refund"},
				func(context.Context, *server.ToolCall, refund) (toolOutcome, error) {
					return server.Text("refunded"), nil
				})
			got := h.call("refund", tc.arguments)
			if tc.bad == "" {
				got.text("refunded")
			} else {
				got.failed(tc.bad)
			}
		})
	}
}
