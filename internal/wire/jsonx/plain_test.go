package jsonx_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// Peers see members and kinds, not Go types.
func TestPlain(t *testing.T) {
	type inner struct {
		N int8 `json:"n"`
	}
	type outer struct {
		Name  string  `json:"name"`
		Inner inner   `json:"inner"`
		List  []inner `json:"list"`
	}
	for raw, want := range map[string]string{
		`7`:                    "must not be number",
		`null`:                 "",
		`{"name":7}`:           "name: must not be number",
		`{"name":[]}`:          "name: must not be array",
		`{"inner":"x"}`:        "inner: must not be string",
		`{"inner":{"n":{}}}`:   "inner/n: must not be object",
		`{"list":[{"n":"a"}]}`: "list/0/n: must not be string",
	} {
		err := jsonx.Decode([]byte(raw), &outer{})
		got := ""
		if err != nil {
			got = jsonx.Plain(err).Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", raw, got, want)
		}
	}
	err := jsonx.Decode([]byte(`{"inner":{"n":300}}`), &outer{})
	if got := jsonx.Plain(err).Error(); !strings.HasPrefix(got, "inner/n: ") ||
		strings.Contains(got, "int8") {
		t.Errorf("out of range: got %q", got)
	}
	other := errors.New("other")
	if jsonx.Plain(other) != other {
		t.Error("another error was changed")
	}
}
