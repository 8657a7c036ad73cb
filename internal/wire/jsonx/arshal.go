package jsonx

import (
	stdjson "encoding/json"
	"errors"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// The options are built once and never change: the codec caches per type what it finds in them.
var (
	// authorDecoding is the semantics of encoding/json without the habits that let a peer smuggle
	// members past a gateway.
	authorDecoding = json.JoinOptions(jsonv1.DefaultOptionsV1(),
		json.MatchCaseInsensitiveNames(false),
		jsontext.AllowDuplicateNames(false),
		jsontext.AllowInvalidUTF8(false),
		json.WithUnmarshalers(json.UnmarshalFromFunc(decodeNumber)))

	// integerDecoding is apart: a function for any type allocates for each value.
	integerDecoding = json.JoinOptions(authorDecoding,
		json.WithUnmarshalers(json.JoinUnmarshalers(
			json.UnmarshalFromFunc(decodeNumber), json.UnmarshalFromFunc(decodeInteger))))

	numberDecoding = json.JoinOptions(authorDecoding,
		json.WithUnmarshalers(json.JoinUnmarshalers(
			json.UnmarshalFromFunc(decodeNumber), json.UnmarshalFromFunc(decodeAnyNumber))))

	// protocolDecoding drops line breaks within base64, which common encoders write.
	protocolDecoding = json.JoinOptions(json.DefaultOptionsV2(),
		jsonv1.ParseBytesWithLooseRFC4648(true),
		json.WithUnmarshalers(json.UnmarshalFromFunc(decodeInt)))

	// authorEncoding lets strings be repaired but not names repeated. What a RawMessage contributes
	// is repaired as well, hence no PreserveRawStrings.
	authorEncoding = json.JoinOptions(jsonv1.DefaultOptionsV1(),
		json.Deterministic(true),
		jsontext.EscapeForHTML(false),
		jsontext.AllowDuplicateNames(false),
		jsontext.PreserveRawStrings(false),
		json.WithMarshalers(json.MarshalToFunc(encodeNumber)))
)

// Unmarshal decodes data into v, which is a pointer to an author's type, as encoding/json does,
// with these differences: member names match by exact case, integers by their value, so that 5.0 is
// one (JSON Schema 2020-12, 4.2.3), and data must pass [Check]. Numbers decoded into any are
// float64. On error v may have been filled in part.
func Unmarshal(data []byte, v any) error {
	err := decode(data, v, authorDecoding)
	if e, ok := errors.AsType[*jsonv1.UnmarshalTypeError](err); ok &&
		strings.HasPrefix(e.Value, "number") {
		return json.Unmarshal(data, v, integerDecoding)
	}
	return err
}

// UnmarshalNumbers is [Unmarshal], except that numbers decoded into any are json.Number of
// encoding/json with their text kept, as schema validation needs.
func UnmarshalNumbers(data []byte, v any) error { return decode(data, v, numberDecoding) }

// Marshal encodes an author's value as encoding/json does, with map members sorted, but does not
// escape HTML and fails on duplicate members in what a json.RawMessage or a MarshalJSON method
// contributes.
func Marshal(v any) ([]byte, error) { return json.Marshal(v, authorEncoding) }

// Decode decodes data into v, a pointer to a protocol struct off the hot path, by the conventions
// of encoding/json/v2, and an int64 by its value, as [Int] does. data must pass [Check]. Members
// that v does not know are dropped unless it has an embedded fallback field for them: a map or a
// jsontext.Value tagged `json:",embed"`. On error v may have been filled in part.
func Decode(data []byte, v any) error { return decode(data, v, protocolDecoding) }

// decode checks first: the codec's own limit on depth is 10000 and fixed.
func decode(data []byte, v any, options json.Options) error {
	if err := Check(data); err != nil {
		return err
	}
	return json.Unmarshal(data, v, options)
}

// Encode encodes a protocol struct by the conventions of encoding/json/v2 with map members sorted.
// Invalid UTF-8 and duplicate members are errors. Raw JSON within v keeps the spelling of its
// strings and numbers.
func Encode(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true), jsontext.PreserveRawStrings(true))
}

// AppendEncode appends what [Encode] returns to dst. On error it returns dst.
func AppendEncode(dst []byte, v any) ([]byte, error) {
	b, err := Encode(v)
	return append(dst, b...), err
}

// decodeInt decodes an integer by its value.
func decodeInt(d *jsontext.Decoder, v *int64) error {
	if d.PeekKind() != '0' {
		return errors.ErrUnsupported // null is 0, the rest fails
	}
	raw, err := d.ReadValue()
	if err == nil {
		*v, err = Int(raw)
	}
	return err
}

// decodeAnyNumber decodes a number into any as its text.
func decodeAnyNumber(d *jsontext.Decoder, v *any) error {
	if d.PeekKind() != '0' {
		return errors.ErrUnsupported
	}
	raw, err := d.ReadValue()
	if err != nil {
		return err
	}
	*v = stdjson.Number(raw)
	return nil
}

// decodeInteger decodes a number into any type of integer that does not decode itself. The
// canonical form of an integer that fits has neither point nor exponent.
func decodeInteger(d *jsontext.Decoder, v any) error {
	target := reflect.ValueOf(v).Elem()
	set := setInt
	if target.CanUint() {
		set = setUint
	}
	if d.PeekKind() != '0' || !target.CanInt() && !target.CanUint() ||
		DecodesItself(target.Type()) {
		return errors.ErrUnsupported
	}
	raw, err := d.ReadValue()
	if err != nil {
		return err
	}
	if plain, err := AppendNumber(nil, raw); err != nil || !set(target, plain) {
		return rangeError(raw, "is no value of the integer type")
	}
	return nil
}

// decodeNumber decodes a json.Number, which the codec takes for any string type. Like encoding/json
// it also accepts a number in quotes.
func decodeNumber(d *jsontext.Decoder, v *stdjson.Number) error {
	kind := d.PeekKind()
	if kind != '0' && kind != '"' {
		return errors.ErrUnsupported // null leaves v alone, the rest fails
	}
	raw, err := d.ReadValue()
	if err != nil {
		return err
	}
	text := []byte(raw)
	if kind == '"' {
		text, err = TextBytes(raw)
	}
	if end, ok := checkNumber(text, 0); err != nil || !ok || end != len(text) {
		return &TypeError{Want: Number, Got: String}
	}
	*v = stdjson.Number(text)
	return nil
}

// encodeNumber encodes a json.Number of encoding/json as the number it is, but as the key of a map
// as a string, which names are.
func encodeNumber(e *jsontext.Encoder, v stdjson.Number) error {
	if kind, n := e.StackIndex(e.StackDepth()); kind == '{' && n%2 == 0 {
		return errors.ErrUnsupported
	}
	if v == "" {
		v = "0"
	}
	if end, ok := checkNumber([]byte(v), 0); !ok || end != len(v) {
		return rangeError([]byte(v), "is malformed")
	}
	return e.WriteValue(jsontext.Value(v))
}
