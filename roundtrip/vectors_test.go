package roundtrip_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// The function updating reports whether -update, a flag of package wiretest, is set.
func updating() bool { return flag.Lookup("update").Value.String() == "true" }

// vector is one block of testdata/state/states.txt: a state, its call, and the result. Sealing is
// random, so -update changes every token; use it only after a change of format.
type vector struct {
	name  string
	token string
	call  roundtrip.Call
	aud   string
	at    time.Time
	want  string // "ok" or the reason
}

const vectorFile = "testdata/state/states.txt"

// The bubble of synctest begins at 2000-01-01T00:00; the vectors' states are issued an hour later.
func clock(offset string) time.Time {
	d, err := time.ParseDuration(offset)
	if err != nil {
		panic(err)
	}
	return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(d)
}

func ring(t testing.TB, ids ...string) *keys.Keyring {
	t.Helper()
	names := make([]keys.Key, len(ids))
	for i, id := range ids {
		// An obviously fake secret, made of the id.
		key, err := keys.NewKey(id, bytes.Repeat([]byte(id), 32))
		noError(t, err)
		names[i] = key
	}
	r, err := keys.NewKeyring(names[0], names[1:]...)
	noError(t, err)
	return r
}

func seal(t testing.TB, sealer keys.Sealer, plaintext []byte) string {
	t.Helper()
	text, err := sealer.Seal(t.Context(), plaintext)
	noError(t, err)
	return text
}

func honest() roundtrip.VectorClaims {
	return roundtrip.VectorClaims{
		Call: toolCall(), Audience: "https://mcp.example",
		Issued: clock("1h"), Expires: clock("2h"), Deadline: clock("25h"),
	}
}

var extraSchema = json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)

func appended(t testing.TB, v roundtrip.VectorClaims) []byte {
	t.Helper()
	confirm, err := roundtrip.Form[Confirmation]()
	noError(t, err)
	data, err := v.Append(confirm, extraSchema)
	noError(t, err)
	return data
}

