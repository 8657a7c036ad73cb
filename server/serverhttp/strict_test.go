package serverhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

// attacks are bodies that no client should send, by name, and the responses. Bodies contain
//
//	$method $key $target $args $meta   JSON text, $meta without its braces
type attacks struct {
	status int    // anyAnswer if the handler decides
	code   int64  // 0 for a result
	id     string // the id in the response
	bodies map[string]string
}

const (
	anyAnswer  = -1
	parseError = protocol.CodeParseError
	badRequest = protocol.CodeInvalidRequest
	badParams  = protocol.CodeInvalidParams
	mismatch   = protocol.CodeHeaderMismatch
)

const (
	sound    = `{"jsonrpc":"2.0","id":7,"method":$method,"params":{$key:$target,"arguments":$args,"_meta":{$meta}}}`
	metaOnly = `{"_meta":{$meta}}`
	version  = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
	able     = `"io.modelcontextprotocol/clientCapabilities":` + allCapabilities
)

// The function with returns a valid message with further members of params.
func with(members string) string {
	return strings.Replace(sound, `"_meta"`, members+`,"_meta"`, 1)
}

// withMeta replaces the _meta of a valid message, withID the id, withArguments the arguments.
func withMeta(meta string) string      { return strings.Replace(sound, `{$meta}`, meta, 1) }
func withID(id string) string          { return strings.Replace(sound, `7`, id, 1) }
func withArguments(args string) string { return strings.Replace(sound, `$args`, args, 1) }

func withParams(method, params string) string {
	return `{"jsonrpc":"2.0","id":7,` + method + `"params":` + params + `}`
}

func deep(n int) string { return strings.Repeat(`[`, n) + strings.Repeat(`]`, n) }

func repeated(n int, entry string) string {
	entries := make([]string, n)
	for i := range entries {
		entries[i] = fmt.Sprintf(entry, i)
	}
	return strings.Join(entries, ",")
}

// The function each returns a body for each value, named by it.
func each(build func(string) string, values ...string) map[string]string {
	bodies := map[string]string{}
	for _, value := range values {
		bodies[value] = build(value)
	}
	return bodies
}

// messageAttacks are bodies with an invalid envelope or invalid parameters.
func messageAttacks() []attacks {
	info := func(info string) string {
		return withMeta(`{` + version + `,` + able + `,"io.modelcontextprotocol/clientInfo":` +
			info + `}`)
	}
	return []attacks{
		{400, parseError, "", map[string]string{
			"nothing": ``, "white space": " \n\t", "not JSON": `hello`,
			"byte order mark": "\ufeff" + sound, "nested 1000 deep": deep(1000),
			"id twice": `{"jsonrpc":"2.0","id":7,"id":7,"method":$method}`,
		}},
		{400, parseError, "7", map[string]string{
			"garbage behind": sound + `x`, "two messages": sound + sound,
			"NUL behind": sound + "\x00", "NaN": with(`"a":NaN`),
			"cut off": sound[:len(sound)-1], "not UTF-8": with("\"cursor\":\"\xff\""),
			"lone surrogate": with(`"requestState":"\ud800"`),
			"method twice":   `{"jsonrpc":"2.0","id":7,"method":$method,"method":$method}`,
			"params twice":   `{"jsonrpc":"2.0","id":7,"method":$method,"params":{},"params":{}}`,
			"_meta twice":    with(`"_meta":{}`), "target twice": with(`$key:$target`),
			"version twice":      withMeta(`{` + version + `,` + version + `}`),
			"nested 100000 deep": with(`"a":` + deep(100_000)),
		}},
		{400, badRequest, "", map[string]string{
			"null": `null`, "list": `[]`, "batch": `[` + sound + `]`, "text": `"x"`,
			"number": `1e999`, "empty object": `{}`, "id is null": withID(`null`),
			"id is a fraction": withID(`1.5`),
			"id is long":       withID(`"` + strings.Repeat("7", 600) + `"`),
			"a response":       `{"jsonrpc":"2.0","id":7,"result":{}}`,
		}},
		{400, badRequest, "7", map[string]string{
			"no jsonrpc":        `{"id":7,"method":$method,"params":{}}`,
			"Method":            withParams(`"Method":$method,`, `{}`),
			"method and result": `{"jsonrpc":"2.0","id":7,"method":$method,"result":{}}`,
			"params is a list":  withParams(`"method":$method,`, `[]`),
		}},
		{400, badRequest, "9007199254740993", map[string]string{
			"method is a number": `{"jsonrpc":"2.0","id":9007199254740993,"method":1}`}},
		{400, mismatch, "7", map[string]string{
			"method is empty":        withParams(`"method":"",`, metaOnly),
			"method in another case": withParams(`"method":"Tools/Call",`, metaOnly),
			"target is another": withParams(`"method":$method,`,
				`{$key:"other","_meta":{$meta}}`),
			"version is another": withMeta(
				`{"io.modelcontextprotocol/protocolVersion":"2099-01-01",` + able + `}`),
		}},
		{413, badRequest, "", map[string]string{
			"16 MiB": with(`"a":"` + strings.Repeat("x", 16<<20) + `"`)}},
		{400, badParams, "7", map[string]string{
			"params is null": withParams(`"method":$method,`, `null`),
			"no params":      `{"jsonrpc":"2.0","id":7,"method":$method}`,
			"target is null": withParams(`"method":$method,`, `{$key:null,"_meta":{$meta}}`),
			"no target":      withParams(`"method":$method,`, metaOnly),
			"_meta is null":  withMeta(`null`),
			"Version": withMeta(
				`{"io.modelcontextprotocol/ProtocolVersion":"2026-07-28",` + able + `}`),
			"version is null": withMeta(
				`{"io.modelcontextprotocol/protocolVersion":null,` + able + `}`),
			"no capabilities": withMeta(`{` + version + `}`),
			"progress token is a fraction": withMeta(
				`{` + version + `,` + able + `,"progressToken":1.5}`),
			"unknown log level": withMeta(
				`{` + version + `,` + able + `,"io.modelcontextprotocol/logLevel":"loud"}`),
		}},
		{400, badParams, "7", each(func(caps string) string {
			return withMeta(`{` + version + `,"io.modelcontextprotocol/clientCapabilities":` + caps +
				`}`)
		}, `null`, `[]`, `"x"`, `1`, `true`)},
		{anyAnswer, 0, "7", each(info, `null`, `[]`, `"x"`, `{"name":1}`, `{"name":null}`,
			`{"icons":[null]}`, `{"icons":{}}`)},
		{200, 0, "7", map[string]string{
			"further members": with(`"a":null,"__proto__":{},"":[],"A":1e999`),
			"wide":            with(`"a":{` + repeated(50_000, `"k%d":null`) + `}`),
			"long name":       with(`"` + strings.Repeat("k", 1<<20) + `":1`),
			"nested 64 deep":  with(`"a":` + deep(62)),
		}},
	}
}

