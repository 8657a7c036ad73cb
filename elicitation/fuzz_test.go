package elicitation_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

func seeds() []string {
	return []string{
		yes, `{"action":"decline"}`, `{"action":"cancel","content":{}}`, `{"action":"accept","content":{"ok":1}}`,
		`{"action":"accept","content":{"ok":true,"n":1e400}}`, `{"action":"decline","Action":"accept"}`, `{"action":"accept","_meta":{"k":[1]}}`,
		`{}`, `null`, `[]`, `"accept"`, `{"action":"accept","action":"decline"}`, `{"action":"accept","content":null}`, "{\"action\":\"\xff\"}", ``,
	}
}

// FuzzReply sends replies of every shape. A stranger's reply does not touch the question; the
// owner's ends it; only a strictly valid answer is passed on.
func FuzzReply(f *testing.F) {
	for i, s := range seeds() {
		f.Add([]byte(s), i%4, uint8(i%3))
	}
	core := newRig(f, elicitation.Options{Log: silent}).Router
	strict := newRig(f, elicitation.Options{Log: silent,
		Validation: elicitation.ValidateEnforce}).Router
	f.Fuzz(func(t *testing.T, raw []byte, from int, how uint8) {
		router := core
		if how == 1 {
			router = strict
		}
		r := &rig{TB: t, Router: router}
		s := r.attach(elicitation.SessionInfo{Principal: alice(), Capabilities: caps(true, false)})
		defer s.Detach()
		call := r.begin(elicitation.Origin{Session: s}, byHand(), "")
		var outcomes []outcome
		offered, err := offer(call, t.Context(), form("m"),
			func(o outcome) { outcomes = append(outcomes, o) })
		noError(t, err)
		owner := s.Sender()
		sender := []elicitation.Sender{owner, {Session: "x", Principal: owner.Principal},
			{Session: owner.Session}, {}}[uint(from)%4]
		reply := &protocol.Response{ID: offered.Request().ID, Result: raw}
		if how == 2 {
			// Decode raw as a frame, whose id may or may not be the question's.
			m, err := protocol.DecodeMessage(raw)
			r, ok := m.(*protocol.Response)
			if err != nil || !ok {
				return
			}
			reply = r
		}
		d := router.HandleReply(sender, reply)
		ended := d == elicitation.Accepted || d == elicitation.Invalid
		if ended && sender == owner {
			<-offered.ended
		}
		if len(outcomes) != 0 != ended || ended &&
			(sender != owner || reply.ID != offered.Request().ID) {
			t.Fatalf("reply of %+v is %v, outcomes %+v", sender, d, outcomes)
		}
		if !ended || outcomes[0].Err != nil {
			return
		}
		checkAnswer(t, outcomes[0], router == strict)
	})
}

func checkAnswer(t *testing.T, o outcome, strict bool) {
	up := o.Response(protocol.IntID(1)).Result
	if err := jsonx.Check(up); err != nil {
		t.Fatalf("passed on %q: %v", up, err)
	}
	var got map[string]json.RawMessage
	noError(t, json.Unmarshal(up, &got))
	for name := range got {
		if !slices.Contains([]string{"action", "content", "_meta"}, name) {
			t.Fatalf("passed on %s", up)
		}
	}
	if string(got["action"]) != `"accept"` && got["content"] != nil {
		t.Fatalf("passed on content without an accept: %s", up)
	}
	if strict && string(got["action"]) == `"accept"` {
		var content map[string]json.RawMessage
		if err := json.Unmarshal(got["content"], &content); err != nil ||
			string(content["ok"]) != "true" && string(content["ok"]) != "false" {
			t.Fatalf("passed on content that does not fit: %s", up)
		}
	}
}

// FuzzQuestion checks that an admitted question reaches the client unchanged, with the router's id.
func FuzzQuestion(f *testing.F) {
	for _, s := range []string{
		string(form("m")), string(urlQuestion("m", "https://id.example/", "1")),
		`{"message":"m","requestedSchema":{}}`,
		`{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"enum":["x"],"type":"string"}}},"_meta":{"progressToken":"t","k":{}}}`,
		`{"message":"m","requestedSchema":{"type":"object","properties":{}},"x\u0022":1,"task":{},"elicitationId":5}`, `{}`, `null`, ``,
	} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	router := newRig(f, elicitation.Options{Log: silent}).Router
	f.Fuzz(func(t *testing.T, params []byte, old bool) {
		r, info := &rig{TB: t, Router: router}, elicitation.SessionInfo{}
		if old {
			info.Version = protocol.V20250618
		}
		s := r.attach(info)
		defer s.Detach()
		call := r.begin(elicitation.Origin{Session: s}, byHand(), "up")
		offered, err := offer(call, t.Context(), params, func(outcome) {})
		if err != nil {
			if wire, ok := protocol.AsError(err); !ok || wire.Code != -32602 {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		sent := offered.Request()
		if err := jsonx.Check(sent.Params); err != nil {
			t.Fatalf("sent %q: %v", sent.Params, err)
		}
		before, err := protocol.DecodeInputRequest(protocol.MethodElicit, params)
		if err != nil {
			t.Fatalf("%q was accepted: %v", params, err)
		}
		after, err := protocol.DecodeInputRequest(sent.Method, sent.Params)
		if err != nil || after.Kind() != before.Kind() {
			t.Fatalf("sent %q: %v", sent.Params, err)
		}
	})
}