func vectors(t testing.TB) []vector {
	var out []vector
	add := func(name, want, at string, mod func(*roundtrip.VectorClaims), present func(*vector)) {
		claims := honest()
		if mod != nil {
			mod(&claims)
		}
		v := vector{name: name, call: toolCall(), aud: "https://mcp.example", at: clock(at),
			want: want}
		v.token = seal(t, ring(t, "k1"), appended(t, claims))
		if present != nil {
			present(&v)
		}
		out = append(out, v)
	}
	anonymous, local := protocol.Principal{}, protocol.LocalPrincipal()
	sealedFor := func(p protocol.Principal) func(*roundtrip.VectorClaims) {
		return func(c *roundtrip.VectorClaims) { c.Call.Principal = p }
	}
	by := func(p protocol.Principal) func(*vector) {
		return func(v *vector) {
			v.call.Principal = p
		}
	}
	token := func(f func(string) string) func(*vector) {
		return func(v *vector) {
			v.token = f(v.token)
		}
	}
	arguments := func(raw string) func(*vector) {
		return func(v *vector) { v.call.Arguments = json.RawMessage(raw) }
	}
	sealedArguments := func(raw string) func(*roundtrip.VectorClaims) {
		return func(c *roundtrip.VectorClaims) { c.Call.Arguments = json.RawMessage(raw) }
	}

	add("honest", "ok", "1h30m", nil, nil)
	add("issued this moment", "ok", "1h", nil, nil)
	add("issued by a clock ahead of ours", "ok", "58m", nil, nil)
	add("last moment of the round", "ok", "1h59m59.999s", nil, nil)
	add("sealed with an older key", "ok", "1h30m", nil,
		func(v *vector) { v.token = seal(t, ring(t, "k2"), appended(t, honest())) })
	add("anonymous by anonymous", "ok", "1h30m", sealedFor(anonymous), by(anonymous))
	add("local by local", "ok", "1h30m", sealedFor(local), by(local))
	add("arguments in another order and spelling", "ok", "1h30m", sealedArguments(`{"a":1,"b":{"c":[1e2,-0.50],"d":"é/"}}`),
		arguments(" {\"b\" : {\"d\":\"\\u00e9\\/\", \"c\":[1e2 ,-0.50]},\n\"\\u0061\":1} "))
	add("numbers that no quantity needs, spelled the same", "ok", "1h30m", sealedArguments(`{"n":[1e99999,-0,1E+5]}`), arguments(`{"n":[1e99999,-0,1E+5]}`))
	add("no arguments and empty ones", "ok", "1h30m",
		func(c *roundtrip.VectorClaims) { c.Call.Arguments = nil }, arguments(`{ }`))

	add("empty", "malformed", "1h30m", nil, token(func(string) string { return "" }))
	add("not a token", "malformed", "1h30m", nil, token(func(string) string { return "%%%" }))
	add("CR LF inside", "malformed", "1h30m", nil,
		token(func(s string) string { return s[:40] + "\r\n" + s[40:] }))
	add("LF behind", "malformed", "1h30m", nil, token(func(s string) string { return s + "\n" }))
	add("padded", "malformed", "1h30m", nil, token(func(s string) string { return s + "=" }))
	add("non-canonical tail bits", "malformed", "1h30m",
		func(c *roundtrip.VectorClaims) { c.Call.Target = "deploy!" }, func(v *vector) {
			v.call.Target = "deploy!"
			v.token = tail(t, v.token)
		})
	add("truncated", "malformed", "1h30m", nil, token(func(s string) string { return s[:40] }))
	add("last byte missing", "authentication_failed", "1h30m", nil, token(shorter))
	add("one bit changed", "authentication_failed", "1h30m", nil,
		token(func(s string) string { return flip(s, 100) }))
	add("unknown version of the format", "unknown_format_version", "1h30m", nil,
		token(func(s string) string { return "Ag" + s[2:] }))
	add("unknown key", "unknown_key", "1h30m", nil,
		func(v *vector) { v.token = seal(t, ring(t, "k9"), appended(t, honest())) })
	add("retired key", "unknown_key", "1h30m", nil,
		func(v *vector) { v.token = seal(t, ring(t, "k0"), appended(t, honest())) })
	add("key of another process", "foreign_ephemeral", "1h30m", nil, func(v *vector) {
		v.token = seal(t, keys.EphemeralKeyring(), appended(t, honest()))
	})
	for _, layout := range []byte{0, 1, 2, 3, 5} {
		add(fmt.Sprintf("claims of layout %d", layout), "unknown_format_version", "1h30m", nil,
			func(v *vector) {
				v.token = seal(t, ring(t, "k1"),
					append([]byte{layout}, appended(t, honest())[1:]...))
			})
	}
	add("claims with a byte behind", "malformed", "1h30m", nil, func(v *vector) {
		v.token = seal(t, ring(t, "k1"), append(appended(t, honest()), 0))
	})
	add("oversized, and no token at all", "too_long", "1h30m", nil, token(func(string) string {
		return strings.Repeat("=", (16<<10)+1)
	}))

	add("first moment after the round", "expired", "2h", nil, nil)
	add("round is over", "expired", "5h", nil, nil)
	add("flow is over", "flow_expired", "25h", nil, nil)
	add("round cut at the end of the flow", "flow_expired", "1h20m",
		func(c *roundtrip.VectorClaims) {
			c.Expires, c.Deadline = clock("1h20m"), clock("1h20m")
		}, nil)
	add("issued in the future", "issued_in_the_future", "57m59.999s", nil, nil)

	add("other subject", "other_principal", "1h30m", nil,
		by(protocol.Principal{Issuer: "https://issuer.example", Subject: "bob"}))
	add("other issuer", "other_principal", "1h30m", nil,
		by(protocol.Principal{Issuer: "https://evil.example", Subject: "ada"}))
	add("authenticated by anonymous", "other_principal", "1h30m", nil, by(anonymous))
	add("anonymous by authenticated", "other_principal", "1h30m", sealedFor(anonymous), nil)
	add("local by anonymous", "other_principal", "1h30m", sealedFor(local), by(anonymous))
	add("anonymous by local", "other_principal", "1h30m", sealedFor(anonymous), by(local))
	add("named local", "other_principal", "1h30m", sealedFor(local),
		by(protocol.Principal{Subject: "local"}))
	add("boundary of issuer and subject moved", "other_principal", "1h30m",
		sealedFor(protocol.Principal{Issuer: "a", Subject: "bc"}),
		by(protocol.Principal{Issuer: "ab", Subject: "c"}))
	add("boundary moved to nothing", "other_principal", "1h30m",
		sealedFor(protocol.Principal{Issuer: "abc"}), by(protocol.Principal{Subject: "abc"}))
	add("other tool", "other_target", "1h30m", nil, func(v *vector) { v.call.Target = "delete" })
	add("tool in another case", "other_target", "1h30m", nil,
		func(v *vector) { v.call.Target = "Deploy" })
	add("other method", "other_method", "1h30m", nil,
		func(v *vector) { v.call.Method = protocol.MethodGetPrompt })
	add("other audience", "other_audience", "1h30m", nil,
		func(v *vector) { v.aud = "https://other.example" })
	add("other arguments", "other_arguments", "1h30m", nil, arguments(`{"env":"dev"}`))
	add("further arguments", "other_arguments", "1h30m", nil,
		arguments(`{"env":"prod","force":true}`))
	add("arguments gone", "other_arguments", "1h30m", nil, arguments(``))
	add("argument in another case", "other_arguments", "1h30m", nil, arguments(`{"Env":"prod"}`))
	add("2^53 and 2^53+1", "other_arguments", "1h30m", sealedArguments(`{"n":9007199254740992}`),
		arguments(`{"n":9007199254740993}`))
	for _, spelling := range []string{"1.0", "1e0", "1E0", "10e-1", "-1", "[1]"} {
		add("1 and "+spelling, "other_arguments", "1h30m", sealedArguments(`{"n":1}`),
			arguments(`{"n":`+spelling+`}`))
	}
	add("0 and -0", "other_arguments", "1h30m", sealedArguments(`{"n":{"m":[0]}}`),
		arguments(`{"n":{"m":[-0]}}`))
	add("1e5 and 1E5", "other_arguments", "1h30m", sealedArguments(`{"n":1e5}`),
		arguments(`{"n":1E5}`))
	add("number and string", "other_arguments", "1h30m", sealedArguments(`{"n":1}`),
		arguments(`{"n":"1"}`))
	add("arguments that are no JSON", "other_arguments", "1h30m", nil, arguments(`{`))
	return out
}

