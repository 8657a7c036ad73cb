package protocol_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
)

func TestParseID(t *testing.T) {
	long := strings.Repeat("x", 510)
	for _, test := range []struct {
		raw, want string // want is empty if refused
	}{
		{`1`, `1`},
		{`"1"`, `"1"`},
		{`0`, `0`},
		{`-7`, `-7`},
		{`-0`, `-0`}, // kept as spelled: the peer compares with what it sent
		{`7.0`, `7.0`}, {`1e2`, `1e2`}, {`1E2`, `1E2`}, {`1.50e1`, `1.50e1`},
		{`9007199254740993.0`, `9007199254740993.0`},
		{`9007199254740993`, `9007199254740993`},
		{`123456789012345678901234567890`, `123456789012345678901234567890`},
		{`""`, `""`},
		{`"\u0061"`, `"\u0061"`},
		{`"\u2028"`, `"\u2028"`},
		{`"` + long + `"`, `"` + long + `"`},
		{`"` + long + `y"`, ``},
		{`"` + strings.Repeat("x", 600) + `"`, ``},
		{strings.Repeat("9", 600), ``},
		{`0.5`, ``}, {`5.0000000000000000001`, ``}, {`1e400`, ``},
		{`1e999999999`, ``}, {`1e-1`, ``},
		{`null`, ``}, {`true`, ``}, {`{}`, ``}, {`[]`, ``}, {``, ``},
		{`-`, ``}, {`01`, ``}, {`-01`, ``}, {`+1`, ``}, {`"`, ``}, {`1 `, ``},
	} {
		t.Run(test.raw, func(t *testing.T) {
			id, err := protocol.ParseID([]byte(test.raw))
			if test.want == "" {
				if err == nil || !id.IsZero() {
					t.Fatalf("took it as %s (error %v)", id, err)
				}
				return
			}
			noError(t, err)
			if id.String() != test.want {
				t.Errorf("got %s, want %s", id, test.want)
			}
			if raw, err := id.MarshalJSON(); err != nil || string(raw) != test.want {
				t.Errorf("MarshalJSON: %s, %v", raw, err)
			}
		})
	}
}

func TestIDsAreMapKeys(t *testing.T) {
	ids := []protocol.ID{
		protocol.IntID(1), protocol.StringID("1"), protocol.StringID("1.0"),
		protocol.IntID(9007199254740992), protocol.IntID(9007199254740993), {},
	}
	seen := map[protocol.ID]int{}
	for i, id := range ids {
		if at, ok := seen[id]; ok {
			t.Errorf("ids %d and %d are the same: %s", at, i, id)
		}
		seen[id] = i
	}
	same, err := protocol.ParseID([]byte(`"\u0031"`))
	if err != nil || same.Value() != protocol.StringID("1") {
		t.Errorf(`an escaped "1" is %s (error %v), want the id "1"`, same, err)
	}
	parsed, _ := protocol.ParseID([]byte(`9007199254740993`))
	if parsed != protocol.IntID(9007199254740993) {
		t.Errorf("parsed %s differs from IntID", parsed)
	}
}

func TestIDsHaveValues(t *testing.T) {
	values := map[protocol.ID][]string{}
	for _, raw := range []string{"100", "1e2", "100.0", "1.00E+2", "0", "-0", "0.0", `"100"`,
		"9007199254740993", "9007199254740993.0", "9007199254740992.0", "9007199254740992"} {
		id, err := protocol.ParseID([]byte(raw))
		noError(t, err)
		values[id.Value()] = append(values[id.Value()], raw)
	}
	want := map[protocol.ID][]string{
		protocol.IntID(100):              {"100", "1e2", "100.0", "1.00E+2"},
		protocol.IntID(0):                {"0", "-0", "0.0"},
		protocol.StringID("100"):         {`"100"`},
		protocol.IntID(9007199254740993): {"9007199254740993", "9007199254740993.0"},
		protocol.IntID(9007199254740992): {"9007199254740992.0", "9007199254740992"},
	}
	if !reflect.DeepEqual(values, want) {
		t.Errorf("got %v, want %v", values, want)
	}
}

func TestZeroID(t *testing.T) {
	var id protocol.ID
	if raw, err := id.MarshalJSON(); !id.IsZero() || err != nil || string(raw) != "null" {
		t.Errorf("zero id: IsZero %v, %s, %v", id.IsZero(), raw, err)
	}
	if err := id.UnmarshalJSON([]byte("null")); err == nil {
		t.Error("null was read as an id")
	}
}
