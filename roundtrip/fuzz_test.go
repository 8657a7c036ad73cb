package roundtrip_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

func seedsOrFail[T any](f *testing.F, seeds []T) {
	f.Helper()
	if len(seeds) == 0 {
		f.Fatal("no seeds")
	}
	for _, seed := range seeds {
		f.Add(seed)
	}
}

// FuzzClaims decodes junk, which another sealer may let through. Accepted claims reencode
// unchanged.
func FuzzClaims(f *testing.F) {
	local := honest()
	local.Call.Principal = protocol.LocalPrincipal()
	full := appended(f, honest())
	seedsOrFail(f, [][]byte{full, appended(f, local), full[:len(full)/2],
		bytes.Repeat([]byte{0xff}, 80), append([]byte{4, 0}, make([]byte, 70)...)})
	f.Fuzz(func(t *testing.T, data []byte) {
		again, err := roundtrip.ReencodeClaims(data)
		if err == nil && !bytes.Equal(again, data) {
			t.Errorf("%x is read, and written again as %x", data, again)
		}
		// A flow with such claims must neither panic nor consent.
		c := newClient(t, roundtrip.Options{Sealer: &fakeSealer{
			open: func(string) ([]byte, error) { return data, nil },
			seal: func([]byte) (string, error) { return "x", nil },
		}, Audience: honest().Audience}, vectorHandler)
		c.call.State = protocol.StateText("x")
		if _, err := c.send(); err != nil && len(all[event.StateRejected](c.events)) != 1 {
			t.Errorf("refused with %v, unreported", err)
		}
	})
}

// FuzzState presents arbitrary text, and the funnel's own state with a piece replaced: the result
// is always the frozen error, unless nothing changed.
func FuzzState(f *testing.F) {
	funnel, err := roundtrip.NewFunnel(&roundtrip.Options{Sealer: ring(f, "k1", "k2"),
		Audience: honest().Audience})
	noError(f, err)
	first, err := funnel.Do(f.Context(), toolCall(), consent)
	noError(f, err)
	fresh, _ := first.(*protocol.InputRequiredResult).RequestState.Text()
	seeds := 0
	for _, v := range stored(f) { // all expired
		if len(v.token) < 4000 {
			f.Add(v.token, seeds, 1)
			seeds++
		}
	}
	if seeds == 0 {
		f.Fatal("no seeds")
	}
	f.Add("", 0, 0)
	f.Add("\r\n", 7, 0)
	f.Add("", len(fresh)-1, 1)
	f.Fuzz(func(t *testing.T, text string, at, cut int) {
		at = min(max(at, 0), len(fresh))
		cut = min(max(cut, 0), len(fresh)-at)
		for _, state := range []string{text, fresh[:at] + text + fresh[at+cut:]} {
			call := toolCall()
			call.State, call.Responses = protocol.StateText(state), answers("k", accepted)
			result, err := funnel.Do(t.Context(), call, consent)
			if err == nil {
				if state != fresh {
					t.Errorf("%q opens: %s", state, show(result))
				}
				continue
			}
			var e *protocol.Error
			if state == fresh || !errors.As(err, &e) || e.Code != protocol.CodeInvalidParams ||
				e.Message != "Invalid or expired requestState" {
				t.Errorf("%q: %v", state, err)
			}
		}
	})
}

// FuzzAnswers answers with arbitrary bytes. Nothing panics, and every JSON reader finds consent
// where the funnel does.
func FuzzAnswers(f *testing.F) {
	funnel, err := roundtrip.NewFunnel(nil)
	noError(f, err)
	first, err := funnel.Do(f.Context(), toolCall(), reader)
	noError(f, err)
	state := first.(*protocol.InputRequiredResult).RequestState
	seedsOrFail(f, []string{accepted, declined, cancelled, sampled, rooted, `null`, `[]`, `{}`,
		`{"ACTION":"accept"}`,
		`{"action":"decline","Action":"accept","content":{"reason":"now"}}`, `{"action":"accept","content":{"reason":"now"},"roots":[]}`,
		`{"action":"decline","action":"accept"}`, `{"method":"elicitation/create","result":{}}`, "\xff"})
	f.Fuzz(func(t *testing.T, raw string) {
		for _, cold := range []bool{false, true} {
			var reply roundtrip.Reply[Confirmation]
			var visited roundtrip.Outcome
			call := toolCall()
			call.Responses = answers("form", raw, "url", raw, "sample", raw, "roots", raw)
			if call.AcceptUnsolicited = cold; !cold {
				call.State = state
			}
			result, err := funnel.Do(t.Context(), call,
				func(ctx context.Context) (protocol.Result, error) {
					reply = replyTo(ctx, "form")
					visited = roundtrip.Visited(ctx, "url")
					_, _ = roundtrip.Sampled(ctx, "sample")
					_, _ = roundtrip.Roots(ctx, "roots")
					_ = roundtrip.RawAnswer(ctx, "roots")
					return ask(elicit("more"))
				})
			if err != nil {
				t.Fatalf("answers fail the request: %v", err)
			}
			if _, err := protocol.EncodeResult(call.Version, call.Method, result); err != nil {
				t.Fatal(err)
			}
			consented := reply.Outcome == roundtrip.Accepted || visited == roundtrip.Accepted
			if consented && action(raw) != "accept" {
				t.Errorf("cold %v: %q is read as consent: form %v, visit %v", cold, raw,
					reply.Outcome, visited)
			}
			if reply.Outcome == roundtrip.Accepted && len([]rune(reply.Content.Reason)) < 2 {
				t.Errorf("cold %v: %q breaks the schema and is accepted", cold, raw)
			}
		}
	})
}

// action returns the value of the member action, in this exact spelling.
func action(raw string) string {
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(raw), &members) != nil {
		return ""
	}
	var action string
	if json.Unmarshal(members["action"], &action) != nil {
		return ""
	}
	return action
}