const base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

func flip(token string, i int) string {
	n := strings.IndexByte(base64url, token[i])
	return token[:i] + base64url[n^1:n^1+1] + token[i+1:]
}

// tail sets an unused bit of the last character.
func tail(t testing.TB, token string) string {
	t.Helper()
	n := strings.IndexByte(base64url, token[len(token)-1])
	if len(token)%4 == 0 || n%2 != 0 {
		t.Fatalf("token of %d characters has no tail bit to set", len(token))
	}
	return token[:len(token)-1] + base64url[n+1:n+2]
}

func shorter(token string) string {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(raw[:len(raw)-1])
}

// The function stored returns the vectors in testdata, sealed anew with -update.
func stored(t testing.TB) []vector {
	t.Helper()
	if updating() {
		noError(t, os.MkdirAll(filepath.Dir(vectorFile), 0o755))
		noError(t, os.WriteFile(vectorFile, formatVectors(vectors(t)), 0o644))
	}
	text, err := os.ReadFile(vectorFile)
	noError(t, err)
	list := parseVectors(t, text)
	if len(list) < 40 {
		t.Fatalf("%s holds %d vectors, want all of them", vectorFile, len(list))
	}
	return list
}

func TestStates(t *testing.T) {
	for _, v := range stored(t) {
		t.Run(v.name, func(t *testing.T) { synctest.Test(t, v.check) })
	}
}

func (v vector) check(t *testing.T) {
	time.Sleep(time.Until(v.at))
	c := newClient(t, roundtrip.Options{Sealer: ring(t, "k1", "k2"), Audience: v.aud},
		vectorHandler)
	c.call = v.call
	c.call.State = protocol.StateText(v.token)
	c.answer("confirm", accepted, "extra", `{"action":"accept","content":{"n":4}}`,
		"visit", cancelled)
	if v.want == "ok" {
		if got, want := c.done(), `round 3: kept, declined, large, now, {"n":4}, cancelled`; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if resumed := one[event.Resumed](t, c.events); resumed.Waited != v.at.Sub(clock("1h")) ||
			resumed.StateBytes != len(v.token) {
			t.Errorf("resumed after %v with %d bytes", resumed.Waited, resumed.StateBytes)
		}
		return
	}
	frozen(t, c, event.Reason(v.want))
}

func vectorHandler(ctx context.Context) (protocol.Result, error) {
	kept, _ := roundtrip.State[string](ctx)
	return say(fmt.Sprintf("round %d: %s, %v, %s, %s, %s, %v", roundtrip.RoundOf(ctx).Number, kept,
		replyTo(ctx, "region").Outcome, replyTo(ctx, "size").Content.Reason,
		replyTo(ctx, "confirm").Content.Reason,
		roundtrip.RawAnswer(ctx, "extra").Content, roundtrip.Visited(ctx, "visit")))
}

