package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// An attack is a body that no client should send, and what it gets.
type attack struct {
	name   string
	body   string // see expand
	status int
	code   int64  // 0: a result
	id     string // 7 unless it cannot be read
}

const (
	parseError = protocol.CodeParseError
	badRequest = protocol.CodeInvalidRequest
	badParams  = protocol.CodeInvalidParams
	mismatch   = protocol.CodeHeaderMismatch
)

// expand fills a template in for a style of handler: «» around a whole sound message, M for further
// members of params.
//
//	$method $key $target $args $meta   JSON text, $meta without its braces
func expand(template string, l leg) string {
	key, args := `"name"`, l.args
	if l.method == protocol.MethodReadResource {
		key = `"uri"`
	}
	if args == "" {
		args = `{}`
	}
	m := meta(l.caps)
	return strings.NewReplacer("$method", quote(l.method), "$key", key, "$target", quote(l.target),
		"$args", args,
		"$meta", m[1:len(m)-1]).Replace(template)
}

// with is a sound message with further members of params.
func with(members string) string {
	return `{"jsonrpc":"2.0","id":7,"method":$method,"params":{$key:$target,"arguments":$args,` + members + `,"_meta":{$meta}}}`
}

// withMeta is a message whose _meta is as given.
func withMeta(meta string) string {
	return `{"jsonrpc":"2.0","id":7,"method":$method,"params":{$key:$target,"arguments":$args,"_meta":` + meta + `}}`
}

// withID is a message whose id is as given.
func withID(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":$method,"params":{$key:$target,"arguments":$args,"_meta":{$meta}}}`
}

const sound = `{"jsonrpc":"2.0","id":7,"method":$method,"params":{$key:$target,"arguments":$args,"_meta":{$meta}}}`

func deep(n int) string { return strings.Repeat(`[`, n) + strings.Repeat(`]`, n) }

func many(n int, entry string) string {
	entries := make([]string, n)
	for i := range entries {
		entries[i] = fmt.Sprintf(entry, i)
	}
	return strings.Join(entries, ",")
}

// messageAttacks are bodies whose envelope is not sound.
func messageAttacks() []attack {
	return []attack{
		{"nothing", ``, 400, parseError, ""},
		{"white space", " \n\t", 400, parseError, ""},
		{"null", `null`, 400, badRequest, ""},
		{"list", `[]`, 400, badRequest, ""},
		{"batch", `[` + sound + `]`, 400, badRequest, ""},
		{"text", `"x"`, 400, badRequest, ""},
		{"number", `1e999`, 400, badRequest, ""},
		{"empty object", `{}`, 400, badRequest, ""},
		{"garbage behind", sound + `x`, 400, parseError, ""},
		{"two messages", sound + sound, 400, parseError, ""},
		{"byte order mark", "\ufeff" + sound, 400, parseError, ""},
		{"NUL behind", sound + "\x00", 400, parseError, ""},
		{"cut off", sound[:len(sound)-1], 400, parseError, ""},
		{"not UTF-8", with("\"a\":\"\xff\""), 400, parseError, ""},
		{"lone surrogate", with(`"a":"\ud800"`), 400, parseError, ""},
		{"no jsonrpc", `{"id":7,"method":$method,"params":{}}`, 400, badRequest, "7"},
		{"id is null", withID(`null`), 400, badRequest, ""},
		{"id is a fraction", withID(`1.5`), 400, badRequest, ""},
		{"id is long", withID(quote(strings.Repeat("7", 600))), 400, badRequest, ""},
		{"method is empty", `{"jsonrpc":"2.0","id":7,"method":"","params":{"_meta":{$meta}}}`, 400, mismatch, "7"},
		{"method in another case", `{"jsonrpc":"2.0","id":7,"method":"Tools/Call","params":{"_meta":{$meta}}}`, 400, mismatch, "7"},
		{"Method", `{"jsonrpc":"2.0","id":7,"Method":$method,"params":{}}`, 400, badRequest, "7"},
		{"method and result", `{"jsonrpc":"2.0","id":7,"method":$method,"result":{}}`, 400, badRequest, "7"},
		{"a response", `{"jsonrpc":"2.0","id":7,"result":{}}`, 400, badRequest, ""},
		{"method twice", `{"jsonrpc":"2.0","id":7,"method":$method,"method":$method}`, 400, parseError, ""},
		{"params twice", `{"jsonrpc":"2.0","id":7,"method":$method,"params":{},"params":{}}`, 400, parseError, ""},
		{"params is null", `{"jsonrpc":"2.0","id":7,"method":$method,"params":null}`, 400, badParams, "7"},
		{"params is a list", `{"jsonrpc":"2.0","id":7,"method":$method,"params":[]}`, 400, badRequest, "7"},
		{"no params", `{"jsonrpc":"2.0","id":7,"method":$method}`, 400, badParams, "7"},
		{"nested 100000 deep", with(`"a":` + deep(100_000)), 400, parseError, ""},
		{"4 MiB", with(`"a":"` + strings.Repeat("x", 4<<20) + `"`), 413, badRequest, ""},
	}
}

