package gosdk_test

import (
	"encoding/json"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// FuzzTakeOut: whatever is sent, the SDK gets parameters without answers and
// state, everything else as it was, and the funnel gets those.
func FuzzTakeOut(f *testing.F) {
	seeds := []string{
		`{"name":"t"}`,
		`{"name":"t","arguments":{"a":9007199254740993},"_meta":{"x":[1,2]}}`,
		`{"name":"t","inputResponses":{"q":{"action":"accept","content":{"a":"b"}},"r":null},"requestState":"s"}`,
		`{"name":"t","inputResponses":{},"requestState":""}`,
		`{"name":"t","InputResponses":{},"request\u0053tate":"s"}`,
		`{"name":"t","inputResponses":[],"requestState":1}`,
		`{"name":"t","name":"u"}`, `[]`, `{`, ``,
	}
	if len(seeds) == 0 {
		f.Fatal("there are no seeds")
	}
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, params []byte) {
		rest, retry, refused := gosdk.ExtractRetry(protocol.MethodCallTool, params)
		if refused != nil {
			return
		}
		var before, after map[string]json.RawMessage
		if err := json.Unmarshal(params, &before); err != nil {
			t.Fatalf("%q is no JSON and was taken: %v", params, err)
		}
		if err := json.Unmarshal(rest, &after); err != nil {
			t.Fatalf("%q is left of %q: %v", rest, params, err)
		}
		for _, key := range []string{"inputResponses", "requestState"} {
			if after[key] != nil {
				t.Errorf("%q is left of %q", rest, params)
			}
			delete(before, key)
		}
		if len(before) != len(after) {
			t.Errorf("%q is left of %q", rest, params)
		}
		for key, value := range before {
			if string(after[key]) != string(value) {
				t.Errorf("%s was %s and is %s", key, value, after[key])
			}
		}
		again, err := protocol.DecodeParams(protocol.MethodCallTool, params)
		if err != nil {
			t.Fatal(err)
		}
		if got := again.(*protocol.CallToolParams).Retry; got.RequestState != retry.RequestState ||
			len(got.InputResponses) != len(retry.InputResponses) {
			t.Errorf("handed over is %+v of %q", retry, params)
		}
	})
}
