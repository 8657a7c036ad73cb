package jsonx_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

type (
	named    string
	textual  struct{ S string }
	embedded struct{ Inner int }
)

func (t *textual) UnmarshalText(b []byte) error {
	if t.S = "text:" + string(b); string(b) == "bad" {
		return fmt.Errorf("bad")
	}
	return nil
}

// kitchen has a field of every kind that a decoder distinguishes.
type kitchen struct {
	S    string  `json:"s"`
	N    named   `json:"n,omitempty"`
	B    bool    `json:"b"`
	I    int     `json:"i"`
	I8   int8    `json:"i8"`
	U    uint16  `json:"u"`
	F    float64 `json:"f"`
	F32  float32 `json:"f32,omitzero"`
	P    *string `json:"p"`
	PP   **int   `json:"pp"`
	Any  any     `json:"any"`
	Raw  json.RawMessage
	List []string          `json:"list"`
	Deep []kitchenSub      `json:"deep"`
	Sub  kitchenSub        `json:"sub"`
	Ptr  *kitchenSub       `json:"ptr"`
	Map  map[string]int    `json:"map"`
	Any2 map[string]any    `json:"any2"`
	Num  json.Number       `json:"num"`
	Time time.Time         `json:"time"`
	Dur  time.Duration     `json:"dur"`
	Text textual           `json:"text"`
	TPtr *textual          `json:"tptr"`
	TMap map[named]textual `json:"tmap"`
	By   []byte            `json:"by"`
	Arr  [2]int            `json:"arr"`
	Next *kitchen          `json:"next"`
	Skip string            `json:"-"`
	priv int
}

type kitchenSub struct {
	A string `json:"a"`
	B *bool  `json:"b"`
}

type quoted struct {
	I int `json:"i,string"`
}

type withEmbedded struct {
	embedded
	S string
}

// The function same decodes doc both ways.
func same[T any](t *testing.T, doc string) {
	t.Helper()
	if jsonx.Check([]byte(doc)) != nil {
		return // a duplicate name
	}
	var want T
	wantErr := jsonx.Unmarshal([]byte(doc), &want)
	got, err := jsonx.NewDecoder[T]().Decode([]byte(doc))
	if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
		t.Fatalf("%T from %s: got error %v, want %v", want, doc, err, wantErr)
	}
	if err == nil && (!reflect.DeepEqual(got, want) ||
		fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) &&
			!strings.Contains(fmt.Sprintf("%#v", got), "(0x")) {
		t.Fatalf("%T from %s:\ngot  %#v\nwant %#v", want, doc, got, want)
	}
}

func sameAll(t *testing.T, doc string) {
	t.Helper()
	same[kitchen](t, doc)
	same[*kitchen](t, doc)
	same[[]kitchenSub](t, doc)
	same[quoted](t, doc)
	same[withEmbedded](t, doc)
	same[any](t, doc)
	same[map[string]any](t, doc)
	same[string](t, doc)
	same[named](t, doc)
	same[int](t, doc)
	same[float32](t, doc)
	same[json.RawMessage](t, doc)
	same[json.Number](t, doc)
	same[struct{}](t, doc)
	same[textual](t, doc)
}

var decoderValues = []string{
	`null`, `true`, `false`, `0`, `-0`, `1`, `-1`, `127`, `128`, `255`, `65536`, `9007199254740993`,
	`18446744073709551615`, `1.0`, `1e2`, `0.1`, `1e39`, `1e309`, `123456789012345678901234567890`,
	`""`, `"a"`, `"\u00e9\ud83d\ude00\n"`, `"2026-11-21T06:00:00Z"`, `"12"`, `"bad"`, `"aGk="`,
	`[]`, `[ ]`, `["a","b"]`, `[1,2]`, `[null]`, `[{"a":"x","b":true},{"b":null}]`,
	`[[1,[2,{"a":[]}]],{}]`,
	`{}`, `{ }`, `{"a":"x"}`, `{"A":"x","a":"y"}`, `{"a":1}`, `{"b":false,"c":{"d":[1,2.5,"x",null,true]}}`, ` { "a" : [ 1 , 2 ] , "b" : { } } `,
	`{"i":"12"}`, `{"Inner":3,"S":"x"}`, `{"s":"x","i":7,"list":["a"],"sub":{"a":"b"},"next":{"s":"y","next":null}}`,
}

