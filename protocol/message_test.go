package protocol_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

func TestDecodeMessage(t *testing.T) {
	for _, test := range []struct {
		raw  string
		want protocol.Message
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"m"}`,
			&protocol.Request{ID: protocol.IntID(1), Method: "m"}},
		{` {"params":{"a":[1.0]},"method":"m","id":"x","jsonrpc":"2.0"} `, &protocol.Request{ID: protocol.StringID("x"), Method: "m", Params: json.RawMessage(`{"a":[1.0]}`)}},
		{`{"jsonrpc":"2.0","method":"m","params":{}}`, &protocol.Notification{Method: "m", Params: json.RawMessage(`{}`)}},
		{`{"jsonrpc":"2.0","method":"\u006d"}`, &protocol.Notification{Method: "m"}},
		{`{"jsonrpc":"2.0","id":1,"result":{}}`,
			&protocol.Response{ID: protocol.IntID(1), Result: json.RawMessage(`{}`)}},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":""}}`, &protocol.Response{ID: protocol.IntID(1), Error: protocol.Errorf(-1, "")}},
		{`{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m"}}`, &protocol.Response{Error: protocol.Errorf(-1, "m")}},
		{`{"jsonrpc":"2.0","error":{"code":-1,"message":"m","data":null}}`, &protocol.Response{Error: &protocol.Error{Code: -1, Message: "m", Data: json.RawMessage("null")}}},
		// Unknown members of any form are ignored.
		{`{"jsonrpc":"2.0","id":1,"method":"m","ID":2,"Method":"n","Params":[],"Result":{}}`, &protocol.Request{ID: protocol.IntID(1), Method: "m"}},
	} {
		t.Run(test.raw, func(t *testing.T) {
			got, err := protocol.DecodeMessage([]byte(test.raw))
			noError(t, err)
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %#v, want %#v", got, test.want)
			}
		})
	}
}

