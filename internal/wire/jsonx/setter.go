package jsonx

import (
	"bytes"
	"reflect"
	"strconv"

	"github.com/go-json-experiment/json"
)

// A setter decodes trimmed JSON into a zero v. It reports false for values it leaves to Unmarshal.
type setter func(v reflect.Value, raw []byte) bool

func isNull(raw []byte) bool { return len(raw) > 0 && raw[0] == 'n' }

func setString(v reflect.Value, raw []byte) bool {
	text, err := TextBytes(raw)
	if err != nil {
		return isNull(raw) // null leaves v unchanged
	}
	v.SetString(string(text))
	return true
}

func setBool(v reflect.Value, raw []byte) bool {
	value, err := Boolean(raw)
	v.SetBool(value)
	return err == nil || isNull(raw)
}

func setInt(v reflect.Value, raw []byte) bool {
	n, err := strconv.ParseInt(string(raw), 10, v.Type().Bits())
	if err != nil || KindOf(raw) != Number {
		return isNull(raw)
	}
	v.SetInt(n)
	return true
}

func setUint(v reflect.Value, raw []byte) bool {
	n, err := strconv.ParseUint(string(raw), 10, v.Type().Bits())
	if err != nil || KindOf(raw) != Number {
		return isNull(raw)
	}
	v.SetUint(n)
	return true
}

func setFloat(v reflect.Value, raw []byte) bool {
	if KindOf(raw) != Number {
		return isNull(raw)
	}
	f, err := strconv.ParseFloat(string(raw), v.Type().Bits())
	if err != nil {
		return false
	}
	v.SetFloat(f)
	return true
}

func setRaw(v reflect.Value, raw []byte) bool {
	v.SetBytes(bytes.Clone(raw))
	return true
}

func setAny(v reflect.Value, raw []byte) bool {
	value, ok := decodeAny(raw)
	if ok && value != nil {
		v.Set(reflect.ValueOf(value))
	}
	return ok
}

func setSlowly(v reflect.Value, raw []byte) bool {
	return json.Unmarshal(raw, v.Addr().Interface(), authorDecoding) == nil
}
