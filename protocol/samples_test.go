package protocol_test

import (
	"encoding/json"

	"github.com/rondo-mcp/rondo/protocol"
)

// A sample is a result as a server builds it, and the schema definition for its encoding.
type sample struct {
	name, definition, method string
	result                   protocol.Result
}

// The function samples returns every result type, with all members and with none.
func samples() []sample {
	meta := protocol.Meta(`{"com.example/n":9007199254740993,"traceparent":"00-a-b-01"}`)
	cache := protocol.CacheHints{TTLMillis: 60000, Public: true}
	out := []sample{
		{"tool full", "CallToolResult", protocol.MethodCallTool, &protocol.CallToolResult{
			Content: allContent(), StructuredContent: json.RawMessage(`{"a":[1,2.50,null]}`),
			IsError: true, Meta: meta,
		}},
		{"tool minimal", "CallToolResult", protocol.MethodCallTool, &protocol.CallToolResult{}},
		{"tool scalar", "CallToolResult", protocol.MethodCallTool,
			&protocol.CallToolResult{StructuredContent: json.RawMessage(`[7]`)}},
		{"prompt full", "GetPromptResult", protocol.MethodGetPrompt, &protocol.GetPromptResult{
			Description: "d", Meta: meta,
			Messages: []protocol.PromptMessage{
				{Role: protocol.User, Content: &protocol.TextContent{Text: "hello \u2028 <b>"}},
				{Role: protocol.Assistant, Content: &protocol.ImageContent{Data: []byte{0, 255},
					MIMEType: "image/png"}},
			},
		}},
		{"prompt minimal", "GetPromptResult", protocol.MethodGetPrompt,
			&protocol.GetPromptResult{}},
		{"resource full", "ReadResourceResult", protocol.MethodReadResource,
			&protocol.ReadResourceResult{
				Cache: cache, Meta: meta,
				Contents: []protocol.ResourceContents{
					{URI: "file:///a", MIMEType: "text/plain", Text: "a", Meta: meta},
					{URI: "file:///b", Blob: []byte("bytes")},
					{URI: "file:///empty", Blob: []byte{}},
				},
			}},
		{"resource minimal", "ReadResourceResult", protocol.MethodReadResource,
			&protocol.ReadResourceResult{}},
		{"discover full", "DiscoverResult", protocol.MethodDiscover, discovered(cache)},
		{"discover minimal", "DiscoverResult", protocol.MethodDiscover,
			&protocol.DiscoverResult{SupportedVersions: protocol.Versions()}},
		{"completion full", "CompleteResult", protocol.MethodComplete, &protocol.CompleteResult{
			Values: []string{"a", ""}, Total: ptr(int64(2)), HasMore: true, Meta: meta,
		}},
		{"completion minimal", "CompleteResult", protocol.MethodComplete,
			&protocol.CompleteResult{}},
		{"listen", "SubscriptionsListenResult", protocol.MethodListen, &protocol.ListenResult{Meta: protocol.Meta(`{"io.modelcontextprotocol/subscriptionId":1}`)}},
		{"empty", "EmptyResult", protocol.MethodPing, &protocol.EmptyResult{}},
		{"empty with meta", "EmptyResult", protocol.MethodPing, &protocol.EmptyResult{Meta: meta}},
	}
	out = append(out, listSamples(cache, meta)...)
	for _, method := range []string{protocol.MethodCallTool, protocol.MethodGetPrompt,
		protocol.MethodReadResource} {
		out = append(out,
			sample{"all questions", "InputRequiredResult", method, &protocol.InputRequiredResult{
				InputRequests: questions(), RequestState: protocol.StateText("opaque"), Meta: meta,
			}},
			sample{"state only", "InputRequiredResult", method,
				&protocol.InputRequiredResult{RequestState: protocol.StateText("")}},
			sample{"question only", "InputRequiredResult", method,
				&protocol.InputRequiredResult{InputRequests: questions()[:1]}},
		)
	}
	return out
}