func TestMalformedMessages(t *testing.T) {
	const parse, invalid = protocol.CodeParseError, protocol.CodeInvalidRequest
	for _, test := range []struct {
		name, raw string
		code      int64
		id        string // echoed id; empty for none, "-" for a notification
	}{
		{"empty", ``, parse, ""},
		{"cut short", `{"jsonrpc":"2.0","id":1,`, parse, "1"},
		{"cut within the id", `{"jsonrpc":"2.0","method":"m","id":1`, parse, ""},
		{"id that is not UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"m\"}", parse, ""},
		{"too much broken text", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"` +
			strings.Repeat("\xff", 1<<19+100) + `"}}`, parse, "1"},
		{"cut within the result", `{"jsonrpc":"2.0","id":1,"result":{"a":[`, parse, "1"},
		{"NaN", `{"result":{"structuredContent":{"v":NaN}},"jsonrpc":"2.0","id":1}`, parse, "1"},
		{"two values", `{"jsonrpc":"2.0","id":1,"method":"m"}{}`, parse, "1"},
		{"duplicate method", `{"jsonrpc":"2.0","id":1,"method":"m","method":"m"}`, parse, "1"},
		{"duplicate id, escaped", `{"jsonrpc":"2.0","id":1,"\u0069d":2,"method":"m"}`, parse, ""},
		{"duplicate deep inside", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[{"b":1,"b":2}]}}`, parse, "1"},
		{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", parse, "1"},
		{"lone surrogate", `{"jsonrpc":"2.0","id":1,"method":"\ud800"}`, parse, "1"},
		{"too deep", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}}`, parse, "1"},
		{"byte order mark", "\ufeff{}", parse, ""},
		{"batch", `[{"jsonrpc":"2.0","id":1,"method":"m"}]`, invalid, ""},
		{"empty batch", `[]`, invalid, ""},
		{"null", `null`, invalid, ""},
		{"string", `"m"`, invalid, ""},
		{"empty object", `{}`, invalid, ""},
		{"no jsonrpc", `{"id":1,"method":"m"}`, invalid, "1"},
		{"jsonrpc 1.0", `{"jsonrpc":"1.0","id":"a","method":"m"}`, invalid, `"a"`},
		{"jsonrpc number", `{"jsonrpc":2.0,"id":1,"method":"m"}`, invalid, "1"},
		{"wrong case JSONRPC", `{"JSONRPC":"2.0","id":1,"method":"m"}`, invalid, "1"},
		{"wrong case Method", `{"jsonrpc":"2.0","id":1,"Method":"m"}`, invalid, "1"},
		{"method null", `{"jsonrpc":"2.0","id":1,"method":null}`, invalid, "1"},
		{"method number", `{"jsonrpc":"2.0","id":1,"method":5}`, invalid, "1"},
		{"id null", `{"jsonrpc":"2.0","id":null,"method":"m"}`, invalid, ""},
		{"id fraction", `{"jsonrpc":"2.0","id":1.5,"method":"m"}`, invalid, ""},
		{"id boolean", `{"jsonrpc":"2.0","id":true,"method":"m"}`, invalid, ""},
		{"id object", `{"jsonrpc":"2.0","id":{},"method":"m"}`, invalid, ""},
		{"id too long", `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 600) + `","method":"m"}`,
			invalid, ""},
		{"params array", `{"jsonrpc":"2.0","id":1,"method":"m","params":[]}`, invalid, "1"},
		{"notification with params string", `{"jsonrpc":"2.0","method":"m","params":"p"}`, invalid, "-"},
		{"notification with a list", `{"jsonrpc":"2.0","method":"m","params":[]}`, invalid, "-"},
		{"notification, cut", `{"jsonrpc":"2.0","method":"m","params":{}`, parse, ""},
		{"notification with NaN", `{"jsonrpc":"2.0","method":"m","params":{"a":NaN}}`, parse, "-"},
		{"method and result", `{"jsonrpc":"2.0","id":1,"method":"m","result":{}}`, invalid, "1"},
		{"method and error", `{"jsonrpc":"2.0","id":1,"method":"m","error":{"code":1,"message":"m"}}`, invalid, "1"},
		{"result and error", `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}`, invalid, "1"},
		{"neither", `{"jsonrpc":"2.0","id":1}`, invalid, "1"},
		{"result without id", `{"jsonrpc":"2.0","result":{}}`, invalid, ""},
		{"result with null id", `{"jsonrpc":"2.0","id":null,"result":{}}`, invalid, ""},
		{"result null", `{"jsonrpc":"2.0","id":1,"result":null}`, invalid, "1"},
		{"result array", `{"jsonrpc":"2.0","id":1,"result":[]}`, invalid, "1"},
		{"error null", `{"jsonrpc":"2.0","id":1,"error":null}`, invalid, "1"},
		{"error without code", `{"jsonrpc":"2.0","id":1,"error":{"message":"m"}}`, invalid, "1"},
		{"error without message", `{"jsonrpc":"2.0","id":1,"error":{"code":1}}`, invalid, "1"},
		{"error code string", `{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":"m"}}`, invalid, "1"},
		{"error code fraction", `{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"m"}}`, invalid, "1"},
		{"error code wrong case", `{"jsonrpc":"2.0","id":1,"error":{"Code":1,"message":"m"}}`, invalid, "1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, err := protocol.DecodeMessage([]byte(test.raw))
			wantCode(t, err, test.code)
			if test.id == "" {
				if m != nil {
					t.Errorf("message %#v, want none", m)
				}
				return
			}
			id, _ := protocol.ParseID([]byte(test.id))
			var want protocol.Message = &protocol.Request{ID: id}
			if test.id == "-" {
				want = &protocol.Notification{}
			} else if !strings.Contains(test.raw, `"method"`) && (strings.Contains(test.raw, `"result"`) ||
				strings.Contains(test.raw, `"error"`)) {
				want = &protocol.Response{ID: id}
			}
			if !reflect.DeepEqual(m, want) {
				t.Errorf("message %#v, want %#v", m, want)
			}
		})
	}
}