// argumentAttacks are valid messages with invalid arguments.
func argumentAttacks() []attacks {
	return []attacks{
		{400, badParams, "7", each(withArguments, `1`, `"x"`, `true`, `[]`, `[{}]`)},
		{400, parseError, "7", each(withArguments, `{"env":"a","env":"b"}`,
			`{"\ufffd":"a","\ud800":"b"}`)},
		{anyAnswer, 0, "7", map[string]string{
			"null":  withArguments(`{"env":null,"topic":null}`),
			"1e999": withArguments(`{"n":1e999}`),
			"a huge exponent": withArguments(
				`{"n":1e999999999,"m":-1E-999999999}`),
			"a long number": withArguments(`{"n":` + strings.Repeat("9", 100_000) + `}`),
			"prototype":     withArguments(`{"__proto__":{},"constructor":null}`),
			"empty name":    withArguments(`{"":1}`),
			"wrong case":    withArguments(`{"Env":"x","TOPIC":"y"}`),
			"wide":          withArguments(`{` + repeated(20_000, `"k%d":%[1]d`) + `}`),
			"deep":          withArguments(`{"a":` + deep(60) + `}`),
			"long":          withArguments(`{"env":"` + strings.Repeat("x", 60<<10) + `"}`),
		}},
	}
}

// retryAttacks are valid messages with invalid answers or state.
func retryAttacks() []attacks {
	state := func(state string) string { return with(`"requestState":` + state) }
	text := func(text string) string { return state(`"` + text + `"`) }
	answers := func(answers string) string { return with(`"inputResponses":` + answers) }
	return []attacks{
		{400, badParams, "7", each(state, `null`, `1`, `true`, `{}`, `[]`, `["x"]`)},
		{200, badParams, "7", each(text, ``, `x`, `abc\r\n`, `YWJj=`, `\u0000`, `😀`, `%%%`, `a.b.c`,
			`../../etc/passwd`, `{\"round\":1}`)},
		{200, badParams, "7", map[string]string{
			"at the limit":   text(strings.Repeat("A", 16<<10)),
			"over the limit": text(strings.Repeat("A", 16<<10+1)),
			"a megabyte":     text(strings.Repeat("A", 1<<20)),
		}},
		{400, badParams, "7", each(answers, `null`, `1`, `"x"`, `true`, `[]`, `[{}]`)},
		{400, parseError, "7", each(answers, `{"a":{},"a":{}}`, `{},"inputResponses":{}`,
			`{"\ud800":{}}`, `{"a":{"action":"accept","content":{"b":["\ud800"]}}}`)},
		{200, 0, "7", each(answers, `{}`, `{"confirm":null}`, `{"":null}`,
			`{"__proto__":{"action":"accept"}}`,
			`{"confirm":{"action":"accept","content":{"reason":1e999999999}}}`)},
		{200, 0, "7", map[string]string{
			"ten thousand": answers(
				`{` + repeated(10_000, `"k%d":{"action":"accept","content":{}}`) + `}`),
			"long key": answers(`{"` + strings.Repeat("k", 1<<20) + `":1}`),
			"deep":     answers(`{"confirm":` + deep(61) + `}`),
		}},
	}
}