func listSamples(cache protocol.CacheHints, meta protocol.Meta) []sample {
	const next = "next page"
	icons := []protocol.Icon{{Src: "https://example.com/i.png", MIMEType: "image/png",
		Sizes: []string{"48x48"}, Theme: "dark"}}
	extra := map[string]json.RawMessage{"x-vendor": json.RawMessage(`{"k":[1.0]}`)}
	notes := &protocol.Annotations{Audience: []protocol.Role{protocol.User}, Priority: ptr(0.5),
		LastModified: "2025-01-12T15:00:58Z"}
	return []sample{
		{"tools full", "ListToolsResult", protocol.MethodListTools, &protocol.ListToolsResult{
			Tools: []protocol.Tool{fullTool(),
				{Name: "t", InputSchema: json.RawMessage(`{"type":"object"}`)}}, NextCursor: next,
			Cache: cache, Meta: meta,
		}},
		{"tools minimal", "ListToolsResult", protocol.MethodListTools, &protocol.ListToolsResult{}},
		{"prompts full", "ListPromptsResult", protocol.MethodListPrompts,
			&protocol.ListPromptsResult{
				Prompts: []protocol.Prompt{{
					Name: "p", Title: "P", Description: "d", Icons: icons, Meta: meta, Extra: extra,
					Arguments: []protocol.PromptArgument{{Name: "a", Title: "A", Description: "d",
						Required: true}, {Name: "b"}},
				}, {Name: "q"}},
				NextCursor: next, Cache: cache, Meta: meta,
			}},
		{"prompts minimal", "ListPromptsResult", protocol.MethodListPrompts,
			&protocol.ListPromptsResult{}},
		{"resources full", "ListResourcesResult", protocol.MethodListResources,
			&protocol.ListResourcesResult{
				Resources: []protocol.Resource{{
					URI: "file:///a", Name: "a", Title: "A", Description: "d", Icons: icons,
					MIMEType:    "text/plain",
					Annotations: notes, Size: ptr(int64(0)), Meta: meta, Extra: extra,
				}, {URI: "file:///b", Name: "b"}},
				NextCursor: next, Cache: cache, Meta: meta,
			}},
		{"resources minimal", "ListResourcesResult", protocol.MethodListResources,
			&protocol.ListResourcesResult{}},
		{"templates full", "ListResourceTemplatesResult", protocol.MethodListResourceTemplates,
			&protocol.ListResourceTemplatesResult{
				ResourceTemplates: []protocol.ResourceTemplate{{
					URITemplate: "file:///{path}", Name: "a", Title: "A", Description: "d",
					Icons: icons, MIMEType: "text/plain",
					Annotations: notes, Meta: meta, Extra: extra,
				}, {URITemplate: "x:{y}", Name: "b"}},
				NextCursor: next, Cache: cache, Meta: meta,
			}},
		{"templates minimal", "ListResourceTemplatesResult", protocol.MethodListResourceTemplates,
			&protocol.ListResourceTemplatesResult{}},
	}
}

func discovered(cache protocol.CacheHints) *protocol.DiscoverResult {
	list := &protocol.ListCapability{ListChanged: true}
	return &protocol.DiscoverResult{
		SupportedVersions: []protocol.Version{protocol.Latest},
		Capabilities: protocol.ServerCapabilities{
			Tools: list, Prompts: list, Resources: &protocol.ResourcesCapability{ListChanged: true,
				Subscribe: true},
			Logging: &struct{}{}, Completions: &struct{}{},
			Experimental: map[string]json.RawMessage{"e": json.RawMessage(`{}`)},
			Extensions:   map[string]json.RawMessage{"com.example/x": json.RawMessage(`{"a":1}`)},
		},
		Instructions: "use it", Cache: cache,
		Meta: protocol.Meta(`{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}`),
	}
}

