package protocol_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// A recode decodes an example and encodes the result.
type recode func(raw []byte) ([]byte, error)

// The variable published holds the check for each type of the published examples.
var published = checksByType(map[string]string{
	"CallTool":              protocol.MethodCallTool,
	"Complete":              protocol.MethodComplete,
	"Discover":              protocol.MethodDiscover,
	"GetPrompt":             protocol.MethodGetPrompt,
	"ListPrompts":           protocol.MethodListPrompts,
	"ListResourceTemplates": protocol.MethodListResourceTemplates,
	"ListResources":         protocol.MethodListResources,
	"ListTools":             protocol.MethodListTools,
	"ReadResource":          protocol.MethodReadResource,
	"SubscriptionsListen":   protocol.MethodListen,
}, map[string]recode{
	"CallToolRequestParams":  params(protocol.MethodCallTool),
	"CompleteRequestParams":  params(protocol.MethodComplete),
	"GetPromptRequestParams": params(protocol.MethodGetPrompt),
	"PaginatedRequestParams": params(protocol.MethodListTools),
	"InputRequiredResult":    resultOf(protocol.MethodCallTool),

	"CancelledNotification":                 notification[protocol.Cancelled],
	"LoggingMessageNotification":            notification[protocol.LogMessage],
	"ProgressNotification":                  notification[protocol.Progress],
	"CancelledNotificationParams":           plain[protocol.Cancelled],
	"LoggingMessageNotificationParams":      plain[protocol.LogMessage],
	"ProgressNotificationParams":            plain[protocol.Progress],
	"PromptListChangedNotification":         message,
	"ResourceListChangedNotification":       message,
	"ResourceUpdatedNotification":           message,
	"ToolListChangedNotification":           message,
	"SubscriptionsAcknowledgedNotification": acknowledged,

	"AudioContent":         inContent,
	"EmbeddedResource":     inContent,
	"ImageContent":         inContent,
	"ResourceLink":         inContent,
	"TextContent":          inContent,
	"ToolResultContent":    inside(createMessage, `{"maxTokens":1,"messages":[{"role":"user","content":`, `}]}`),
	"ToolUseContent":       inside(createMessage, `{"maxTokens":1,"messages":[{"role":"assistant","content":`, `}]}`),
	"SamplingMessage":      inside(createMessage, `{"maxTokens":1,"messages":[`, `]}`),
	"ModelPreferences":     inside(createMessage, `{"maxTokens":1,"messages":[],"modelPreferences":`, `}`),
	"BlobResourceContents": inside(resultOf(protocol.MethodReadResource), `{"resultType":"complete","ttlMs":0,"cacheScope":"private","contents":[`, `]}`),
	"TextResourceContents": inside(resultOf(protocol.MethodReadResource), `{"resultType":"complete","ttlMs":0,"cacheScope":"private","contents":[`, `]}`),
	"Resource":             inside(resultOf(protocol.MethodListResources), `{"resultType":"complete","ttlMs":0,"cacheScope":"private","resources":[`, `]}`),
	"Tool":                 inside(resultOf(protocol.MethodListTools), `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[`, `]}`),
	"Root":                 inside(answer("ListRootsResult"), `{"roots":[`, `]}`),

	"ClientCapabilities": clientCapabilities,
	"ServerCapabilities": plain[protocol.ServerCapabilities],

	"InputRequests": inside(resultOf(protocol.MethodCallTool), `{"resultType":"input_required","inputRequests":`, `}`),
	"InputResponses": inside(params(protocol.MethodCallTool),
		`{"name":"n","inputResponses":`, `}`),
	"CreateMessageRequest":       inside(resultOf(protocol.MethodCallTool), `{"resultType":"input_required","inputRequests":{"key":`, `}}`),
	"ElicitRequest":              inside(resultOf(protocol.MethodCallTool), `{"resultType":"input_required","inputRequests":{"key":`, `}}`),
	"ListRootsRequest":           listRoots,
	"CreateMessageRequestParams": createMessage,
	"ElicitRequestFormParams":    elicit,
	"ElicitRequestURLParams":     elicit,
	"CreateMessageResult":        answer("CreateMessageResult"),
	"ElicitResult":               answer("ElicitResult"),
	"ListRootsResult":            answer("ListRootsResult"),

	"HeaderMismatchError":                  message,
	"MissingRequiredClientCapabilityError": missingCapability,
	"UnsupportedProtocolVersionError":      unsupportedVersion,
	"InternalError": inside(message,
		`{"jsonrpc":"2.0","id":1,"error":`, `}`),
	"InvalidParamsError":  inside(message, `{"jsonrpc":"2.0","id":1,"error":`, `}`),
	"MethodNotFoundError": inside(message, `{"jsonrpc":"2.0","id":1,"error":`, `}`),
	"ParseError":          inside(message, `{"jsonrpc":"2.0","id":1,"error":`, `}`),
})