// paramsAttacks are messages whose parameters are not sound.
func paramsAttacks() []attack {
	version, caps := `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`, `"io.modelcontextprotocol/clientCapabilities":`+every
	list := []attack{
		{"_meta is null", withMeta(`null`), 400, badParams, "7"},
		{"_meta twice", with(`"_meta":{}`), 400, parseError, ""},
		{"Version", withMeta(`{"io.modelcontextprotocol/ProtocolVersion":"2026-07-28",` + caps + `}`), 400, badParams, "7"},
		{"version is null", withMeta(`{"io.modelcontextprotocol/protocolVersion":null,` + caps + `}`), 400, badParams, "7"},
		{"version is another", withMeta(`{"io.modelcontextprotocol/protocolVersion":"2099-01-01",` + caps + `}`), 400, mismatch, "7"},
		{"version twice", withMeta(`{` + version + `,` + version + `}`), 400, parseError, ""},
		{"no capabilities", withMeta(`{` + version + `}`), 400, badParams, "7"},
		{"progress token is a fraction",
			withMeta(`{` + version + `,` + caps + `,"progressToken":1.5}`), 400, badParams, "7"},
		{"unknown log level", withMeta(`{` + version + `,` + caps + `,"io.modelcontextprotocol/logLevel":"loud"}`), 400, badParams, "7"},
		{"target is null", `{"jsonrpc":"2.0","id":7,"method":$method,"params":{$key:null,"_meta":{$meta}}}`, 400, badParams, "7"},
		{"no target", `{"jsonrpc":"2.0","id":7,"method":$method,"params":{"_meta":{$meta}}}`, 400, badParams, "7"},
		{"target is another", `{"jsonrpc":"2.0","id":7,"method":$method,"params":{$key:"other","_meta":{$meta}}}`, 400, mismatch, "7"},
		{"target twice", with(`$key:$target`), 400, parseError, ""},
		{"further members", with(`"a":null,"__proto__":{},"":[],"A":1e999`), 200, 0, "7"},
		{"wide", with(`"a":{` + many(50_000, `"k%d":null`) + `}`), 200, 0, "7"},
		{"long name", with(quote(strings.Repeat("k", 1<<20)) + `:1`), 200, 0, "7"},
		{"nested 64 deep", with(`"a":` + deep(62)), 200, 0, "7"},
	}
	for _, caps := range []string{`null`, `[]`, `"x"`, `1`, `true`} {
		list = append(list, attack{"capabilities are " + caps,
			withMeta(`{` + version + `,"io.modelcontextprotocol/clientCapabilities":` + caps + `}`), 400, badParams, "7"})
	}
	for _, info := range []string{`null`, `[]`, `"x"`, `{"name":1}`, `{"name":null}`,
		`{"icons":[null]}`, `{"icons":{}}`} {
		list = append(list, attack{"client info is " + info,
			withMeta(`{` + version + `,` + caps + `,"io.modelcontextprotocol/clientInfo":` + info + `}`), -1, 0, "7"})
	}
	return list
}