func fullTool() protocol.Tool {
	return protocol.Tool{
		Name: "deploy", Title: "Deploy", Description: "d",
		Icons:        []protocol.Icon{{Src: "https://example.com/i.svg"}},
		InputSchema:  json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740993}}}`),
		OutputSchema: json.RawMessage(`{"type":"object"}`),
		Annotations: &protocol.ToolAnnotations{Title: "t", ReadOnlyHint: ptr(false),
			DestructiveHint: ptr(true), IdempotentHint: ptr(true), OpenWorldHint: ptr(false)},
		Meta:  protocol.Meta(`{"k":1}`),
		Extra: map[string]json.RawMessage{"x-vendor": json.RawMessage(`"v"`)},
	}
}

func allContent() []protocol.Content {
	notes := &protocol.Annotations{Audience: []protocol.Role{protocol.User, protocol.Assistant},
		Priority: ptr(1.0)}
	meta := protocol.Meta(`{"k":1}`)
	return []protocol.Content{
		&protocol.TextContent{Text: "plain"},
		&protocol.TextContent{Text: "noted", Annotations: notes, Meta: meta},
		&protocol.ImageContent{Data: []byte("png"), MIMEType: "image/png", Annotations: notes,
			Meta: meta},
		&protocol.AudioContent{Data: []byte("wav"), MIMEType: "audio/wav"},
		&protocol.ResourceLink{Resource: protocol.Resource{URI: "file:///a", Name: "a",
			Size: ptr(int64(3)), Annotations: notes, Meta: meta}},
		&protocol.EmbeddedResource{Resource: protocol.ResourceContents{URI: "file:///a", Text: "t"},
			Annotations: notes, Meta: meta},
		&protocol.EmbeddedResource{Resource: protocol.ResourceContents{URI: "file:///b",
			Blob: []byte("b"), MIMEType: "x/y"}},
	}
}

func questions() protocol.InputRequests {
	meta := protocol.Meta(`{"k":1}`)
	schema := json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`)
	return protocol.InputRequests{
		{"form", &protocol.ElicitForm{Message: "Sure?", Schema: schema, Meta: meta}},
		{"a \"quoted\" key", &protocol.ElicitForm{Schema: schema}},
		{"url", &protocol.ElicitURL{Message: "Sign in", URL: "https://example.com/x",
			ElicitationID: "legacy only", Meta: meta}},
		{"sampling full", &protocol.CreateMessage{
			Messages: []protocol.SamplingMessage{
				{Role: protocol.User, Content: []protocol.Content{&protocol.TextContent{Text: "q"}},
					Meta: meta},
				{Role: protocol.Assistant, Content: []protocol.Content{
					&protocol.ToolUse{ID: "1", Name: "t", Input: json.RawMessage(`{"a":1}`),
						Meta: meta},
					&protocol.ToolUse{ID: "2", Name: "t"},
				}},
				{Role: protocol.User, Content: []protocol.Content{
					&protocol.ToolResult{ToolUseID: "1", Content: allContent(),
						StructuredContent: json.RawMessage(`{"x":1}`), IsError: true, Meta: meta},
					&protocol.ToolResult{ToolUseID: "2"},
				}},
			},
			MaxTokens: 100, SystemPrompt: "s", IncludeContext: "none", Temperature: ptr(0.0),
			StopSequences: []string{"x"},
			ModelPreferences: &protocol.ModelPreferences{Hints: []protocol.ModelHint{{Name: "m"},
				{}}, CostPriority: ptr(0.0), SpeedPriority: ptr(1.0),
				IntelligencePriority: ptr(0.5)},
			Metadata: json.RawMessage(`{"a":1}`), Tools: []protocol.Tool{fullTool()},
			ToolChoice: &protocol.ToolChoice{Mode: "auto"}, Meta: meta,
		}},
		{"sampling minimal", &protocol.CreateMessage{MaxTokens: 1}},
		{"roots", &protocol.ListRoots{Meta: meta}},
		{"roots minimal", &protocol.ListRoots{}},
	}
}