// checksByType adds the request, result and response of each method to checks.
func checksByType(methods map[string]string, checks map[string]recode) map[string]recode {
	for name, method := range methods {
		checks[name+"Request"] = message
		checks[name+"Result"], checks[name+"ResultResponse"] = resultOf(method), response(method)
	}
	return checks
}

var inContent = inside(resultOf(protocol.MethodCallTool),
	`{"resultType":"complete","content":[`, `]}`)

// notModelled are the types without a Go type, with the reason.
var notModelled = map[string]string{
	"BooleanSchema":                     "a requestedSchema is raw JSON here; package form reads it",
	"NumberSchema":                      "a requestedSchema is raw JSON here; package form reads it",
	"StringSchema":                      "a requestedSchema is raw JSON here; package form reads it",
	"TitledMultiSelectEnumSchema":       "a requestedSchema is raw JSON here; package form reads it",
	"TitledSingleSelectEnumSchema":      "a requestedSchema is raw JSON here; package form reads it",
	"UntitledMultiSelectEnumSchema":     "a requestedSchema is raw JSON here; package form reads it",
	"UntitledSingleSelectEnumSchema":    "a requestedSchema is raw JSON here; package form reads it",
	"ResourceUpdatedNotificationParams": "one URI; ResourceUpdatedNotification checks the message",
}

// The variable respelled has examples that are encoded differently with the same meaning:
// replacements in the compact example.
var respelled = map[string]struct{ old, new string }{
	// Absent members with the same meaning are not written.
	"CallToolResult/result-with-unstructured-text":      {`,"isError":false`, ""},
	"CallToolResultResponse/call-tool-result-response":  {`,"isError":false`, ""},
	"CompleteResult/single-completion-value":            {`,"hasMore":false`, ""},
	"CompleteResultResponse/completion-result-response": {`,"hasMore":false`, ""},
	// The mode of a form is written from 2025-11-25 on.
	"InputRequiredResult/input-required-result-with-elicitation-and-sampling-and-request-state": {
		`"params":{"message"`, `"params":{"mode":"form","message"`,
	},
	// Cache hints are required by the schema; absent hints have the values that are written.
	"ReadResourceResultResponse/read-resource-result-response": {`"contents"`, `"ttlMs":0,"cacheScope":"private","contents"`},
	// An entry of inputRequests has no id; some clients require params.
	"ListRootsRequest/list-roots-request": {
		`{"id":"list-roots-example","method":"roots/list"}`,
		`{"resultType":"input_required","inputRequests":{"key":{"method":"roots/list","params":{}}}}`,
	},
}

func TestPublishedExamples(t *testing.T) {
	wiretest.Need(t)
	examples, ok := wiretest.Examples(string(protocol.Latest))
	if !ok {
		t.Fatalf("no examples of %s beside its schema", protocol.Latest)
	}
	seen, unused := map[string]bool{}, maps.Clone(respelled)
	for _, example := range examples {
		seen[example.Type] = true
		name := example.Type + "/" + example.Name
		t.Run(name, func(t *testing.T) {
			if _, ok := notModelled[example.Type]; ok {
				return
			}
			again, ok := published[example.Type]
			if !ok {
				t.Fatalf("no way to check a %s: add one, or a reason not to", example.Type)
			}
			got, err := again(example.JSON)
			noError(t, err)
			var want bytes.Buffer
			noError(t, json.Compact(&want, example.JSON))
			text := want.String()
			if edit, ok := respelled[name]; ok {
				if strings.Count(text, edit.old) != 1 {
					t.Fatalf("%s is not once in %s", edit.old, text)
				}
				text = strings.Replace(text, edit.old, edit.new, 1)
				delete(unused, name)
			}
			sameJSON(t, got, []byte(text))
		})
	}
	for name := range unused {
		t.Errorf("%s is not among the examples", name)
	}
	for name := range published {
		if !seen[name] {
			t.Errorf("there is no example of %s", name)
		}
		if _, ok := notModelled[name]; ok {
			t.Errorf("%s is both checked and excluded", name)
		}
	}
	for name := range notModelled {
		if !seen[name] {
			t.Errorf("there is no example of %s", name)
		}
	}
}

func message(raw []byte) ([]byte, error) {
	m, err := protocol.DecodeMessage(raw)
	if err != nil {
		return nil, err
	}
	if req, ok := m.(*protocol.Request); ok {
		if req.Params, err = params(req.Method)(req.Params); err != nil {
			return nil, err
		}
	}
	return protocol.AppendMessage(nil, m)
}

func params(method string) recode {
	return func(raw []byte) ([]byte, error) {
		p, err := protocol.DecodeParams(method, raw)
		if err != nil {
			return nil, err
		}
		return protocol.EncodeParams(p)
	}
}

func resultOf(method string) recode {
	return func(raw []byte) ([]byte, error) {
		r, err := protocol.DecodeResult(protocol.Latest, method, raw)
		if err != nil {
			return nil, err
		}
		return protocol.EncodeResult(protocol.Latest, method, r)
	}
}

