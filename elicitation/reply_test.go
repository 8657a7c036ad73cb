package elicitation_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

// Strangers' replies change nothing; the owner's answer counts after them.
func TestRepliesOfStrangers(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	s, offered, outcome := r.offered()
	r.attach(elicitation.SessionInfo{ID: "s2", Principal: bob()})
	id := offered.Request().ID
	bare := protocol.StringID(id.String()[1 : len(id.String())-2])
	for _, test := range []struct {
		name  string
		from  elicitation.Sender
		reply *protocol.Response
		want  elicitation.Disposition
	}{
		{"other session, same principal", elicitation.Sender{Session: "s2", Principal: alice()},
			result(id, yes), elicitation.WrongSession},
		{"other session", elicitation.Sender{Session: "s2", Principal: bob()}, result(id, yes),
			elicitation.WrongSession},
		{"no session", elicitation.Sender{}, result(id, yes), elicitation.WrongSession},
		{"other principal", elicitation.Sender{Session: "s1", Principal: bob()}, result(id, yes),
			elicitation.WrongPrincipal},
		{"nobody", elicitation.Sender{Session: "s1"}, result(id, yes), elicitation.WrongPrincipal},
		{"error from elsewhere", elicitation.Sender{Session: "s2", Principal: bob()},
			&protocol.Response{ID: id, Error: protocol.Errorf(1, "no")}, elicitation.WrongSession},
		{"garbage from elsewhere", elicitation.Sender{Session: "s2", Principal: bob()},
			result(id, `{}`), elicitation.WrongSession},
		{"made up", s.Sender(), result(protocol.StringID(strings.Repeat("a", 32)), yes),
			elicitation.Unknown},
		{"cut", s.Sender(), result(bare, yes), elicitation.Unknown},
		{"number", s.Sender(), result(protocol.IntID(1), yes), elicitation.Unknown},
		{"no id", s.Sender(), result(protocol.ID{}, yes), elicitation.Unknown},
		{"nil", s.Sender(), nil, elicitation.Unknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := *r
			r.TB = t
			r.complete(test.from, test.reply, test.want)
		})
	}
	if n := r.Pending(); n != 1 {
		t.Fatalf("%d pending, want the one", n)
	}
	r.complete(s.Sender(), result(id, yes), elicitation.Accepted)
	r.complete(s.Sender(), result(id, `{"action":"decline"}`), elicitation.Duplicate)
	r.complete(elicitation.Sender{Session: "s2", Principal: bob()}, result(id, yes),
		elicitation.WrongSession)
	r.complete(elicitation.Sender{Session: "s1", Principal: bob()}, result(id, yes),
		elicitation.WrongPrincipal)
	if outcome.Result == nil || outcome.Result.Action != protocol.ActionAccept {
		t.Errorf("outcome is %+v", outcome)
	}
	r.wantEvents("created delivered completed")
	r.settled()
}

