package jsonx_test

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

func seed(f *testing.F) {
	seeds := []string{
		call, nested(jsonx.MaxDepth), nested(jsonx.MaxDepth + 1), object(17, numbered),
		object(40, numbered), object(40, numbered) + " ",
		`{"a":1,"\u0061":2}`, `{"\ud83d\ude00":[1.50,-0,1e400,9007199254740993,0.1e-7]}`, `["\ud800"]`, `{"\ud800":"\udc00\ud83d\u0041\ud8",`, "{\"\xb0\xa1\":1,\"\xff\\ud800\":[\"\xe2\x82\"]}", "\"\xff\"", `{"b":{"d":1,"c":[]},"a":"\\\"/"}`,
		` [ true , false , null , {} , "" ] `, `{"a":[1,2}`, `"\u2028\u00e9`, `1e10000`,
		`10e-10001`, "\"12345678\u00e9\"", `{"a":1,"b":2,"a":3}`,
	}
	for _, s := range seeds {
		if s == "" {
			f.Fatal("empty seed")
		}
		f.Add([]byte(s))
	}
}

// FuzzCheck compares Check with jsontext, and walks any input.
func FuzzCheck(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, doc []byte) {
		before := bytes.Clone(doc)
		got := jsonx.Check(doc)
		var syntax *jsonx.SyntaxError
		if got != nil && !errors.As(got, &syntax) {
			t.Errorf("got a %T", got)
		}
		want := jsontext.Value(doc).IsValid() // refuses duplicates and invalid UTF-8
		tooDeep := syntax != nil && syntax.Reason == "nesting too deep"
		if (got == nil) != want && !tooDeep {
			t.Errorf("Check(%q) = %v, jsontext says %v", doc, got, want)
		}
		if want, err := spelled(doc, jsonx.Members); got == nil &&
			jsonx.KindOf(doc) == jsonx.Object {
			if members, checked := spelled(doc, jsonx.CheckMembers); err != nil || checked != nil ||
				members != want {
				t.Errorf("CheckMembers(%q) gives %s, %v, Members gives %s, %v", doc, members,
					checked, want, err)
			}
		} else if members, checked := spelled(doc, jsonx.CheckMembers); members != "" ||
			(checked == nil) != (got == nil) {
			t.Errorf("CheckMembers(%q) gives %s, %v, Check says %v", doc, members, checked, got)
		}
		err := walk(doc, 0)
		if got == nil && err != nil {
			t.Errorf("accepted, but walking %q: %v", doc, err)
		}
		if got == nil {
			compact := jsonx.AppendCompact(nil, doc)
			v := jsontext.Value(bytes.Clone(doc))
			if err := v.Compact(jsontext.PreserveRawStrings(true)); err != nil ||
				!bytes.Equal(v, compact) {
				t.Errorf("AppendCompact(%q) = %q, jsontext says %q, %v", doc, compact, v, err)
			}
		}
		checkRepair(t, doc, got)
		text := jsonx.AppendTextBytes(nil, doc)
		if back, err := jsonx.Text(text); err != nil || back != string([]rune(string(doc))) {
			t.Errorf("text %q came back as %q, %v", doc, back, err)
		}
		_, _ = jsonx.AppendCanonical(nil, doc)
		_ = jsonx.AppendCompact(nil, doc)
		if !bytes.Equal(doc, before) {
			t.Error("the input was modified")
		}
	})
}

// checkRepair checks that a repair leaves valid documents unchanged, is complete and small.
func checkRepair(t *testing.T, doc []byte, refused error) {
	repair := func(doc []byte) []byte {
		return jsonx.Repair(doc, func(jsonx.Care, int, []byte, byte) jsonx.Care { return 0 })
	}
	once := repair(doc)
	if !bytes.Equal(repair(once), once) || len(once) > 3*len(doc) ||
		refused == nil && !bytes.Equal(once, doc) {
		t.Errorf("%q is repaired to %q, and that to %q", doc, once, repair(once))
	}
	var e *jsonx.SyntaxError
	if errors.As(jsonx.Check(once), &e) && e.IsText() {
		t.Errorf("%q is repaired to %q: %v", doc, once, e)
	}
}

