package jsonx_test

import (
	stdjson "encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

type author struct {
	Name    string             `json:"name"`
	Empty   string             `json:"empty,omitempty"`
	Zero    int                `json:"zero,omitempty"`
	Blob    []byte             `json:"blob"`
	Wait    time.Duration      `json:"wait"`
	Nil     []string           `json:"nil"`
	NilMap  map[string]int     `json:"nilMap"`
	Map     map[string]any     `json:"map"`
	Pointer *int               `json:"pointer"`
	Number  stdjson.Number     `json:"number"`
	Raw     stdjson.RawMessage `json:"raw"`
	Quoted  int64              `json:"quoted,string"`
	When    time.Time          `json:"when"`
}

func TestMarshalAgreesWithEncodingJSON(t *testing.T) {
	in := author{
		Name: "a\u2028b\x00\"", Blob: []byte{1, 2, 255}, Wait: time.Second, Number: "1.50",
		Raw: stdjson.RawMessage(`{"x": 1}`),
		Map: map[string]any{"b": 1.5, "a": []any{nil, true, 1e30},
			"c": stdjson.Number("12345678901234567890")}, Quoted: 7,
		When: time.Date(2026, 7, 28, 1, 2, 3, 4, time.UTC),
	}
	want, err := stdjson.Marshal(in)
	noError(t, err)
	got, err := jsonx.Marshal(in)
	if err != nil || string(got) != string(want) {
		t.Fatalf("Marshal:\ngot  %s, %v\nwant %s", got, err, want)
	}
	for name, unmarshal := range map[string]func([]byte, any) error{"Unmarshal": jsonx.Unmarshal,
		"UnmarshalNumbers": jsonx.UnmarshalNumbers} {
		var back, wantBack author
		noError(t, stdjson.Unmarshal(want, &wantBack))
		if name == "UnmarshalNumbers" {
			wantBack.Map = map[string]any{"b": stdjson.Number("1.5"),
				"a": []any{nil, true, stdjson.Number("1e+30")},
				"c": stdjson.Number("12345678901234567890")}
		}
		if err := unmarshal(got, &back); err != nil || !reflect.DeepEqual(back, wantBack) {
			t.Errorf("%s:\ngot  %+v, %v\nwant %+v", name, back, err, wantBack)
		}
	}
}

func TestMarshal(t *testing.T) {
	for _, test := range []struct {
		name string
		in   any
		want string
	}{
		{"HTML characters", "<&>", `"<&>"`},
		{"invalid UTF-8", "a\xffb", "\"a\ufffdb\""},
		{"nil", nil, `null`},
		{"empty number", stdjson.Number(""), `0`},
		{"raw message with invalid UTF-8", stdjson.RawMessage("\"\xff\""), "\"\ufffd\""},
		{"numbers", []any{stdjson.Number("1.50"), map[string]any{"a": stdjson.Number("-0")}},
			`[1.50,{"a":-0}]`},
		{"numbers as names", map[stdjson.Number]stdjson.Number{"2": "3", "1": "4"},
			`{"1":4,"2":3}`},
		{"map", map[int]string{2: "b", 1: "a"}, `{"1":"a","2":"b"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, err := jsonx.Marshal(test.in); string(got) != test.want || err != nil {
				t.Errorf("Marshal(%#v) = %s, %v, want %s", test.in, got, err, test.want)
			}
		})
	}
	for _, in := range []any{
		stdjson.RawMessage(`{"a":1,"a":2}`), stdjson.RawMessage(`{`), stdjson.Number("x"),
		stdjson.Number("1,2"), math.Inf(1), func() {},
	} {
		if got, err := jsonx.Marshal(in); err == nil {
			t.Errorf("Marshal(%#v) = %s, want an error", in, got)
		}
	}
}

func TestUnmarshalIsStrict(t *testing.T) {
	type answer struct {
		Action string `json:"action"`
	}
	for _, doc := range []string{`{"Action":"accept"}`, `{"ACTION":"accept"}`, `{"action":"decline","Action":"accept"}`, `{"act_ion":"accept"}`} {
		for name, decode := range map[string]func([]byte, any) error{"Unmarshal": jsonx.Unmarshal,
			"UnmarshalNumbers": jsonx.UnmarshalNumbers, "Decode": jsonx.Decode} {
			var got answer
			if err := decode([]byte(doc), &got); err != nil || got.Action == "accept" {
				t.Errorf("%s(%s) = %+v, %v: a member of another name was read", name, doc, got, err)
			}
		}
	}
	for _, doc := range []string{
		`{"action":"decline","action":"accept"}`, `{"action":"\ud800"}`, "{\"action\":\"\xff\"}", `{"action":1}`, `{"action":"x"} {}`, ``,
		`{"x":{"y":1,"y":2}}`, `{"x":` + nested(jsonx.MaxDepth) + `}`,
	} {
		for name, decode := range map[string]func([]byte, any) error{"Unmarshal": jsonx.Unmarshal,
			"UnmarshalNumbers": jsonx.UnmarshalNumbers, "Decode": jsonx.Decode} {
			var got answer
			if err := decode([]byte(doc), &got); err == nil {
				t.Errorf("%s(%.60s) = %+v, want an error", name, doc, got)
			}
		}
	}
}

func TestNumbers(t *testing.T) {
	doc := []byte(`{"a":[9007199254740993,1.50],"b":"1"}`)
	var plain, exact any
	noError(t, jsonx.Unmarshal(doc, &plain))
	if want := any(map[string]any{"a": []any{9007199254740992.0, 1.5},
		"b": "1"}); !reflect.DeepEqual(plain, want) {
		t.Errorf("Unmarshal: got %#v, want %#v", plain, want)
	}
	noError(t, jsonx.UnmarshalNumbers(doc, &exact))
	if want := any(map[string]any{"a": []any{stdjson.Number("9007199254740993"),
		stdjson.Number("1.50")}, "b": "1"}); !reflect.DeepEqual(exact, want) {
		t.Errorf("UnmarshalNumbers: got %#v, want %#v", exact, want)
	}
	var typed struct{ N stdjson.Number }
	if err := jsonx.Unmarshal([]byte(`{"N":1.50}`), &typed); err != nil || typed.N != "1.50" {
		t.Errorf("Unmarshal into json.Number: got %q, %v", typed.N, err)
	}
	if err := jsonx.Unmarshal([]byte(`{"N":"x"}`), &typed); err == nil {
		t.Errorf("Unmarshal of a string into json.Number: got %q, want an error", typed.N)
	}
}

func TestEncodeKeepsUnknownMembers(t *testing.T) {
	type tool struct {
		Name string                    `json:"name"`
		Tags []string                  `json:"tags,omitempty"`
		Rest map[string]jsontext.Value `json:",embed"`
	}
	var v tool
	doc := `{"name":"x","a":{"z": 1},"b":1.50}`
	noError(t, jsonx.Decode([]byte(doc), &v))
	got, err := jsonx.AppendEncode([]byte("x"), v)
	if want := `x{"name":"x","a":{"z":1},"b":1.50}`; string(got) != want || err != nil {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	if got, err := jsonx.AppendEncode([]byte("x"), "\xff"); err == nil || string(got) != "x" {
		t.Errorf("AppendEncode of invalid UTF-8 = %s, %v, want an error", got, err)
	}
}

// Integers are read by value everywhere.
func TestIntegersByValue(t *testing.T) {
	type count int16
	type mixed struct {
		embedded                // the decoder leaves it to Unmarshal
		N        count          `json:"n"`
		U        *uint64        `json:"u"`
		M        map[string]int `json:"m"`
		D        time.Duration  `json:"d"`
	}
	var got mixed
	doc := `{"n":5.0,"u":1.8446744073709551615e19,"m":{"a":-0,"b":1e2},"d":30e-1}`
	if err := jsonx.Unmarshal([]byte(doc), &got); err != nil || got.N != 5 ||
		*got.U != 18446744073709551615 || got.M["a"] != 0 || got.M["b"] != 100 || got.D != 3 {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, number := range []string{"5.0000000000000000001", "1e400", "1e999999999", "40000.0",
		"0.5", "-1e5"} {
		if err := jsonx.Unmarshal([]byte(`{"n":`+number+`}`), &got); err == nil {
			t.Errorf("%s: got %d, want an error", number, got.N)
		}
		if n, err := jsonx.NewDecoder[count]().Decode([]byte(number)); err == nil {
			t.Errorf("%s: got %d, want an error", number, n)
		}
	}
}