func TestMalformedReplies(t *testing.T) {
	for _, test := range []struct{ name, reply string }{
		{"empty object", `{}`},
		{"nothing", ``},
		{"null", `null`},
		{"array", `[]`},
		{"action of no kind", `{"action":"approve"}`},
		{"action in capitals", `{"Action":"accept"}`},
		{"action twice", `{"action":"decline","action":"accept"}`},
		{"null action", `{"action":null}`},
		{"content is text", `{"action":"accept","content":"ok"}`},
		{"content twice", `{"action":"accept","content":{"ok":true},"content":{"ok":false}}`},
		{"wrapped", `{"method":"elicitation/create","result":{"action":"accept"}}`},
		{"not UTF-8", "{\"action\":\"accept\",\"content\":{\"a\":\"\xff\"}}"},
		{"too deep", `{"action":"accept","content":` + strings.Repeat(`{"a":`, 70) + "1" +
			strings.Repeat("}", 70) + `}`},
		{"too large beside the content",
			`{"action":"decline","_meta":{"a":"` + strings.Repeat("x", 2<<20) + `"}}`},
		{"too large", `{"action":"accept","content":{"a":"` + strings.Repeat("x", 1<<20) + `"}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, elicitation.Options{})
			s, offered, outcome := r.offered()
			offered.ConfirmDelivery()
			r.complete(s.Sender(), result(offered.Request().ID, test.reply), elicitation.Invalid)
			if outcome.Err == nil {
				t.Fatal("it was passed on")
			}
			refused(t, outcome.Err, elicitation.ReasonInvalidReply, -32603,
				"The client's answer is not valid")
			r.complete(s.Sender(), result(offered.Request().ID, yes), elicitation.Duplicate)
			r.wantEvents("created delivered error")
			r.wantCounted("errors_total{invalid_reply}", 1)
			r.settled()
		})
	}
}

// The memory of ended questions is bounded: replies to the oldest are unknown.
func TestEndedQuestionsAreRememberedInBoundedMemory(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	s, offered, _ := r.offered()
	first := offered.Request().ID
	offered.Cancel()
	r.complete(s.Sender(), result(first, yes), elicitation.Expired)
	for range 2048 {
		o, _ := r.put(offered.Call(), form("m"))
		o.Cancel()
	}
	r.complete(s.Sender(), result(first, yes), elicitation.Unknown)
}

func TestValidation(t *testing.T) {
	const bad = `{"action":"accept","content":{"ok":"canary","n":1}}`
	for _, test := range []struct {
		name  string
		how   elicitation.Validation
		reply string
		want  elicitation.Disposition
		warns bool
	}{
		{"warn", elicitation.ValidateWarn, bad, elicitation.Accepted, true},
		{"warn, absent content", elicitation.ValidateWarn, `{"action":"accept"}`,
			elicitation.Accepted, true},
		{"warn, fits", elicitation.ValidateWarn, yes, elicitation.Accepted, false},
		{"off", elicitation.ValidateOff, bad, elicitation.Accepted, false},
		{"enforce", elicitation.ValidateEnforce, bad, elicitation.Invalid, true},
		{"enforce, absent content", elicitation.ValidateEnforce, `{"action":"accept"}`,
			elicitation.Invalid, true},
		{"enforce, fits", elicitation.ValidateEnforce, yes, elicitation.Accepted, false},
		{"enforce, more than was asked", elicitation.ValidateEnforce, `{"action":"accept","content":{"Ok":false,"n":1.0,"ok":true}}`, elicitation.Accepted, false},
		{"enforce, decline", elicitation.ValidateEnforce, `{"action":"decline"}`,
			elicitation.Accepted, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, elicitation.Options{Validation: test.how})
			s, offered, outcome := r.offered()
			r.complete(s.Sender(), result(offered.Request().ID, test.reply), test.want)
			last := r.logs.All()[2]
			violation, warned := last.ContextMap()["violation"].(string)
			if warned != test.warns || strings.Contains(violation, "canary") {
				t.Errorf("violation %q", violation)
			}
			if test.want == elicitation.Invalid {
				e, _ := errors.AsType[*elicitation.Error](outcome.Err)
				if e == nil || e.Reason != elicitation.ReasonInvalidContent ||
					strings.Contains(e.Error(), "canary") {
					t.Errorf("error is %v", outcome.Err)
				}
			} else if raw, _ := outcome.Result.MarshalJSON(); string(raw) != test.reply && (test.how != elicitation.ValidateEnforce || string(raw) != `{"action":"accept","content":{"ok":true,"n":1}}`) {
				t.Errorf("content changed: %s", raw)
			}
		})
	}
}

// Optional fields are converted only with ValidateEnforce; else violations are logged.
func TestConversionNeedsEnforcement(t *testing.T) {
	const (
		asks = `{"message":"m","requestedSchema":{"type":"object","required":["r"],"properties":{
			"r":{"type":"string"},"n":{"type":"integer","default":7},"b":{"type":"boolean"},
			"e":{"type":"string","format":"email","default":"a@example.com"}}}}`
		came = `{"action":"accept","content":{"r":"","n":"5","b":"true","e":null}}`
	)
	for _, test := range []struct {
		how   elicitation.Validation
		want  string
		warns bool
	}{
		{elicitation.ValidateEnforce, `{"action":"accept","content":{"r":"","n":5,"b":true}}`, false},
		{elicitation.ValidateWarn, came, true},
		{elicitation.ValidateOff, came, false},
	} {
		r := newSceneVia(t, elicitation.Options{Validation: test.how}, byHand())
		offered, ended := r.put(r.call, json.RawMessage(asks))
		r.complete(r.session.Sender(), result(offered.Request().ID, came), elicitation.Accepted)
		if raw, err := ended.Result.MarshalJSON(); err != nil || string(raw) != test.want {
			t.Errorf("validation %d: got %s, %v; want %s", test.how, raw, err, test.want)
		}
		last := r.logs.All()[r.logs.Len()-1].ContextMap()
		_, warned := last["violation"]
		wantEqual(t, fmt.Sprintf("validation %d warns", test.how), warned, test.warns)
	}
}

// Accepted content does not change when the host's buffer does.
func TestRepliesAreCopied(t *testing.T) {
	const answer, data = `{"action":"accept","content":{"ok":true},"_meta":{"k":1}}`, `{"k":1}`
	for _, want := range []string{answer, data} {
		r := newRig(t, elicitation.Options{})
		s, offered, outcome := r.offered()
		buffer := []byte(want)
		reply := &protocol.Response{ID: offered.Request().ID, Result: buffer}
		if want == data {
			reply.Result = nil
			reply.Error = &protocol.Error{Code: -32000, Message: "no display", Data: buffer}
		}
		r.complete(s.Sender(), reply, elicitation.Accepted)
		clear(buffer)
		got := outcome.Response(protocol.IntID(1))
		if want == answer && string(got.Result) != want ||
			want == data && string(got.Error.Data) != want {
			t.Errorf("the outcome became %+v", got)
		}
	}
}

func TestDispositionsHaveNames(t *testing.T) {
	for d, want := range map[elicitation.Disposition]string{
		elicitation.Unknown: "unknown", elicitation.Accepted: "accepted",
		elicitation.WrongSession:   "wrong_session",
		elicitation.WrongPrincipal: "wrong_principal", elicitation.Duplicate: "duplicate",
		elicitation.Expired: "expired",
		elicitation.Invalid: "invalid",
	} {
		wantEqual(t, fmt.Sprint("disposition ", int(d)), d.String(), want)
	}
}

// Members of _meta about the client's connection do not go upstream, in any letter case.
func TestMetaOfAnswers(t *testing.T) {
	for _, test := range []struct{ name, meta, want string }{
		{"the person's", `{"k":1,"example.com/k":{"a":[1e400]}}`, `,"_meta":{"k":1,"example.com/k":{"a":[1e400]}}`},
		{"first is reserved", `{"io.modelcontextprotocol/related-task":{"taskId":"t"},"k":1}`, `,"_meta":{"k":1}`},
		{"last is reserved", `{"k":1,"io.modelcontextprotocol/serverInfo":{}}`, `,"_meta":{"k":1}`},
		{"all are reserved", `{"io.modelcontextprotocol/a":1,"io.modelcontextprotocol/":2}`, ``},
		{"in another case", `{"IO.ModelContextProtocol/protocolVersion":"x"}`, ``},
		{"a token", `{"progressToken":"t","ProgressToken":1}`, ``},
		{"no prefix", `{"io.modelcontextprotocol":1}`, `,"_meta":{"io.modelcontextprotocol":1}`},
		{"empty", `{}`, ``},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, elicitation.Options{})
			s, offered, outcome := r.offered()
			r.complete(s.Sender(), result(offered.Request().ID, `{"_meta":`+test.meta+`,"action":"accept","content":{"ok":true}}`), elicitation.Accepted)
			up := outcome.Response(protocol.IntID(1))
			if got, want := string(up.Result), `{"action":"accept","content":{"ok":true}`+test.want+`}`; got != want {
				t.Errorf("upstream gets %s, want %s", got, want)
			}
			r.settled()
		})
	}
}

// A client's error is bounded like its answer.
func TestClientErrorTooLarge(t *testing.T) {
	long := strings.Repeat("x", 2<<20)
	for name, wire := range map[string]*protocol.Error{
		"message": {Code: -32000, Message: long},
		"data":    {Code: -32000, Message: "m", Data: json.RawMessage(`"` + long + `"`)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, elicitation.Options{})
			s, offered, outcome := r.offered()
			r.complete(s.Sender(), &protocol.Response{ID: offered.Request().ID, Error: wire},
				elicitation.Invalid)
			refused(t, outcome.Err, elicitation.ReasonInvalidReply, -32603,
				"The client's answer is not valid")

			call := r.begin(elicitation.Origin{Session: s}, asksFor(wire)(nil), "asks")
			_, err := call.Elicit(t.Context(), form("m"))
			refused(t, err, elicitation.ReasonInvalidReply, -32603,
				"The client's answer is not valid")
			r.settled()
		})
	}
}