// retryAttacks are sound messages whose answers or state are not.
func retryAttacks() []attack {
	var list []attack
	for _, state := range []string{`null`, `1`, `true`, `{}`, `[]`, `["x"]`} {
		list = append(list,
			attack{"state " + state, with(`"requestState":` + state), 400, badParams, "7"})
	}
	for name, state := range map[string]string{
		"empty": ``, "short": `x`, "line end": `abc\r\n`, "padded": `YWJj=`, "NUL": `\u0000`,
		"emoji": `😀`, "not base64": `%%%`,
		"at the limit":   strings.Repeat("A", 16<<10),
		"over the limit": strings.Repeat("A", 16<<10+1), "a megabyte": strings.Repeat("A", 1<<20),
		"dots": `a.b.c`, "path": `../../etc/passwd`, "JSON": `{\"round\":1}`,
	} {
		list = append(list,
			attack{"state: " + name, with(`"requestState":"` + state + `"`), 200, badParams, "7"})
	}
	for _, answers := range []string{`null`, `1`, `"x"`, `true`, `[]`, `[{}]`} {
		list = append(list,
			attack{"answers " + answers, with(`"inputResponses":` + answers), 400, badParams, "7"})
	}
	list = append(list,
		attack{"answers: none", with(`"inputResponses":{}`), 200, 0, "7"},
		attack{"answers: twice", with(`"inputResponses":{"a":{},"a":{}}`), 400, parseError, ""},
		attack{"answers: twice in all", with(`"inputResponses":{},"inputResponses":{}`), 400, parseError, ""},
	)
	for name, answers := range map[string]string{
		"null": `"confirm":null`, "empty key": `"":null`,
		"prototype":    `"__proto__":{"action":"accept"}`,
		"ten thousand": many(10_000, `"k%d":{"action":"accept","content":{}}`), "long key": quote(strings.Repeat("k", 1<<20)) + `:1`,
		"deep": `"confirm":` + deep(61), "huge number": `"confirm":{"action":"accept","content":{"reason":1e999999999}}`,
	} {
		list = append(list,
			attack{"answers: " + name, with(`"inputResponses":{` + answers + `}`), 200, 0, "7"})
	}
	return list
}

// argumentAttacks are sound messages whose arguments are not.
func argumentAttacks() []attack {
	list := []attack{}
	arguments := func(args string) string {
		return `{"jsonrpc":"2.0","id":7,"method":$method,"params":{$key:$target,"arguments":` + args + `,"_meta":{$meta}}}`
	}
	for _, args := range []string{`1`, `"x"`, `true`, `[]`, `[{}]`} {
		list = append(list, attack{"arguments " + args, arguments(args), 400, badParams, "7"})
	}
	list = append(list,
		attack{"argument twice", arguments(`{"env":"a","env":"b"}`), 400, parseError, ""})
	for name, args := range map[string]string{
		"null": `{"env":null,"topic":null}`, "1e999": `{"n":1e999}`,
		"a huge exponent": `{"n":1e999999999,"m":-1E-999999999}`,
		"a long number":   `{"n":` + strings.Repeat("9", 100_000) + `}`,
		"prototype":       `{"__proto__":{},"constructor":null}`,
		"empty name":      `{"":1}`, "wrong case": `{"Env":"x","TOPIC":"y"}`,
		"wide": `{` + many(20_000, `"k%d":%[1]d`) + `}`,
		"deep": `{"a":` + deep(60) + `}`, "long": `{"env":"` + strings.Repeat("x", 1<<20) + `"}`,
	} {
		list = append(list, attack{"arguments: " + name, arguments(args), -1, 0, "7"})
	}
	return list
}

// TestRequestBodiesAreReadStrictly sends each attack to each style of handler. Every one is
// answered, with a status that is not the server's fault and the id where that can be read; nothing
// panics, is left running or counts as the server's mistake; and the next honest request is served.
func TestRequestBodiesAreReadStrictly(t *testing.T) {
	testkit.CheckLeaks(t)
	for name, l := range map[string]leg{
		"typed tool":                   {target: "deploy", args: `{"env":"x"}`},
		"tool that takes cold answers": {target: "cold"},
		"prompt": {method: protocol.MethodGetPrompt, target: "brief",
			args: `{"topic":"x"}`},
		"resource": {method: protocol.MethodReadResource, target: "vault://codes"},
	} {
		t.Run(name, func(t *testing.T) {
			l = l.defaulted()
			attacks := append(messageAttacks(), paramsAttacks()...)
			if l.method != protocol.MethodReadResource { // which has no arguments
				attacks = append(attacks, argumentAttacks()...)
			}
			shared := newWire(t, nil)
			// from here on the server counts: some look like a client that loses its state
			fresh := len(attacks)
			attacks = append(attacks, retryAttacks()...)
			for i, a := range attacks {
				t.Run(a.name, func(t *testing.T) {
					w := shared
					if w.t = t; i >= fresh {
						w = newWire(t, nil)
					}
					assault(w, a, l)
					w.send(l)
					if bugs, panics := w.bugs(),
						seen[event.HandlerPanicked](w.watch); len(bugs) > 0 || len(panics) > 0 {
						t.Errorf("the server reports %q, %+v", bugs, panics)
					}
				})
			}
		})
	}
}