// The function requests returns parameters of every request by method, full and minimal.
func requests() map[string][]protocol.Params {
	capabilities, _ := protocol.DecodeClientCapabilities([]byte(
		`{"elicitation":{"form":{},"url":{}},"sampling":{"context":{},"tools":{}},"roots":{},"experimental":{"e":{}},"extensions":{"a/b":{"c":1}}}`))
	full := protocol.RequestMeta{
		Version: protocol.Latest,
		ClientInfo: &protocol.Implementation{Name: "c", Title: "C", Version: "1",
			Description: "d", WebsiteURL: "https://example.com",
			Icons: []protocol.Icon{{Src: "https://example.com/i"}}},
		Capabilities: &capabilities, LogLevel: protocol.LevelWarning,
		ProgressToken: protocol.StringID("p"),
		Extra:         protocol.Meta(`{"traceparent":"00-a-b-01","com.example/k":{"deep":[1]}}`),
	}
	least := protocol.RequestMeta{Version: protocol.Latest,
		Capabilities: &protocol.ClientCapabilities{}}
	retry := protocol.Retry{
		InputResponses: protocol.InputResponses{
			{"form", json.RawMessage(`{"action":"accept","content":{"ok":true}}`)},
			{"sampling", json.RawMessage(`{"role":"assistant","content":{"type":"text","text":"t"},"model":"m"}`)},
			{"roots", json.RawMessage(`{"roots":[]}`)},
		},
		RequestState: protocol.StateText("s"),
	}
	empty := protocol.Retry{InputResponses: protocol.InputResponses{},
		RequestState: protocol.StateText("")}
	return map[string][]protocol.Params{
		protocol.MethodCallTool: {
			&protocol.CallToolParams{Name: "t",
				Arguments: json.RawMessage(`{"n":9007199254740993}`), Retry: retry,
				RequestMeta: full},
			&protocol.CallToolParams{Name: "t", RequestMeta: least},
			&protocol.CallToolParams{Name: "t", Retry: empty, RequestMeta: least},
		},
		protocol.MethodGetPrompt: {
			&protocol.GetPromptParams{Name: "p", Arguments: json.RawMessage(`{"a":"b"}`),
				Retry: retry, RequestMeta: full},
			&protocol.GetPromptParams{Name: "p", RequestMeta: least},
		},
		protocol.MethodReadResource: {
			&protocol.ReadResourceParams{URI: "file:///a", Retry: retry, RequestMeta: full},
			&protocol.ReadResourceParams{URI: "file:///a", RequestMeta: least},
		},
		protocol.MethodListTools: {&protocol.ListParams{Cursor: "c", RequestMeta: full},
			&protocol.ListParams{RequestMeta: least}},
		protocol.MethodListPrompts: {&protocol.ListParams{Cursor: "c", RequestMeta: full},
			&protocol.ListParams{RequestMeta: least}},
		protocol.MethodListResources: {&protocol.ListParams{Cursor: "c", RequestMeta: full},
			&protocol.ListParams{RequestMeta: least}},
		protocol.MethodListResourceTemplates: {&protocol.ListParams{Cursor: "c", RequestMeta: full},
			&protocol.ListParams{RequestMeta: least}},
		protocol.MethodDiscover: {&full, &least},
		protocol.MethodComplete: {
			&protocol.CompleteParams{Prompt: "p", Argument: "a", Value: "v",
				Context: map[string]string{"b": "c", "a": ""}, RequestMeta: full},
			&protocol.CompleteParams{Template: "file:///{a}", Argument: "a", RequestMeta: least},
		},
		protocol.MethodListen: {
			&protocol.ListenParams{Notifications: protocol.SubscriptionFilter{
				ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true,
				ResourceSubscriptions: []string{"file:///a"},
			}, RequestMeta: full},
			&protocol.ListenParams{RequestMeta: least},
		},
	}
}

// The function answers returns every kind of answer by definition, full and minimal.
func answers() map[string][]json.Marshaler {
	meta := protocol.Meta(`{"k":1}`)
	return map[string][]json.Marshaler{
		"ElicitResult": {
			&protocol.ElicitResult{Action: protocol.ActionAccept,
				Content: json.RawMessage(`{"s":"a","n":1,"b":true,"l":["x"]}`), Meta: meta},
			&protocol.ElicitResult{Action: protocol.ActionAccept},
			&protocol.ElicitResult{Action: protocol.ActionDecline},
			&protocol.ElicitResult{Action: protocol.ActionCancel},
		},
		"CreateMessageResult": {
			&protocol.CreateMessageResult{Role: protocol.Assistant,
				Content: []protocol.Content{&protocol.TextContent{Text: "t"}}, Model: "m",
				StopReason: "endTurn", Meta: meta},
			&protocol.CreateMessageResult{Role: protocol.Assistant, Model: "m",
				Content: []protocol.Content{
					&protocol.ToolUse{ID: "1", Name: "t"}, &protocol.TextContent{Text: "and"},
				}},
		},
		"ListRootsResult": {
			&protocol.ListRootsResult{Roots: []protocol.Root{{URI: "file:///a", Name: "a",
				Meta: meta}, {URI: "file:///b"}}, Meta: meta},
			&protocol.ListRootsResult{},
		},
	}
}

// refusals holds the errors of this package by definition.
func refusals() map[string]*protocol.Error {
	form := protocol.ClientCapabilities{Elicitation: &protocol.ElicitationCapability{Form: true}}
	return map[string]*protocol.Error{
		"MissingRequiredClientCapabilityError": protocol.MissingCapabilities(form),
		"UnsupportedProtocolVersionError": protocol.UnsupportedVersion("1999-01-01",
			protocol.Versions()),
		"HeaderMismatchError": protocol.Errorf(protocol.CodeHeaderMismatch,
			"header mismatch"),
	}
}