func TestTheLayoutOfClaims(t *testing.T) {
	const path = "../internal/state/claims/testdata/claims.txt"
	local := honest()
	local.Call.Principal, local.Call.Arguments, local.Audience = protocol.LocalPrincipal(), nil, ""
	text := "# Plaintext of sealed states, layout 4, guard style, in hexadecimal. " +
		"Written by go test -run Claims -update.\n"
	for _, c := range []struct {
		name   string
		claims roundtrip.VectorClaims
	}{{"authenticated", honest()}, {"local, no arguments, no audience", local}} {
		text += dumpHex(c.name, reencoded(t, appended(t, c.claims)))
	}
	holdLayout(t, path, text)
}

func reencoded(t *testing.T, data []byte) []byte {
	t.Helper()
	again, err := roundtrip.ReencodeClaims(data)
	if err != nil || !bytes.Equal(again, data) {
		t.Errorf("read and written again, claims are %x, %v", again, err)
	}
	return data
}

// holdLayout compares text with the vectors in a file, or rewrites them.
func holdLayout(t *testing.T, path, text string) {
	t.Helper()
	if updating() {
		noError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	want, err := os.ReadFile(path)
	noError(t, err)
	if text != string(want) {
		t.Errorf("the layout has changed: give it a new number, and see "+
			"internal/design/state.md\n got %s\nwant %s", text, want)
	}
}

func formatVectors(list []vector) []byte {
	var b bytes.Buffer
	b.WriteString("# Sealed states and what becomes of them. Written by go test -run TestStates " +
		"-update.\n" +
		"# The keys are k1 and k2, each with its id 32 times as its secret. Strings are Go " +
		"literals.\n")
	for _, v := range list {
		principal := fmt.Sprintf("%q %q", v.call.Principal.Issuer, v.call.Principal.Subject)
		if v.call.Principal == protocol.LocalPrincipal() {
			principal = "local"
		}
		token := strconv.QuoteToASCII(v.token)
		if len(token) > 2000 {
			token = fmt.Sprintf("%d times %q", len(v.token), v.token[:1])
		}
		fmt.Fprintf(&b, "\nname: %s\nmethod: %s\ntarget: %s\narguments: %q\naudience: "+
			"%s\nprincipal: %s\nat: %s\nstate: %s\nwant: %s\n",
			v.name, v.call.Method, v.call.Target, v.call.Arguments, v.aud, principal,
			v.at.Format(time.RFC3339Nano), token, v.want)
	}
	return b.Bytes()
}

func parseVectors(t testing.TB, text []byte) []vector {
	t.Helper()
	var out []vector
	for _, block := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
		v := vector{call: toolCall()}
		for _, line := range strings.Split(block, "\n") {
			field, value, _ := strings.Cut(line, ":")
			value = strings.TrimSpace(value)
			var err error
			switch field {
			case "name":
				v.name = value
			case "method":
				v.call.Method = value
			case "target":
				v.call.Target = value
			case "arguments":
				value, err = strconv.Unquote(value)
				v.call.Arguments = json.RawMessage(value)
			case "audience":
				v.aud = value
			case "principal":
				if v.call.Principal = protocol.LocalPrincipal(); value != "local" {
					v.call.Principal = protocol.Principal{}
					_, err = fmt.Sscanf(value, "%q %q", &v.call.Principal.Issuer,
						&v.call.Principal.Subject)
				}
			case "at":
				v.at, err = time.Parse(time.RFC3339Nano, value)
			case "state":
				n, unit := 0, ""
				if _, scan := fmt.Sscanf(value, "%d times %q", &n, &unit); scan == nil {
					v.token = strings.Repeat(unit, n)
				} else {
					v.token, err = strconv.Unquote(value)
				}
			case "want":
				v.want = value
			default:
				if !strings.HasPrefix(line, "#") {
					err = fmt.Errorf("unknown field")
				}
			}
			if err != nil {
				t.Fatalf("vector %q: %q: %v", v.name, line, err)
			}
		}
		if v.name != "" {
			out = append(out, v)
		}
	}
	return out
}

const flowVectorFile = "../internal/state/claims/testdata/flow.txt"