func TestDecoderAgrees(t *testing.T) {
	kind := reflect.TypeFor[kitchen]()
	for _, value := range decoderValues {
		sameAll(t, value)
		for i := range kind.NumField() {
			field := kind.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" {
				name = field.Name
			}
			same[kitchen](t, fmt.Sprintf(`{"s":"before","%s":%s,"i":5}`, name, value))
			same[kitchen](t, fmt.Sprintf(`{ "%s" : %s }`, name, value))
			same[kitchen](t, fmt.Sprintf(`{"%s":%s}`, strings.ToUpper(name), value))
		}
	}
	_ = kitchen{}.priv
}

// The value must not alias the document.
func TestDecoderCopies(t *testing.T) {
	doc := []byte(`{"s":"abc","n":"abc","any":["abc",{"abc":"abc"}],"Raw":"abc","list":["abc"],"p":"abc"}`)
	got, err := jsonx.NewDecoder[kitchen]().Decode(doc)
	noError(t, err)
	before := fmt.Sprint(got.S, got.N, got.Any, string(got.Raw), got.List, *got.P)
	for i := range doc {
		doc[i] = 'x'
	}
	if after := fmt.Sprint(got.S, got.N, got.Any, string(got.Raw), got.List,
		*got.P); after != before {
		t.Errorf("overwriting the document changed %s to %s", before, after)
	}
}

// Unchecked input must not panic.
func TestDecoderUnchecked(t *testing.T) {
	for _, doc := range []string{``, `{`, `[`, `"`, `{"s":`, `{"any":[1,`, `{"any":{"a"`,
		`{"any":tru`, `{"any":{"a":1,}}`, `{"any":[1,]}`, `{"any":--1}`, `{"i":1x}`,
		`{"any":` + strings.Repeat("[", 10000)} {
		_, _ = jsonx.NewDecoder[kitchen]().Decode([]byte(doc))
		_, _ = jsonx.NewDecoder[any]().Decode([]byte(doc))
	}
}

func FuzzDecoder(f *testing.F) {
	for _, value := range decoderValues {
		if value == "" {
			f.Fatal("empty seed")
		}
		f.Add(value)
		f.Add(`{"any":` + value + `,"next":{"list":` + value + `}}`)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		if jsonx.Check([]byte(doc)) != nil {
			_, _ = jsonx.NewDecoder[kitchen]().Decode([]byte(doc))
			_, _ = jsonx.NewDecoder[any]().Decode([]byte(doc))
			return
		}
		sameAll(t, doc)
	})
}

func BenchmarkDecoder(b *testing.B) {
	type arguments struct {
		Environment string `json:"environment"`
		Version     string `json:"version"`
	}
	flat := []byte(`{"environment":"production","version":"v1.2.3"}`)
	objects := []byte(`{"data":[` + strings.Repeat(`{"id":12345,"name":"object","tags":["a","b"],"ok":true,"ratio":0.25},`, 999) + `{}]}`)
	b.Run("flat", func(b *testing.B) { benchmarkDecoder[arguments](b, flat) })
	b.Run("objects", func(b *testing.B) {
		benchmarkDecoder[struct {
			Data any `json:"data"`
		}](b, objects)
	})
}

func benchmarkDecoder[T any](b *testing.B, doc []byte) {
	b.Run("decoder", func(b *testing.B) {
		d := jsonx.NewDecoder[T]()
		b.ReportAllocs()
		b.SetBytes(int64(len(doc)))
		for b.Loop() {
			if _, err := d.Decode(doc); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("unmarshal", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(doc)))
		for b.Loop() {
			var v T
			noError(b, jsonx.Unmarshal(doc, &v))
		}
	})
}
