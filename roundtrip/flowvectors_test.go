package roundtrip_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

const flowVectorFile = "testdata/state/flow.txt"

func flowClaims(t testing.TB) []byte {
	t.Helper()
	schema, err := roundtrip.Form[Confirmation]()
	if err != nil {
		t.Fatal(err)
	}
	data, err := honest().AppendFlow(schema)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// hexVectors reads lines of hexadecimal under names.
func hexVectors(t testing.TB, path string) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
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

// TestTheLayoutOfFlowClaims holds what flow style keeps, and how a handle becomes
// the name and the bytes of a stored state, against testdata.
func TestTheLayoutOfFlowClaims(t *testing.T) {
	data := flowClaims(t)
	again, err := roundtrip.ReencodeClaims(data)
	if err != nil || !bytes.Equal(again, data) {
		t.Errorf("read and written again, claims are %x, %v", again, err)
	}
	handle := roundtrip.HandleOf('h')
	id, stored := roundtrip.Unlock(toolCall().Principal, handle, []byte("claims"))
	text := "# Plaintext of sealed states, layout 3, flow style, and a handle with what a store is given for it, in hexadecimal.\n" +
		"# Written by go test -run FlowClaims -update.\n" +
		dumpHex("flow", data) + dumpHex("handle", handle) + dumpHex("id", []byte(id)) + dumpHex("stored", stored)
	if updating() {
		if err := os.WriteFile(flowVectorFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(flowVectorFile)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("the layout has changed: give it a new number, and see internal/design/0011-claims-layout.md\n got %s\nwant %s", text, want)
	}
}

// TestFlowClaimsHaveOneEncoding: what the layout does not say is refused.
func TestFlowClaimsHaveOneEncoding(t *testing.T) {
	head := append([]byte{3, 0, 0, 0, 0, 0, 0}, make([]byte, 32+16)...)
	head = append(head, 1, 0, 0, 0, 0) // round, unheard, three times
	for name, tc := range map[string]struct {
		tail []byte
		want bool
	}{
		"a version":             {[]byte{0, 0, 0, 1, 'v', 0}, true},
		"a memo":                {[]byte{0, 0, 0, 0, 1, 1, 'k', 1, '1'}, true},
		"nothing of flow style": {[]byte{0, 0, 0, 0, 0}, true},
		"no end":                {[]byte{0, 0, 0, 1, 'v'}, false},
		"a byte behind":         {[]byte{0, 0, 0, 1, 'v', 0, 0}, false},
		"a memo cut":            {[]byte{0, 0, 0, 1, 'v', 1, 1, 'k', 2, '1'}, false},
		"a million memos":       {[]byte{0, 0, 0, 1, 'v', 0xff, 0xff, 0x3f}, false},
		"an unmarked question":  {[]byte{1, 1, 'q', 4, 0, 0, 0, 1, 'v', 0}, true},
		"no mark":               {[]byte{1, 1, 'q', 4, 0, 0, 0, 0}, false},
		"an unknown mark":       {append(append([]byte{1, 1, 'q', 4, 3}, make([]byte, 16)...), 0, 0, 0, 0), false},
		"a marked question":     {append(append([]byte{1, 1, 'q', 4, 2}, make([]byte, 16)...), 0, 0, 0, 0), true},
	} {
		data := append(bytes.Clone(head), tc.tail...)
		again, err := roundtrip.ReencodeClaims(data)
		if (err == nil) != tc.want || (err == nil && !bytes.Equal(again, data)) {
			t.Errorf("%s: %x, %v, want it read: %v", name, again, err, tc.want)
		}
	}
}

// flowVectorHandler goes on with the flow of the vectors.
func flowVectorHandler(ctx context.Context) (protocol.Result, error) {
	if err := roundtrip.FlowVersion(ctx, "2"); err != nil {
		return nil, err
	}
	quote, err := roundtrip.Memo(ctx, "quote", func(context.Context) (int, error) { return 0, errors.New("not kept") })
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
		roundtrip.Answer[Confirmation](ctx, "old").Content.Reason, roundtrip.Visited(ctx, "extra"), name))
}

const flowVectorResult = "1250 eu declined: size now guard accepted bQurgwtEBCr30zinbBbJ817PGzd4oKabEpK5jehzyEw"

// TestOldSealsNewOpens: states as they were written before, in both styles, are
// read, whichever key of the ring sealed them. When the layout changes, the
// vectors of the release before stay here.
func TestOldSealsNewOpens(t *testing.T) {
	flow, guard := hexVectors(t, flowVectorFile)["flow"], hexVectors(t, "testdata/state/claims.txt")["authenticated"]
	for _, key := range []string{"k1", "k2"} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(clock("1h30m")))
			opts := roundtrip.Options{Sealer: ring(t, "k1", "k2"), Audience: honest().Audience}
			c := newClient(t, opts, flowVectorHandler)
			c.call.State = protocol.StateText(seal(t, ring(t, key), flow))
			if got := c.answer("confirm", accepted, "extra", `{"action":"accept"}`).done(); got != flowVectorResult {
				t.Errorf("flow style, sealed with %s:\n got %s\nwant %s", key, got, flowVectorResult)
			}
			c = newClient(t, opts, vectorHandler)
			c.call.State = protocol.StateText(seal(t, ring(t, key), guard))
			c.answer("confirm", accepted, "extra", `{"action":"accept","content":{"n":4}}`, "visit", cancelled)
			if got, want := c.done(), `round 3: kept, declined, large, now, {"n":4}, cancelled`; got != want {
				t.Errorf("guard style, sealed with %s:\n got %s\nwant %s", key, got, want)
			}
			// A handler that has gone over to flow style meanwhile takes what
			// was answered before.
			c = newClient(t, opts, func(ctx context.Context) (protocol.Result, error) {
				_, region := reasonOf(ctx, "region")
				size, err := reasonOf(ctx, "size")
				if err != nil {
					return nil, err
				}
				return say(fmt.Sprint(region, ", ", size))
			})
			c.call.State = protocol.StateText(seal(t, ring(t, key), guard))
			if got := c.answer("confirm", accepted).done(); got != "declined: region, large" {
				t.Errorf("in the other style: got %s", got)
			}
		})
	}
}