func assault(w *wire, a attack, l leg) {
	w.t.Helper()
	r := w.exchange(expand(a.body, l), l.method, l.target)
	if got := string(parse(w.t, r.body)["id"]); got != a.id {
		w.t.Errorf("got id %s, want %s: %.300s", got, a.id, r.body)
	}
	code := int64(0)
	if r.err != nil {
		code = r.err.Code
	}
	switch {
	case a.status < 0:
		// whether it is refused is up to the handler, but not that it is told properly
		if r.status != http.StatusOK && (r.status != http.StatusBadRequest || code == 0) {
			w.t.Errorf("got status %d: %.300s", r.status, r.body)
		}
		if code == protocol.CodeInternalError {
			w.t.Errorf("got %.300s", r.body)
		}
	case r.status != a.status || code != a.code:
		w.t.Errorf("got status %d and code %d, want %d and %d: %.300s", r.status, code, a.status,
			a.code, r.body)
	}
	// and what it asks is the author's business
	asks := string(r.result["resultType"]) == `"input_required"`
	if len(r.body) > 4<<10 && !asks {
		w.t.Errorf("the response repeats %d bytes", len(r.body))
	}
}

// TestModernOnlyServersServeNoBatch sends batches to servers without older revisions. A handler
// that is stateless for those must not serve a batch either.
func TestModernOnlyServersServeNoBatch(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"plain"}}`
	batch := `[{"jsonrpc":"2.0","id":1,"method":"ping"},` + call + `]`
	for _, stateless := range []bool{false, true} {
		for _, version := range []string{"", "2025-03-26", revision} {
			t.Run(fmt.Sprintf("stateless %t, version %q", stateless, version), func(t *testing.T) {
				srv, _ := mustServe(t, &server.Options{ModernOnly: true})
				url := listen(t, servertest.NewHandler(t, srv,
					&serverhttp.Options{StatelessLegacy: stateless}))
				header := http.Header{"Content-Type": {"application/json"}}
				header.Set("Accept", "application/json, text/event-stream")
				if version != "" {
					header.Set("Mcp-Protocol-Version", version)
				}
				wantRefused(t, url, header, batch, protocol.CodeInvalidRequest)
			})
		}
	}
}

// TestHeaderEchoIsClipped holds that an error repeats at most 64 bytes of a header.
func TestHeaderEchoIsClipped(t *testing.T) {
	w := newWire(t, nil)
	for _, test := range []struct {
		name, echo string
		length     int
	}{
		{"at the limit", strings.Repeat("x", 64), 64},
		{"one over the limit", strings.Repeat("x", 64) + "…", 65},
	} {
		t.Run(test.name, func(t *testing.T) {
			w.t = t
			l := leg{target: "plain"}.defaulted()
			body := expand(sound, l)
			r := w.exchange(body, l.method, strings.Repeat("x", test.length))
			r.wantError(http.StatusBadRequest, mismatch)
			if r.err != nil && !strings.Contains(r.err.Message, `"`+test.echo+`"`) {
				t.Errorf("got %q, want it to repeat %q", r.err.Message, test.echo)
			}
		})
	}
}

// wantRefused posts a body and holds the response against status 400 and a JSON-RPC error.
func wantRefused(t *testing.T, url string, header http.Header, body string, code int64) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url,
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	resp, err := (&http.Client{Transport: transport(t), Timeout: patience}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got struct {
		Error struct{ Code int64 }
	}
	err = json.NewDecoder(resp.Body).Decode(&got)
	if err != nil || resp.StatusCode != http.StatusBadRequest || got.Error.Code != code {
		t.Errorf("got status %d and code %d, %v, want 400 and %d", resp.StatusCode, got.Error.Code,
			err, code)
	}
}