func flowClaims(t testing.TB) []byte {
	t.Helper()
	schema, err := roundtrip.Form[Confirmation]()
	noError(t, err)
	data, err := honest().AppendFlow(schema)
	noError(t, err)
	return data
}

func hexVectors(t testing.TB, path string) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile(path)
	noError(t, err)
	out := map[string][]byte{}
	for _, block := range strings.Split(string(text), "\n\n") {
		head, dump, named := strings.Cut(strings.TrimSpace(block), "\n")
		name, ok := strings.CutPrefix(head, "name: ")
		if !ok || !named {
			continue
		}
		if out[name], err = hex.DecodeString(strings.ReplaceAll(dump, "\n", "")); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if len(out) == 0 {
		t.Fatalf("%s holds no vectors", path)
	}
	return out
}

func dumpHex(name string, data []byte) string {
	text := "\nname: " + name + "\n"
	for dump := hex.EncodeToString(data); dump != ""; {
		n := min(96, len(dump))
		text += dump[:n] + "\n"
		dump = dump[n:]
	}
	return text
}

// TestTheLayoutOfFlowClaims compares flow-style claims, and a handle's id and state, with testdata.
func TestTheLayoutOfFlowClaims(t *testing.T) {
	data := reencoded(t, flowClaims(t))
	handle := roundtrip.HandleOf('h')
	id, stored := roundtrip.Unlock(toolCall().Principal, handle, []byte("claims"))
	text := "# Plaintext of sealed states, layout 4, flow style, and a handle with what a store " +
		"is given for it, in hexadecimal.\n" + "# Written by go test -run FlowClaims -update.\n" +
		dumpHex("flow", data) + dumpHex("handle", handle) + dumpHex("id",
		[]byte(id)) + dumpHex("stored", stored)
	holdLayout(t, flowVectorFile, text)
}

func flowVectorHandler(ctx context.Context) (protocol.Result, error) {
	if err := roundtrip.FlowVersion(ctx, "2"); err != nil {
		return nil, err
	}
	quote, err := roundtrip.Memo(ctx, "quote",
		func(context.Context) (int, error) { return 0, errors.New("not kept") })
	if err != nil {
		return nil, err
	}
	region, err := reasonOf(ctx, "region")
	if err != nil {
		return nil, err
	}
	_, size := reasonOf(ctx, "size")
	confirm, err := roundtrip.Ask[Confirmation](ctx, "confirm", "confirm "+region)
	if err != nil {
		return nil, err
	}
	name, err := roundtrip.IdempotencyKey(ctx, "charge")
	if err != nil {
		return nil, err
	}
	return say(fmt.Sprintf("%d %s %v %s %s %v %s", quote, region, size, confirm.Reason,
		replyTo(ctx, "old").Content.Reason, roundtrip.Visited(ctx, "extra"), name))
}

const flowVectorResult = "1250 eu declined: size now guard accepted " +
	"bQurgwtEBCr30zinbBbJ817PGzd4oKabEpK5jehzyEw"

// FuzzFlowClaims feeds junk to the decoders of flow style and handles.
func FuzzFlowClaims(f *testing.F) {
	full := flowClaims(f)
	handle := roundtrip.HandleOf('h')
	seedsOrFail(f, [][]byte{full, full[:len(full)-1], append(bytes.Clone(full), 0),
		full[:len(full)/2], handle, handle[:20],
		append(append([]byte{4}, full[1:200]...), bytes.Repeat([]byte{0xff}, 40)...), {0x81}, {4}})
	_, stored := roundtrip.Unlock(toolCall().Principal, handle, full)
	f.Fuzz(func(t *testing.T, data []byte) {
		if again, err := roundtrip.ReencodeClaims(data); err == nil && !bytes.Equal(again, data) {
			t.Errorf("%x is read, and written again as %x", data, again)
		}
		store := newShelf()
		store.get = func(string, []byte) ([]byte, error) { return stored, nil }
		c := newClient(t, roundtrip.Options{StateStore: store, Sealer: &fakeSealer{
			open: func(string) ([]byte, error) { return data, nil },
			seal: func([]byte) (string, error) { return "x", nil },
		}, Audience: honest().Audience}, flowVectorHandler)
		c.call.State = protocol.StateText("x")
		if _, err := c.send(); err != nil && len(all[event.StateRejected](c.events)) != 1 &&
			len(all[event.ServerBug](c.events)) != 1 {
			t.Errorf("refused with %v, unreported", err)
		}
	})
}