func response(method string) recode {
	return func(raw []byte) ([]byte, error) {
		m, err := protocol.DecodeMessage(raw)
		if err != nil {
			return nil, err
		}
		r, ok := m.(*protocol.Response)
		if !ok {
			return nil, fmt.Errorf("decoded as %T", m)
		}
		if r.Result, err = resultOf(method)(r.Result); err != nil {
			return nil, err
		}
		return protocol.AppendMessage(nil, r)
	}
}

func plain[T any](raw []byte) ([]byte, error) {
	var v T
	if err := jsonx.Decode(raw, &v); err != nil {
		return nil, err
	}
	return jsonx.Encode(v)
}

func notification[T any](raw []byte) ([]byte, error) {
	m, err := protocol.DecodeMessage(raw)
	if err != nil {
		return nil, err
	}
	n, ok := m.(*protocol.Notification)
	if !ok {
		return nil, fmt.Errorf("decoded as %T", m)
	}
	if n.Params, err = plain[T](n.Params); err != nil {
		return nil, err
	}
	return protocol.AppendMessage(nil, n)
}

func acknowledged(raw []byte) ([]byte, error) {
	return notification[struct {
		Notifications protocol.SubscriptionFilter `json:"notifications"`
		Meta          protocol.Meta               `json:"_meta,omitzero"`
	}](raw)
}

// The function inside checks a part of a message within a minimal message.
func inside(whole recode, before, after string) recode {
	return func(raw []byte) ([]byte, error) {
		got, err := whole(bytes.Join([][]byte{[]byte(before), raw, []byte(after)}, nil))
		if err != nil {
			return nil, err
		}
		return cutOut(got, before, after)
	}
}

// cutOut returns the value between before and after, for any order of members.
func cutOut(got []byte, before, after string) ([]byte, error) {
	const mark = `"here"`
	var pattern, v any
	if err := json.Unmarshal([]byte(before+mark+after), &pattern); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(got))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	part, ok := find(pattern, v)
	if !ok {
		return nil, fmt.Errorf("part is gone: %s", got)
	}
	return json.Marshal(part)
}

func find(pattern, v any) (any, bool) {
	switch p := pattern.(type) {
	case string:
		return v, p == "here"
	case []any:
		list, _ := v.([]any)
		for i := range min(len(p), len(list)) {
			if part, ok := find(p[i], list[i]); ok {
				return part, true
			}
		}
	case map[string]any:
		object, _ := v.(map[string]any)
		for key := range p {
			if inner, ok := object[key]; ok {
				if part, ok := find(p[key], inner); ok {
					return part, true
				}
			}
		}
	}
	return nil, false
}

func question(method string) recode {
	return func(raw []byte) ([]byte, error) {
		q, err := protocol.DecodeInputRequest(method, raw)
		if err != nil {
			return nil, err
		}
		got, err := protocol.AppendInputRequest(nil, protocol.Latest, q)
		if err != nil {
			return nil, err
		}
		return cutOut(got, `{"params":`, `}`)
	}
}

var (
	createMessage = question(protocol.MethodCreateMessage)
	elicit        = question(protocol.MethodElicit)
)

func listRoots(raw []byte) ([]byte, error) {
	whole := `{"resultType":"input_required","inputRequests":{"key":` + string(raw) + `}}`
	return resultOf(protocol.MethodCallTool)([]byte(whole))
}

func clientCapabilities(raw []byte) ([]byte, error) {
	c, err := protocol.DecodeClientCapabilities(raw)
	if err != nil {
		return nil, err
	}
	return c.MarshalJSON()
}

func answer(definition string) recode {
	return func(raw []byte) ([]byte, error) {
		r, err := decodeAnswer(definition, raw)
		if err != nil {
			return nil, err
		}
		return r.MarshalJSON()
	}
}

func missingCapability(raw []byte) ([]byte, error) {
	e, err := errorOf(raw)
	if err != nil {
		return nil, err
	}
	required, ok := e.RequiredCapabilities()
	if !ok {
		return nil, fmt.Errorf("no required capabilities in %s", e.Data)
	}
	made := protocol.MissingCapabilities(required)
	made.Message = e.Message
	return protocol.AppendMessage(nil, &protocol.Response{ID: protocol.IntID(1), Error: made})
}

func unsupportedVersion(raw []byte) ([]byte, error) {
	e, err := errorOf(raw)
	if err != nil {
		return nil, err
	}
	var data struct{ Requested string }
	if err := json.Unmarshal(e.Data, &data); err != nil {
		return nil, err
	}
	made := protocol.UnsupportedVersion(data.Requested, e.SupportedVersions())
	made.Message = e.Message
	return protocol.AppendMessage(nil, &protocol.Response{ID: protocol.IntID(1), Error: made})
}

func errorOf(raw []byte) (*protocol.Error, error) {
	m, err := protocol.DecodeMessage(raw)
	if err != nil {
		return nil, err
	}
	r, ok := m.(*protocol.Response)
	if !ok || r.Error == nil {
		return nil, fmt.Errorf("decoded as %T without an error", m)
	}
	return r.Error, nil
}
