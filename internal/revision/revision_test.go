package revision_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/internal/revision"
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
		if got := revision.IsNamedIn([]byte(params)); got != want {
			t.Errorf("%s: got %t, want %t", params, got, want)
		}
	}
}
