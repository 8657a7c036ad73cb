package roundtrip_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// Entry is a form without required input.
type Entry struct {
	Email string `json:"email,omitempty" format:"email" default:"a@example.com"`
	Count int    `json:"count,omitempty" default:"7"`
	Sure  *bool  `json:"sure"`
	Note  string `json:"note,omitempty" default:"n"`
	Kept  string `json:"kept,omitempty" default:"k"`
}

const (
	// The constant entered is sent by a client whose user emptied two fields and skipped one.
	entered = `{"action":"accept","content":{"email":"","count":"5.0","sure":"true","note":null}}`
	entries = `{"count":5,"sure":true,"kept":"k"}`
)

func encodeEntry(e Entry) string {
	data, err := json.Marshal(e)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// entryStyles are the ways to ask for an [Entry], each with a second question, so that the answer
// goes through the state.
func entryStyles(t *testing.T) map[string]roundtrip.Handler {
	schema, err := roundtrip.Form[Entry]()
	noError(t, err)
	raw := func(got json.RawMessage) string {
		var e Entry
		if err := json.Unmarshal(got, &e); err != nil {
			return err.Error()
		}
		return encodeEntry(e)
	}
	return map[string]roundtrip.Handler{
		"guard": func(ctx context.Context) (protocol.Result, error) {
			first := roundtrip.Answer[Entry](ctx, "k")
			if first.Outcome != roundtrip.Accepted {
				return ask(roundtrip.Elicit[Entry]("k", "?"))
			}
			again := roundtrip.Answer[Entry](ctx, "k")
			if _, ok := roundtrip.Roots(ctx, "later"); !ok {
				return ask(roundtrip.ListRoots("later"))
			}
			if got, want := encodeEntry(again.Content), encodeEntry(first.Content); got != want {
				return say(fmt.Sprint(want, " becomes ", got))
			}
			return say(encodeEntry(first.Content))
		},
		"guard that reads late": func(ctx context.Context) (protocol.Result, error) {
			switch roundtrip.RoundOf(ctx).Number {
			case 1:
				return ask(roundtrip.Elicit[Entry]("k", "?"))
			case 2:
				return ask(roundtrip.ListRoots("later"))
			}
			return say(encodeEntry(roundtrip.Answer[Entry](ctx, "k").Content))
		},
		"guard with a schema": func(ctx context.Context) (protocol.Result, error) {
			reply := roundtrip.RawAnswer(ctx, "k")
			if reply.Outcome != roundtrip.Accepted {
				return ask(roundtrip.ElicitSchema("k", "?", schema))
			}
			if _, ok := roundtrip.Roots(ctx, "later"); !ok {
				return ask(roundtrip.ListRoots("later"))
			}
			return say(raw(roundtrip.RawAnswer(ctx, "k").Content))
		},
		"flow": flow(func(ctx context.Context) string {
			e := must(roundtrip.Ask[Entry](ctx, "k", "?"))
			must(roundtrip.AskRoots(ctx, "later"))
			return encodeEntry(e)
		}),
		"as adapters ask": flow(func(ctx context.Context) string {
			got := must(roundtrip.AskUnkeyed(ctx,
				&protocol.ElicitForm{Message: "?", Schema: schema}))
			must(roundtrip.AskRoots(ctx, "later"))
			result := must(protocol.DecodeElicitResult(got))
			return raw(result.Content)
		}),
	}
}

func TestEmptiedFieldsReachHandlersAsAbsent(t *testing.T) {
	for name, handler := range entryStyles(t) {
		key := "k"
		if name == "as adapters ask" {
			key = "question-1"
		}
		t.Run(name+" in rounds", func(t *testing.T) {
			c := serve(t, handler)
			c.ask(key).answer(key, entered).ask("later").answer("later", rooted).says(entries)
		})
		for _, v := range []protocol.Version{protocol.V20250618, protocol.V20251125} {
			t.Run(name+" in a session of "+string(v), func(t *testing.T) {
				c, h := serveAs(t, v, handler)
				h.answer = func(q *pushed) (string, error) {
					if q.Kind() == protocol.KindElicitForm {
						return entered, nil
					}
					return rooted, nil
				}
				c.says(entries)
			})
		}
	}
}

// Unsolicited answers are validated on each read, with the same result.
func TestEmptiedFieldsOfUnsolicitedAnswers(t *testing.T) {
	c := serve(t, entryStyles(t)["guard"])
	c.call.AcceptUnsolicited = true
	c.answer("k", entered).ask("later")
	c.call.AcceptUnsolicited = false
	c.answer("later", rooted).says(entries)
}

func TestEmptiedFieldsOfPushedQuestions(t *testing.T) {
	schema, err := roundtrip.Form[Entry]()
	noError(t, err)
	c, h := serveLive(t, nil)
	h.answer = says(entered)
	got, err := c.push(t.Context(), &protocol.ElicitForm{Message: "?", Schema: schema})
	const want = `{"action":"accept","content":` + entries + `}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

// A guard identifies answers by their original bytes; the state carries converted ones.
func TestFingerprintsAreOfAnswersAsTheyCame(t *testing.T) {
	plain, err := keys.KeyringFromEnv(func(string) (string, bool) {
		return "k:" + base64.RawStdEncoding.EncodeToString(make([]byte, 32)), true
	}, "KEYS")
	noError(t, err)
	var seen [][32]byte
	guard := newSpy()
	guard.claim = func(print [32]byte) error { seen = append(seen, print); return nil }
	sealer := &peeking{Sealer: plain}
	sent := []string{`{"action":"accept","content":{"count":"5","sure":true}}`,
		`{"action":"accept","content":{"count":5,"sure":true}}`}
	for _, answer := range sent {
		c := newClient(t, roundtrip.Options{Guard: guard, Sealer: sealer}, entryStyles(t)["flow"])
		c.ask("k")
		sealer.sealed = nil
		c.answer("k", answer).ask("later")
		if state := string(sealer.sealed); !strings.Contains(state, `"count":5`) ||
			strings.Contains(state, `"count":"5"`) {
			t.Errorf("%s: the state says %q", answer, state)
		}
		if got, want := c.answer("later", rooted).done(),
			`{"count":5,"sure":true,"email":"a@example.com","note":"n","kept":"k"}`; !sameMembers(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if len(seen) != 4 || seen[0] == seen[2] || seen[1] != seen[3] {
		t.Fatalf("got fingerprints %x", seen)
	}
	for i, answer := range sent {
		if got, want := seen[2*i], claims.Fingerprint(answers("k", answer)); got != want {
			t.Errorf("%s: got fingerprint %x, want %x", answer, got, want)
		}
	}
}

func sameMembers(a, b string) bool {
	var x, y map[string]any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil &&
		reflect.DeepEqual(x, y)
}
