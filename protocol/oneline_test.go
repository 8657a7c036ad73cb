package protocol_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// spread puts white space into all JSON text that v holds, and returns into how
// much.
func spread(v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			n = spread(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += spread(v.Field(i))
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			for i := range v.Len() {
				n += spread(v.Index(i))
			}
			break
		}
		var wide bytes.Buffer
		if v.CanSet() && v.Len() > 0 && json.Indent(&wide, v.Bytes(), "\r", "\n\t") == nil {
			v.SetBytes(append(wide.Bytes(), '\n'))
			n = 1
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if raw, ok := v.MapIndex(key).Interface().(json.RawMessage); ok {
				v.SetMapIndex(key, reflect.ValueOf(append(append(json.RawMessage("\n "), raw...), '\n')))
				n++
			}
		}
	}
	return n
}

// TestResultsAreCompact holds that a result is on one line and without white
// space whatever authors put into it: transports send it as it is.
func TestResultsAreCompact(t *testing.T) {
	spreadInto := 0
	for _, s := range samples() {
		t.Run(s.name, func(t *testing.T) {
			spreadInto += spread(reflect.ValueOf(s.result))
			got, err := protocol.EncodeResult(protocol.Latest, s.method, s.result)
			if err != nil {
				t.Fatal(err)
			}
			if want := jsonx.AppendCompact(nil, got); !bytes.Equal(got, want) {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
	if spreadInto < 20 {
		t.Errorf("put white space into %d texts, want many", spreadInto)
	}
}
