package jsonx

import (
	"cmp"
	stdjson "encoding/json"
	"errors"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// The options are built once: the codec caches its work per type in them.
var (
	// authorDecoding is encoding/json without leniencies that hide members from a gateway.
	authorDecoding = json.JoinOptions(jsonv1.DefaultOptionsV1(),
		json.MatchCaseInsensitiveNames(false),
		jsontext.AllowDuplicateNames(false),
		jsontext.AllowInvalidUTF8(false),
		json.WithUnmarshalers(json.UnmarshalFromFunc(decodeNumber)))

	// integerDecoding is separate because a function for any type allocates for each value.
	integerDecoding = json.JoinOptions(authorDecoding,
		json.WithUnmarshalers(json.JoinUnmarshalers(
			json.UnmarshalFromFunc(decodeNumber), json.UnmarshalFromFunc(decodeInteger))))

	numberDecoding = json.JoinOptions(authorDecoding,
		json.WithUnmarshalers(json.JoinUnmarshalers(
			json.UnmarshalFromFunc(decodeNumber), json.UnmarshalFromFunc(decodeAnyNumber))))

	// protocolDecoding accepts line breaks in base64, which common encoders write.
	protocolDecoding = json.JoinOptions(json.DefaultOptionsV2(),
		jsonv1.ParseBytesWithLooseRFC4648(true),
		json.WithUnmarshalers(json.UnmarshalFromFunc(decodeInt)))

	// authorEncoding repairs strings, including those in a RawMessage, but rejects duplicate names.
	authorEncoding = json.JoinOptions(jsonv1.DefaultOptionsV1(),
		json.Deterministic(true),
		jsontext.EscapeForHTML(false),
		jsontext.AllowDuplicateNames(false),
		jsontext.PreserveRawStrings(false),
		json.WithMarshalers(json.MarshalToFunc(encodeNumber)))
)

// Unmarshal decodes data into v, a pointer to a handler's type, like encoding/json, except that
// member names match by exact case, that 5.0 is an integer (JSON Schema 2020-12, 4.2.3), and that
// data must pass [Check]. Numbers in an any are float64. On error v may be partly filled.
func Unmarshal(data []byte, v any) error {
	err := decode(data, v, authorDecoding)
	if e, ok := errors.AsType[*jsonv1.UnmarshalTypeError](err); ok &&
		strings.HasPrefix(e.Value, "number") {
		return json.Unmarshal(data, v, integerDecoding)
	}
	return err
}

// UnmarshalNumbers is [Unmarshal], but numbers decoded into any keep their text as a json.Number of
// encoding/json, as schema validation needs.
func UnmarshalNumbers(data []byte, v any) error { return decode(data, v, numberDecoding) }

// Marshal encodes a handler's value as encoding/json does, with sorted map members, but does not
// escape HTML and rejects duplicate members from a json.RawMessage or a MarshalJSON method.
func Marshal(v any) ([]byte, error) { return json.Marshal(v, authorEncoding) }

// Decode decodes data into v, a pointer to a protocol struct off the hot path, as encoding/json/v2
// does, and an int64 as [Int] does. data must pass [Check]. Unknown members need an embedded
// fallback: a map or a jsontext.Value tagged `json:",embed"`. On error v may be partly filled.
func Decode(data []byte, v any) error { return decode(data, v, protocolDecoding) }

// decode checks first, because the codec's own depth limit is fixed at 10000.
func decode(data []byte, v any, options json.Options) error {
	if err := Check(data); err != nil {
		return err
	}
	return json.Unmarshal(data, v, options)
}

// Encode encodes a protocol struct as encoding/json/v2 does, with sorted map members. Invalid UTF-8
// and duplicate members are errors. Raw JSON within v keeps the spelling of strings and numbers.
func Encode(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true), jsontext.PreserveRawStrings(true))
}

// AppendEncode appends the result of [Encode] to dst, or returns dst on error.
func AppendEncode(dst []byte, v any) ([]byte, error) {
	b, err := Encode(v)
	return append(dst, b...), err
}

func decodeInt(d *jsontext.Decoder, v *int64) error {
	if d.PeekKind() != '0' {
		return errors.ErrUnsupported // null is 0, other kinds fail
	}
	raw, err := d.ReadValue()
	if err == nil {
		*v, err = Int(raw)
	}
	return err
}

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

// decodeInteger decodes a number into any integer type without its own decoding method. The
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
		return rangeError(raw, "is not a value of the integer type")
	}
	return nil
}

// decodeNumber decodes a json.Number, which the codec mistakes for a plain string type. Like
// encoding/json it also accepts a number in quotes.
func decodeNumber(d *jsontext.Decoder, v *stdjson.Number) error {
	kind := d.PeekKind()
	if kind != '0' && kind != '"' {
		return errors.ErrUnsupported // null leaves v unchanged, other kinds fail
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

// encodeNumber encodes a json.Number as a number, but as a string if it is a map key.
func encodeNumber(e *jsontext.Encoder, v stdjson.Number) error {
	if kind, n := e.StackIndex(e.StackDepth()); kind == '{' && n%2 == 0 {
		return errors.ErrUnsupported
	}
	v = cmp.Or(v, "0")
	if end, ok := checkNumber([]byte(v), 0); !ok || end != len(v) {
		return rangeError([]byte(v), "is malformed")
	}
	return e.WriteValue(jsontext.Value(v))
}
