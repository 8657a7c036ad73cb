package rules_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
)

func TestIsNamedIn(t *testing.T) {
	for params, want := range map[string]bool{
		``:                  false,
		`{}`:                false,
		`[]`:                false,
		`{"_meta":null}`:    false,
		`{"_meta":[]}`:      false,
		`{"_meta":{"x":1}}`: false,
		`{"_META":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`:                      false,
		`{"arguments":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`:        false,
		`{"_meta":{"IO.modelcontextprotocol/protocolVersion":"2026-07-28"}}`:                      false,
		`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`:                      true,
		`{"_meta":{"io.modelcontextprotocol\/protocolVersion":"2026-07-28"}}`:                     true,
		`{"\u005fmeta" : {"a":{}, "\u0069o.modelcontextprotocol/protocolVersion" : "x"}}`:         true,
		`{"_meta":{"io.modelcontextprotocol/protocolVersion":""}}`:                                true,
		`{"_meta":{"io.modelcontextprotocol/protocolVersion":7}}`:                                 true,
		`{"name":"t","_meta":{"progressToken":1,"io.modelcontextprotocol/protocolVersion":null}}`: true,
	} {
		if got := rules.NamesRevision([]byte(params)); got != want {
			t.Errorf("%s: got %t, want %t", params, got, want)
		}
	}
}

func TestEraOf(t *testing.T) {
	for _, test := range []struct {
		name   string
		named  bool
		header []string
		want   protocol.Era
	}{
		{"nothing", false, nil, protocol.Legacy},
		{"an empty header", false, []string{" "}, protocol.Legacy},
		{"a legacy header", false, []string{"\t2025-06-18 "}, protocol.Legacy},
		{"a modern header", false, []string{"2026-07-28"}, protocol.Modern},
		{"an unknown header", false, []string{"2031-01-01"}, protocol.Modern},
		{"a repeated header", false, []string{"2025-06-18", "2025-06-18"}, protocol.Modern},
		{"named in the body", true, nil, protocol.Modern},
		{"named in the body, a legacy header", true, []string{"2025-06-18"}, protocol.Modern},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := rules.EraOf(test.named, test.header); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