// A target is a style of handler and its call.
type target struct {
	method, key, name, args string
}

// strictServer serves every target. Internal errors fail t.
func strictServer(t testing.TB) *server.Server {
	srv := newServer(t, &server.Options{Observer: observerFunc(func(e event.Event) {
		switch e.(type) {
		case event.ServerBug, event.HandlerPanicked:
			t.Errorf("the server reports %T %+v", e, e)
		}
	})})
	servertest.Register(srv)
	server.AddRawTool(srv, server.Tool{Name: "cold", AcceptUnsolicited: true},
		func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			answer := roundtrip.Answer[servertest.Confirmation](ctx, "confirm")
			return server.Text(answer.Outcome.String()), nil
		})
	server.AddResource(srv, server.Resource{URI: "vault://codes", Name: "codes"},
		func(ctx context.Context, _ *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
			why, ok := roundtrip.AcceptedContent[servertest.Confirmation](ctx, "confirm")
			if !ok {
				return roundtrip.InputRequired(
					roundtrip.Elicit[servertest.Confirmation]("confirm", "Open?")), nil
			}
			return &protocol.ReadResourceResult{
				Contents: []protocol.ResourceContents{{Text: why.Reason}}}, nil
		})
	return srv
}

// Each attack on each style of handler is answered with a client's error and the id if readable;
// nothing panics, leaks or counts as a server error; and the next valid request is served.
func TestRequestBodiesAreReadStrictly(t *testing.T) {
	testkit.CheckLeaks(t)
	for name, to := range map[string]target{
		"typed tool":                   {"tools/call", "name", "deploy", `{"env":"x"}`},
		"tool that takes cold answers": {"tools/call", "name", "cold", `{}`},
		"prompt":                       {"prompts/get", "name", "brief", `{"topic":"x"}`},
		"resource":                     {"resources/read", "uri", "vault://codes", `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			shared, _ := serve(t, strictServer(t), nil)
			list := messageAttacks()
			if to.key == "name" { // a resource has no arguments
				list = append(list, argumentAttacks()...)
			}
			for _, a := range list {
				for name, body := range a.bodies {
					t.Run(name, func(t *testing.T) { to.attack(t, shared, a, body) })
				}
			}
			// some look like a client that loses its state, which the server counts
			for _, a := range retryAttacks() {
				for name, body := range a.bodies {
					t.Run("retry: "+name, func(t *testing.T) {
						fresh, _ := serve(t, strictServer(t), nil)
						to.attack(t, fresh, a, body)
					})
				}
			}
		})
	}
}

func (to target) attack(t *testing.T, ts *httptest.Server, a attacks, template string) {
	quoted := func(text string) string { return `"` + text + `"` }
	fill := func(template string) string {
		return strings.NewReplacer("$method", quoted(to.method), "$key", quoted(to.key), "$target",
			quoted(to.name), "$args", to.args, "$meta", version+","+able).Replace(template)
	}
	header := headers(to.method, to.name)
	got := do(t, ts, "POST", header, fill(template))
	wantEqual(t, fmt.Sprintf("id of %.300s", got.body), string(got.ID), a.id)
	if err := jsonx.Check([]byte(got.body)); err != nil ||
		got.header.Get("Content-Type") != "application/json" {
		t.Errorf("got %s, %v: %.300s", got.header.Get("Content-Type"), err, got.body)
	}
	switch {
	case a.status != anyAnswer:
		if got.status != a.status || got.code() != a.code {
			t.Errorf("got status %d and code %d, want %d and %d: %.300s", got.status, got.code(),
				a.status, a.code, got.body)
		}
	case got.status != http.StatusOK && (got.status != http.StatusBadRequest || got.code() == 0),
		got.code() == protocol.CodeInternalError: // it needs a proper error
		t.Errorf("got status %d: %.300s", got.status, got.body)
	}
	// the handler decides its question
	if len(got.body) > 4<<10 && got.Result.ResultType != "input_required" {
		t.Errorf("the response repeats %d bytes", len(got.body))
	}
	if next := do(t, ts, "POST", header, fill(sound)); next.status != 200 || next.code() != 0 {
		t.Errorf("the next request gets status %d: %.300s", next.status, next.body)
	}
}
