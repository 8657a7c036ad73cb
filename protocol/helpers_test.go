package protocol_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
)

var noError = testkit.NoError

// value decodes raw with encoding/json alone, numbers as text.
func value(t testing.TB, raw []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("not JSON: %v: %s", err, raw)
	}
	if d.More() {
		t.Fatalf("more than one JSON value: %s", raw)
	}
	return v
}

func sameJSON(t testing.TB, got, want []byte) {
	t.Helper()
	if !reflect.DeepEqual(value(t, got), value(t, want)) {
		t.Errorf("JSON differs\n got: %s\nwant: %s", got, want)
	}
}

func refused(t testing.TB, err error, word string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one that says %q", word)
	} else if !strings.Contains(err.Error(), word) {
		t.Errorf("error %q does not say %q", err, word)
	}
}

func wantCode(t testing.TB, err error, code int64) {
	t.Helper()
	var e *protocol.Error
	if !errors.As(err, &e) {
		t.Errorf("error is %v, want a *protocol.Error with code %d", err, code)
	} else if e.Code != code {
		t.Errorf("code %d (%s), want %d", e.Code, e.Message, code)
	}
}

func result(t testing.TB, v protocol.Version, method, raw string) protocol.Result {
	t.Helper()
	r, err := protocol.DecodeResult(v, method, []byte(raw))
	if err != nil {
		t.Fatalf("DecodeResult(%s, %s): %v", method, raw, err)
	}
	return r
}

func encoded(t testing.TB, v protocol.Version, method string, r protocol.Result) string {
	t.Helper()
	data, err := protocol.EncodeResult(v, method, r)
	if err != nil {
		t.Fatalf("EncodeResult(%s, %T): %v", method, r, err)
	}
	return string(data)
}

func legacyVersions() []protocol.Version {
	var out []protocol.Version
	for _, v := range protocol.Versions() {
		if v.Era() == protocol.Legacy {
			out = append(out, v)
		}
	}
	return out
}

func ptr[T any](v T) *T { return &v }