// $ stands for invalid Unicode. Want empty: refused.
var brokenTexts = []struct{ raw, want string }{
	{`"result":{"content":[{"type":"text","text":"cut $"}]}`, "OK"},
	{`"result":{"content":[{"type":"resource_link","uri":"x:$","name":"n"}]}`, ""},
	{`"result":{"tools":[{"name":"t","description":"$","inputSchema":{"properties":{"name":{"title":"$"}}}}]}`, "OK"},
	{`"result":{"tools":[{"name":"$"}]}`, ""},
	{`"result":{"structuredContent":{"name":"$","uri":["$"],"$":{"id":"$"}}}`, "OK"},
	{`"result":{"structuredContent":{"$":1,"a":{},"$":2}}`, ""},
	{`"result":{"structuredContent":{"\ufffd":1,"$":2}}`, ""},
	{`"result":{"structuredContent":{"a":"$","b":NaN}}`, ""},
	{`"result":{"requestState":"$"}`, ""},
	{`"result":{"inputRequests":{"k":{"params":{"message":"$"}}}}`, "OK"},
	{`"result":{"inputRequests":{"$":{}}}`, ""},
	{`"result":{"inputRequests":{"k":{"params":{"message":"$","url":"$"}}}}`, ""},
	{`"result":{"action":"accept","content":{"text":"$"}}`, ""},
	{`"result":{"action":"accept","content":{"list":["$"]}}`, ""},
	{`"result":{"action":"accept","content":{"$":1}}`, ""},
	{`"error":{"code":1,"message":"$","data":"$"}`, "OK"},
	{`"error":{"code":1,"message":"m","data":{"elicitations":[{"url":"$"}]}}`, ""},
	{`"method":"tools/call","params":{"name":"t","arguments":{"name":"$","$":["$",{"method":"$"}]}}`, "OK"},
	{`"method":"tools/call","params":{"name":"$"}`, ""},
	{`"method":"tools/call","params":{"name":"t","inputResponses":{"k":{"content":{"a":["$"]}}}}`, ""},
	{`"method":"tools/call","params":{"name":"t","inputResponses":{"$":{}}}`, ""},
	{`"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["$"]}}`, ""},
	{`"method":"notifications/message","params":{"level":"info","data":{"uri":"$"}}`, "OK"},
	{`"method":"subscriptions/listen","params":{"notifications":{"taskIds":["$"]}}`, ""},
	{`"method":"x/y","params":{"content":[{"toolUseId":"$"}]}`, ""},
	{`"result":{"serverInfo":{"websiteUrl":"$"}}`, ""},
	{`"result":{"tools":[{"icons":[{"src":"$"}]}]}`, ""},
	{`"result":{"structuredContent":{"src":"$"}}`, "OK"},
	{`"method":"$"`, ""},
	{`"method":"m","params":{"x":["$"],"uri":"x:y"}`, "OK"},
}

func TestBrokenText(t *testing.T) {
	for _, broken := range []string{"\xff", "\xb0\xa1", `\ud83d`, `\udc00`, `\ud800\ud800`,
		"\xed\xa0\x80"} {
		n := len([]rune(broken)) // of replacements
		if broken[0] == '\\' {
			n = len(broken) / len(`\ud83d`)
		}
		for _, test := range brokenTexts {
			head := `{"jsonrpc":"2.0","id":1,`
			mended := strings.Repeat("\ufffd", n)
			raw := head + strings.NewReplacer("$", broken, `\ufffd`, mended).Replace(test.raw) + "}"
			m, err := protocol.DecodeMessage([]byte(raw))
			if test.want == "" {
				wantCode(t, err, protocol.CodeParseError)
				switch m := m.(type) {
				case *protocol.Request:
					err = idMustBe1(m.ID)
				case *protocol.Response:
					err = idMustBe1(m.ID)
				default:
					err = fmt.Errorf("%#v", m)
				}
				if err != nil {
					t.Errorf("%s: refused with %v", raw, err)
				}
				continue
			}
			sound := head + strings.ReplaceAll(test.raw, "$", mended) + "}"
			want, soundErr := protocol.DecodeMessage([]byte(sound))
			if r, ok := want.(*protocol.Request); ok && !r.Repaired {
				r.Repaired = true
			}
			if err != nil || soundErr != nil || !reflect.DeepEqual(m, want) {
				t.Errorf("%s: got %#v, %v", raw, m, err)
			}
		}
	}
}

