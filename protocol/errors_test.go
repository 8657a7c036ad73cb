package protocol_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
)

func TestErrorData(t *testing.T) {
	form := protocol.ClientCapabilities{}.Missing(&protocol.ElicitForm{})
	for _, test := range []struct {
		name string
		err  *protocol.Error
		want string
	}{
		{"missing capability", protocol.MissingCapabilities(form), `{"code":-32021,"message":"missing required client capability: elicitation.form","data":{"requiredCapabilities":{"elicitation":{}}}}`},
		{"unsupported version", protocol.UnsupportedVersion("1999-01-01", []protocol.Version{"2026-07-28"}), `{"code":-32022,"message":"unsupported protocol version \"1999-01-01\"","data":{"supported":["2026-07-28"],"requested":"1999-01-01"}}`},
		{"resource not found", protocol.ResourceNotFound("file:///<a>"), `{"code":-32602,"message":"resource not found: \"file:///<a>\"","data":{"uri":"file:///<a>"}}`},
		{"no data", protocol.Errorf(7, "%d", 8), `{"code":7,"message":"8"}`},
		{"null", protocol.Errorf(7, "m").WithData(nil), `{"code":7,"message":"m","data":null}`},
		{"data that JSON cannot say", protocol.Errorf(7, "m").WithData(math.Inf(1)),
			`{"code":7,"message":"m"}`},
		{"data that JSON cannot say after data that it can", protocol.Errorf(7, "m").WithData(1).WithData(func() {}), `{"code":7,"message":"m"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			raw, err := protocol.AppendMessage(nil,
				&protocol.Response{ID: protocol.IntID(1), Error: test.err})
			want := `{"jsonrpc":"2.0","id":1,"error":` + test.want + `}`
			if err != nil || string(raw) != want {
				t.Errorf("got  %s, %v\nwant %s", raw, err, want)
			}
		})
	}
}

func TestWithDataCopies(t *testing.T) {
	first := protocol.Errorf(7, "m")
	if second := first.WithData(1); first.Data != nil || string(second.Data) != "1" {
		t.Errorf("first has %s, second %s", first.Data, second.Data)
	}
}

func TestRequiredCapabilities(t *testing.T) {
	const code = protocol.CodeMissingRequiredClientCapability
	for _, test := range []struct {
		name string
		err  *protocol.Error
		want string // may be empty
	}{
		{"one", &protocol.Error{Code: code, Data: json.RawMessage(`{"requiredCapabilities":{"elicitation":{}}}`)}, `{"elicitation":{}}`},
		{"none", &protocol.Error{Code: code, Data: json.RawMessage(`{"requiredCapabilities":{}}`)},
			`{}`},
		{"null", &protocol.Error{Code: code,
			Data: json.RawMessage(`{"requiredCapabilities":null}`)}, ``},
		{"array", &protocol.Error{Code: code, Data: json.RawMessage(`{"requiredCapabilities":["elicitation"]}`)}, ``},
		{"name in another case",
			&protocol.Error{Code: code, Data: json.RawMessage(`{"RequiredCapabilities":{}}`)}, ``},
		{"name twice", &protocol.Error{Code: code, Data: json.RawMessage(`{"requiredCapabilities":{},"requiredCapabilities":{}}`)}, ``},
		{"cut off", &protocol.Error{Code: code, Data: json.RawMessage(`{`)}, ``},
		{"null data", &protocol.Error{Code: code, Data: json.RawMessage(`null`)}, ``},
		{"no data", &protocol.Error{Code: code}, ``},
		{"another code", &protocol.Error{Code: -32003,
			Data: json.RawMessage(`{"requiredCapabilities":{}}`)}, ``},
		{"no error", nil, ``},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, ok := test.err.RequiredCapabilities()
			if ok != (test.want != "") || (ok && spelled(t, got) != test.want) {
				t.Errorf("%+v: got %s, %v; want %s", test.err, spelled(t, got), ok, test.want)
			}
		})
	}
}

func TestSupportedVersions(t *testing.T) {
	const code = protocol.CodeUnsupportedProtocolVersion
	for _, test := range []struct {
		name string
		err  *protocol.Error
		want []protocol.Version
	}{
		{"ours", protocol.UnsupportedVersion("x", protocol.Versions()), protocol.Versions()},
		{"one", &protocol.Error{Code: code, Data: json.RawMessage(`{"supported":["a"]}`)},
			[]protocol.Version{"a"}},
		{"number among them",
			&protocol.Error{Code: code, Data: json.RawMessage(`{"supported":["a",5]}`)}, nil},
		{"text", &protocol.Error{Code: code, Data: json.RawMessage(`{"supported":"a"}`)}, nil},
		{"null", &protocol.Error{Code: code, Data: json.RawMessage(`{"supported":null}`)}, nil},
		{"array", &protocol.Error{Code: code, Data: json.RawMessage(`[]`)}, nil},
		{"no data", &protocol.Error{Code: code}, nil},
		{"another code",
			&protocol.Error{Code: -32004, Data: json.RawMessage(`{"supported":["a"]}`)}, nil},
		{"no error", nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.err.SupportedVersions(); !slices.Equal(got, test.want) {
				t.Errorf("%+v: got %v, want %v", test.err, got, test.want)
			}
		})
	}
}

func TestAsError(t *testing.T) {
	e := protocol.Errorf(7, "m")
	if got, ok := protocol.AsError(fmt.Errorf("wrapped: %w", e)); !ok || got != e {
		t.Errorf("wrapped: %v, %v", got, ok)
	}
	for name, err := range map[string]error{"nil": nil, "plain": fmt.Errorf("m"),
		"typed nil": (*protocol.Error)(nil)} {
		if got, ok := protocol.AsError(err); ok {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestURLElicitationRequiredMessage(t *testing.T) {
	if (&protocol.URLElicitationRequiredError{}).Error() == "" {
		t.Error("no default message")
	}
	if got := (&protocol.URLElicitationRequiredError{Message: "m"}).Error(); got != "m" {
		t.Errorf("got %q", got)
	}
}
