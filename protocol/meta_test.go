package protocol_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
)

func TestMetaGet(t *testing.T) {
	for _, test := range []struct{ name, meta, key, want string }{ // want is empty if absent
		{"number", `{"a":1.0,"b":"\u00e9"}`, "a", `1.0`},
		{"text", `{"a":1.0,"b":"\u00e9"}`, "b", `"\u00e9"`},
		{"escaped key", `{"\u0061": {"x": 1} }`, "a", `{"x": 1}`},
		{"null", `{"a":null}`, "a", `null`},
		{"key in another case", `{"A":1}`, "a", ``},
		{"no members", `{}`, "a", ``},
		{"empty", ``, "a", ``},
		{"null for an object", `null`, "a", ``},
		{"array", `[]`, "a", ``},
		{"cut off", `{"a":1`, "a", ``},
		{"name twice", `{"a":1,"a":2}`, "a", ``},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, ok := protocol.Meta(test.meta).Get(test.key)
			if ok != (test.want != "") || (ok && string(got) != test.want) {
				t.Errorf("%s at %s: got %s, %v; want %s", test.meta, test.key, got, ok, test.want)
			}
		})
	}
}

func TestMetaWith(t *testing.T) {
	for _, test := range []struct {
		meta, key string
		v         any
		want      string // empty for an error
	}{
		{``, "k", 1, `{"k":1}`},
		{`{}`, "k", "<é>", `{"k":"<é>"}`},
		{`{"a": "\u00e9", "b":1.0}`, "k", nil, `{"a":"\u00e9","b":1.0,"k":null}`},
		{`{"k":1,"b":9007199254740993}`, "k", json.RawMessage(`{"x":2}`),
			`{"b":9007199254740993,"k":{"x":2}}`},
		{`{"\u006b":1}`, "k", 2, `{"k":2}`},
		{`{"a":1}`, `quo"te`, true, `{"a":1,"quo\"te":true}`},
		{`[]`, "k", 1, ``},
		{`null`, "k", 1, ``},
		{`{"a":1`, "k", 1, ``},
		{`{}`, "k", math.NaN(), ``},
		{`{}`, "k", func() {}, ``},
	} {
		t.Run(test.meta+"_with_"+test.key, func(t *testing.T) {
			before := protocol.Meta(test.meta)
			got, err := before.With(test.key, test.v)
			if (err != nil) != (test.want == "") || string(got) != test.want {
				t.Errorf("%s with %s: got %s, %v; want %s", test.meta, test.key, got,
					err, test.want)
			}
			if string(before) != test.meta {
				t.Errorf("%s was changed to %s", test.meta, before)
			}
		})
	}
}

func TestServerInfo(t *testing.T) {
	for raw, want := range map[string]string{
		`{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}`: "s",
		`{"io.modelcontextprotocol/serverInfo":{"name":5}}`:                 "",
		`{"io.modelcontextprotocol/serverInfo":null}`:                       "",
		`{}`: "", ``: "",
	} {
		info := (&protocol.DiscoverResult{Meta: protocol.Meta(raw)}).ServerInfo()
		if (info == nil) != (want == "") || (info != nil && info.Name != want) {
			t.Errorf("%s: got %+v, want %q", raw, info, want)
		}
	}
}

func TestLoggingLevels(t *testing.T) {
	levels := []protocol.LoggingLevel{
		protocol.LevelDebug, protocol.LevelInfo, protocol.LevelNotice, protocol.LevelWarning,
		protocol.LevelError, protocol.LevelCritical, protocol.LevelAlert, protocol.LevelEmergency,
	}
	for i, level := range levels {
		if level.Severity() != i || !level.Valid() {
			t.Errorf("%s: severity %d, want %d", level, level.Severity(), i)
		}
	}
	for _, level := range []protocol.LoggingLevel{"", "Debug", "trace"} {
		if level.Valid() || level.Severity() != -1 {
			t.Errorf("%q is valid", level)
		}
	}
}
