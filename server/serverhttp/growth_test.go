package serverhttp_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
)

// TestRequestGrowth sends requests of all sizes in both eras. It includes the cost of the client.
func TestRequestGrowth(t *testing.T) {
	srv := newServer(t, nil)
	ts, _ := serve(t, srv, nil)
	legacy := openSession(t, ts, "2025-11-25")
	for _, era := range []struct {
		name   string
		header http.Header
		meta   string
	}{
		{"modern", headers(protocol.MethodCallTool, "echo"), "," + meta},
		{"legacy", legacy.header(), ""},
	} {
		t.Run(era.name, func(t *testing.T) {
			testkit.CheckGrowth(t, testkit.GrowthReader{
				Read: func(input []byte) bool {
					got := do(t, ts, http.MethodPost, era.header.Clone(), string(input))
					return got.status == http.StatusOK && got.code() == 0 && !got.Result.IsError
				},
				BytesPerByte: 60, ObjectsPerByte: 0.6, // invalid input is decoded
			}, requestInputs(era.meta)...)
		})
	}
}

func requestInputs(meta string) []testkit.GrowthInput {
	const head = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":`
	tail := meta + `}}`
	in := func(name, arguments, part, end string, refused bool) testkit.GrowthInput {
		return testkit.GrowthInput{Name: name, Make: testkit.Repeat(head+arguments, part, end+tail),
			Refused: refused}
	}
	return []testkit.GrowthInput{
		in("message", `{"message":"`, `x`, `"}`, false),
		in("wrong type", `{"message":[`, `1,`, `1]}`, true),
		in("unknown member", `{"message":"m","x":[`, `1,`, `1]}`, true),
		in("no object", `[`, `1,`, `1]`, true),
		in("broken", `{"message":[`, `1,`, `]}`, true),
		in("white space", `{"message":"m"`, ` `, `}`, false),
	}
}

// Refusing a large initialize costs no more than reading it.
func TestInitializeGrowth(t *testing.T) {
	ts, _ := serve(t, newServer(t, nil), nil)
	c := newClient(t, ts, "")
	const head = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"experimental":{`
	testkit.CheckGrowth(t, testkit.GrowthReader{
		Read: func(input []byte) bool {
			got := read(t, c.post(string(input)))
			return got.status == http.StatusOK && got.code() == 0
		},
		BytesPerByte: 40, ObjectsPerByte: 1,
	},
		testkit.GrowthInput{Name: "settings", Make: testkit.Repeat(head+`"a":{"x":[`, `{},`,
			`1]}}}}}`), RefusedFrom: testkit.Medium / 2},
		testkit.GrowthInput{Name: "broken settings",
			Make:        testkit.Repeat(head+`"a":{"x":[`, `{},`, `1]},"b":1}}}}`),
			RefusedFrom: testkit.Medium / 2},
	)
}

// Net/http limits headers; the rest costs little.
func TestHeaderGrowth(t *testing.T) {
	ts, _ := serve(t, newServer(t, nil), nil)
	testkit.CheckGrowth(t, testkit.GrowthReader{
		Read: func(input []byte) bool {
			h := headers(protocol.MethodCallTool, "echo")
			h.Set("Mcp-Name", string(input))
			return do(t, ts, http.MethodPost, h, body(protocol.MethodCallTool, `"name":"echo","arguments":{"message":"m"}`)).code() == 0
		},
		BytesPerByte: 60, ObjectsPerByte: 0.1,
	},
		testkit.GrowthInput{Name: "plain", Make: testkit.Repeat("", "x", ""), Refused: true},
		testkit.GrowthInput{Name: "base64", Make: testkit.Repeat("=?base64?", "eHh4", "?="),
			Refused: true},
	)
}

// Thousands of small settings would become a map of many times their size.
func TestInitializeKeepsLittle(t *testing.T) {
	const sessions, most = 200, 24 << 10
	ts, _ := serve(t, newServer(t, nil), nil)
	c := newClient(t, ts, "")
	var settings strings.Builder
	for i := 0; settings.Len() < 15<<10; i++ {
		settings.WriteString(`"` + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) +
			string(rune('a'+i/676)) + `":{},`)
	}
	body := strings.Replace(initializeBody(c.version), `"capabilities":{`,
		`"capabilities":{"experimental":{`+settings.String()+`"z":{}},`, 1)
	open := func() {
		if got := read(t, c.post(body)); got.status != http.StatusOK || got.Error != nil {
			t.Fatalf("got status %d: %s", got.status, got.body)
		}
	}
	open()
	before := inUse()
	for range sessions {
		open()
	}
	each := (int64(inUse()) - int64(before)) / sessions
	if t.Logf("%d bytes each", each); each > most {
		t.Errorf("a session takes %d bytes, want at most %d", each, most)
	}
}