// An entry of a result's list nested too deep is left out; elsewhere the message is refused.
func TestDeepEntries(t *testing.T) {
	deep := func(levels int) string { // within an entry of a result
		return `{"a":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + "}"
	}
	for _, test := range []struct{ members, want string }{
		{`"result":{"tools":[` + deep(61) + `,1]}`, `{"tools":[` + deep(61) + `,1]}`},
		{`"result":{"tools":[{"x":{}},` + deep(62) + `,{"d":"\ud800"},` + deep(80) + `],"x":[{}]}`,
			`{"tools":[{"x":{}},` + jsonx.TooDeep + `,{"d":"` + "\ufffd" + `"},` + jsonx.TooDeep +
				`],"x":[{}]}`},
		{`"result":{"content":[` + deep(62) + `],"structuredContent":[` + deep(61) + `]}`,
			`{"content":[` + jsonx.TooDeep + `],"structuredContent":[` + deep(61) + `]}`},
		{`"result":{"content":[{}],"structuredContent":[` + deep(62) + `]}`, ""},
		{`"result":{"content":{"a":[` + deep(62) + `]}}`, ""},
		{`"result":{"tools":[` + deep(62) + `,{"a":[}]}`, ""},
		{`"result":{"inputRequests":{"tools":[` + deep(62) + `]}}`, ""},
		{`"method":"m","params":{"tools":[` + deep(62) + `]}`, ""},
		{`"error":{"code":1,"message":"","content":[` + deep(62) + `]}`, ""},
	} {
		m, err := protocol.DecodeMessage([]byte(`{"jsonrpc":"2.0","id":1,` + test.members + "}"))
		if test.want == "" {
			wantCode(t, err, protocol.CodeParseError)
		} else if r, ok := m.(*protocol.Response); err != nil || !ok || string(r.Result) != test.want {
			t.Errorf("%s: got %#v, %v", test.members, m, err)
		}
	}
	// Results of extensions are not read, so nothing would report it.
	_, err := protocol.DecodeResult(protocol.Latest, "x/y", []byte(`{"tools":[`+jsonx.TooDeep+`]}`))
	refused(t, err, "nests too deep")
	relayed, err := protocol.RelayResult(protocol.Latest, protocol.MethodCallTool, []byte(
		`{"content":[{"type":"text","text":"x"},`+jsonx.TooDeep+`]}`), nil)
	noError(t, err)
	raw, err := protocol.EncodeResult(protocol.Latest, protocol.MethodCallTool, relayed)
	if err != nil || strings.Contains(string(raw), "too deep") {
		t.Errorf("it is relayed as %s, %v", raw, err)
	}
	_, err = protocol.DecodeCreateMessageResult([]byte(
		`{"role":"user","model":"m","content":[{"type":"text","text":""},` + jsonx.TooDeep + `]}`))
	refused(t, err, "nests too deep")
}

func idMustBe1(id protocol.ID) error {
	if id != protocol.IntID(1) {
		return fmt.Errorf("id %s", id)
	}
	return nil
}

// Nested batches are not split recursively.
func TestNestedBatches(t *testing.T) {
	deep := strings.Repeat(`["`+"\xff"+`",`, 50_000) + "1" + strings.Repeat("]", 50_000)
	messages, is, err := protocol.DecodeBatch([]byte(deep))
	if len(messages) != 2 || string(messages[1]) != "[]" || !is || err != nil {
		t.Errorf("got %d messages, %t, %v", len(messages), is, err)
	}
}

func TestRefusalsAreShort(t *testing.T) {
	long := strings.Repeat("k", 1<<16)
	for _, raw := range []string{
		`{"` + long + `":1,"` + long + `":2}`,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":"` + long + `"}`,
	} {
		if _, err := protocol.DecodeMessage([]byte(raw)); err == nil || len(err.Error()) > 300 {
			t.Errorf("the error repeats %d bytes", len(err.Error()))
		}
	}
	for method, raw := range map[string]string{
		protocol.MethodGetPrompt: `{"name":"p","arguments":{"` + long + `":1}}`,
		protocol.MethodComplete:  `{"ref":{"type":"` + long + `"}}`,
		protocol.MethodListen:    `{"notifications":{"resourceSubscriptions":[{"` + long + `":1}]}}`,
		protocol.MethodDiscover:  `{"_meta":{"io.modelcontextprotocol/logLevel":"` + long + `"}}`,
		protocol.MethodListTools: `{"_meta":{"progressToken":["` + long + `"]}}`,
		long:                     `{}`,
	} {
		if _, err := protocol.DecodeParams(method, []byte(raw)); err == nil ||
			len(err.Error()) > 400 {
			t.Errorf("%.20s: the error repeats %d bytes", method, len(err.Error()))
		}
	}
}

func TestAppendMessageRefuses(t *testing.T) {
	id := protocol.IntID(1)
	for name, m := range map[string]protocol.Message{
		"nil":              nil,
		"nil request":      (*protocol.Request)(nil),
		"nil notification": (*protocol.Notification)(nil),
		"nil response":     (*protocol.Response)(nil),
		"forged request": struct{ *protocol.Request }{&protocol.Request{ID: id,
			Method: "m"}},
		"request without id": &protocol.Request{Method: "m"},
		"request with array params": &protocol.Request{ID: id, Method: "m",
			Params: json.RawMessage(`[]`)},
		"empty params":          &protocol.Notification{Method: "m", Params: json.RawMessage{}},
		"response with nothing": &protocol.Response{ID: id},
		"response with null":    &protocol.Response{ID: id, Result: json.RawMessage(`null`)},
		"result without id":     &protocol.Response{Result: json.RawMessage(`{}`)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := protocol.AppendMessage([]byte("before"), m)
			if err == nil || string(got) != "before" {
				t.Errorf("got %s, %v; want an error and dst as it was", got, err)
			}
		})
	}
}

func TestAppendMessageIsOneLine(t *testing.T) {
	raw := "{\n \"jsonrpc\": \"2.0\",\n \"id\": 1, \"method\": \"a\\nb\", \"params\": {\r\n " +
		"\"t\": \" a\\n \" } }"
	m, err := protocol.DecodeMessage([]byte(raw))
	noError(t, err)
	got, err := protocol.AppendMessage(nil, m)
	if want := `{"jsonrpc":"2.0","id":1,"method":"a\nb","params":{"t":" a\n "}}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
}

func TestErrorDataThatIsNotJSON(t *testing.T) {
	for _, data := range []string{`{`, ``, `{"a":1,"a":2}`, "\"\xff\""} {
		e := &protocol.Error{Code: 7, Message: "m", Data: json.RawMessage(data)}
		got, err := protocol.AppendMessage(nil, &protocol.Response{Error: e})
		if want := `{"jsonrpc":"2.0","error":{"code":7,"message":"m"}}`; err != nil || string(got) != want {
			t.Errorf("data %q: got %s, %v", data, got, err)
		}
	}
}