// TestTheLayoutIsAsDescribed reads what is sealed today with a reader that was
// made from internal/design/0011 alone.
func TestTheLayoutIsAsDescribed(t *testing.T) {
	for name, handler := range map[string]roundtrip.Handler{
		"guard style": func(context.Context) (protocol.Result, error) {
			return ask(whyNow.Elicit("?"), roundtrip.RawForm("raw", "?", extraSchema), roundtrip.ListRoots("r"), roundtrip.WithState("s"))
		},
		"flow style": func(ctx context.Context) (protocol.Result, error) { _, err := reasonOf(ctx, "a"); return nil, err },
		"memo": func(ctx context.Context) (protocol.Result, error) {
			_, _ = roundtrip.Memo(ctx, "m", func(context.Context) (int, error) { return 1, nil })
			return ask(whyNow.Elicit("?"))
		},
		"version": func(ctx context.Context) (protocol.Result, error) {
			_ = roundtrip.FlowVersion(ctx, "1")
			return ask(whyNow.Elicit("?"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			keys := ring(t, "k1")
			c := newClient(t, roundtrip.Options{Sealer: keys}, handler)
			c.call.Arguments = json.RawMessage(`{ "b": [1.0, -0, 1E5], "\u0061": "\/" }`)
			if _, err := c.send(); err != nil {
				t.Fatal(err)
			}
			text, _ := c.call.State.Text()
			plaintext, err := keys.Open(t.Context(), text)
			if err != nil {
				t.Fatal(err)
			}
			arguments, err := readLayout(plaintext)
			if err != nil {
				t.Error(err)
			}
			if want := sha256.Sum256([]byte(`{"a":"/","b":[1.0,-0,1E5]}`)); !bytes.Equal(arguments, want[:]) {
				t.Errorf("the digest of the arguments is %x, want %x", arguments, want)
			}
		})
	}
}

// readLayout walks claims to their end and returns the digest of the arguments.
func readLayout(data []byte) (arguments []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("malformed: %v", v)
		}
	}()
	skip := func(n int) []byte {
		b := data[:n]
		data = data[n:]
		return b
	}
	number := func() int {
		n, size := binary.Uvarint(data)
		skip(size)
		return int(n)
	}
	field := func() { skip(number()) }
	mark := func() {
		if skip(1)[0] != 0 {
			skip(16)
		}
	}
	if first := skip(1)[0]; first != 3 {
		return nil, fmt.Errorf("layout %d", first)
	}
	skip(1)
	for range 5 { // issuer, subject, method, target, audience
		field()
	}
	arguments = skip(32)
	skip(16)      // flow
	for range 5 { // round, unheard, issued, expires, deadline
		number()
	}
	for range number() { // questions
		field()
		if skip(1)[0] == 1 {
			skip(32)
			field()
		}
		mark()
	}
	for range number() { // answers
		field()
		kind := skip(3)[0]
		number()
		if kind == 1 {
			skip(32)
			field()
		}
		field()
		mark()
	}
	if skip(1)[0] == 1 {
		field()
	}
	field()              // version
	for range number() { // memos
		field()
		field()
	}
	if len(data) != 0 {
		return nil, fmt.Errorf("%d bytes behind", len(data))
	}
	return arguments, nil
}

// TestKeysChangeUnderAFlow: each leg is sealed by the primary key of its day,
// and opened by a replica that is a step ahead or behind.
func TestKeysChangeUnderAFlow(t *testing.T) {
	handler := func(ctx context.Context) (protocol.Result, error) {
		text := ""
		for _, key := range []string{"a", "b", "c"} {
			reason, err := reasonOf(ctx, key)
			if err != nil {
				return nil, err
			}
			text += reason
		}
		return say(text)
	}
	var call roundtrip.Call
	for i, keys := range [][]string{{"k1"}, {"k1", "k2"}, {"k2", "k1"}, {"k2", "k3"}} {
		c := newClient(t, roundtrip.Options{Sealer: ring(t, keys...)}, handler)
		if i == 0 {
			c.ask("a")
		} else {
			c.call = call
			if i < 3 {
				c.answer([]string{"a", "b"}[i-1], accepted).ask([]string{"b", "c"}[i-1])
			} else if got := c.answer("c", accepted).done(); got != "nownownow" {
				t.Errorf("got %q", got)
			}
		}
		call = c.call
	}
}

// FuzzFlowClaims feeds junk to the decoder of flow style and of handles,
// through a flow that would act on it.
func FuzzFlowClaims(f *testing.F) {
	full := flowClaims(f)
	handle := roundtrip.HandleOf('h')
	seedsOrFail(f, [][]byte{full, full[:len(full)-1], append(bytes.Clone(full), 0), full[:len(full)/2], handle, handle[:20],
		append(append([]byte{3}, full[1:200]...), bytes.Repeat([]byte{0xff}, 40)...), {0x81}, {3}})
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
		if _, err := c.send(); err != nil && len(all[roundtrip.StateRejected](c.events)) != 1 && len(all[roundtrip.ServerBug](c.events)) != 1 {
			t.Errorf("refused with %v, unreported", err)
		}
	})
}