func spelled(doc []byte, walk func([]byte,
	func(key, value []byte) error) error) (members string, err error) {
	err = walk(doc, func(key, value []byte) error {
		members += fmt.Sprintf("%q=%q/%d,%d;", key, value, cap(key)-len(key), cap(value)-len(value))
		return nil
	})
	return members, err
}

// walk visits every value in doc with all readers.
func walk(doc []byte, depth int) error {
	if depth > jsonx.MaxDepth {
		return errors.New("deep")
	}
	text, textErr := jsonx.TextBytes(doc)
	_, intErr := jsonx.Int(doc)
	_, boolErr := jsonx.Boolean(doc)
	members := jsonx.Members(doc, func(key, value []byte) error {
		if quoted, err := jsonx.TextBytes(jsonx.AppendTextBytes(nil, key)); err != nil ||
			!bytes.Equal(quoted, key) && jsontext.Value(doc).IsValid() {
			return errors.New("key does not survive quoting")
		}
		return walk(value, depth+1)
	})
	elements := jsonx.Elements(doc, func(_ int, value []byte) error { return walk(value, depth+1) })
	switch jsonx.KindOf(doc) {
	case jsonx.Object:
		return members
	case jsonx.Array:
		return elements
	case jsonx.String:
		if want, err := jsontext.AppendUnquote(nil, bytes.Trim(doc, " \t\r\n")); textErr == nil &&
			err == nil && !bytes.Equal(text, want) {
			return errors.New("unquoted differently by jsontext")
		}
		return textErr
	case jsonx.Number:
		if bytes.ContainsAny(doc, ".eE") || len(doc) > 18 {
			return nil
		}
		return intErr
	case jsonx.Bool:
		return boolErr
	}
	return nil
}

// FuzzCanonical checks that canonical forms are stable and keep the meaning.
func FuzzCanonical(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, doc []byte) {
		if jsonx.Check(doc) != nil {
			return
		}
		form, err := jsonx.AppendCanonical(nil, doc)
		if err != nil {
			var tooLarge *jsonx.RangeError
			if !errors.As(err, &tooLarge) {
				t.Fatalf("AppendCanonical(%q): %v", doc, err)
			}
			return
		}
		if err := jsonx.Check(form); err != nil {
			t.Fatalf("the form %q of %q: %v", form, doc, err)
		}
		again, err := jsonx.AppendCanonical(nil, form)
		if err != nil || !bytes.Equal(again, form) {
			t.Errorf("%q became %q, and that %q, %v", doc, form, again, err)
		}
		if a, b := decode(t, doc), decode(t, form); !equal(a, b) {
			t.Errorf("%q became %q, which is another value", doc, form)
		}
		respelt, err := stdjson.MarshalIndent(decode(t, doc), " ", "\t")
		noError(t, err)
		if got, err := jsonx.AppendCanonical(nil, respelt); err != nil || !bytes.Equal(got, form) {
			t.Errorf("%q became %q, but as %q %q, %v", doc, form, respelt, got, err)
		}
	})
}

func decode(t *testing.T, doc []byte) (v any) {
	d := stdjson.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	noError(t, d.Decode(&v))
	return v
}

// The function equal compares decoded values, with exact numbers.
func equal(a, b any) bool {
	switch a := a.(type) {
	case stdjson.Number:
		b, ok := b.(stdjson.Number)
		x, okx := new(big.Rat).SetString(shorten(a))
		y, oky := new(big.Rat).SetString(shorten(b))
		return ok && okx && oky && x.Cmp(y) == 0
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equal(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k := range a {
			if v, ok := b[k]; !ok || !equal(a[k], v) {
				return false
			}
		}
		return true
	}
	return a == b
}

// shorten removes the exponent of zero: 0e999999999 is beyond big.Rat.
func shorten(n stdjson.Number) string {
	mantissa, _, _ := strings.Cut(strings.ToLower(string(n)), "e")
	if strings.Trim(mantissa, "-0.") == "" {
		return "0"
	}
	return string(n)
}
