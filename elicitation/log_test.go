package elicitation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

// Secrets in answers and URLs never reach logs, metrics or errors.
func TestSecretsStayOut(t *testing.T) {
	const canary = "canary-4242-secret"
	for _, how := range []elicitation.Validation{elicitation.ValidateWarn, elicitation.ValidateOff,
		elicitation.ValidateEnforce} {
		r := newRig(t, elicitation.Options{Validation: how})
		s := r.attach(elicitation.SessionInfo{ID: "s1", Principal: alice()})
		var errs []error
		replies := []string{
			`{"action":"accept","content":{"ok":true,"pin":"` + canary + `"}}`,
			`{"action":"accept","content":{"ok":"` + canary + `"}}`,
			`{"action":"accept","content":{"` + canary + `":1}}`,
			`{"action":"decline","content":{"ok":"` + canary + `"}}`,
			`{"action":"` + canary + `"}`,
			`{"action":"accept","content":"` + canary + `"}`,
			`{"action":"accept","content":{"ok":` + canary + `}}`,
			`{"action":"accept","` + canary + `":1,"` + canary + `":2}`,
		}
		questions := []json.RawMessage{
			form("m"), urlQuestion("m", "https://id.example/?code="+canary, "e"),
			urlQuestion("m", "https://"+canary+"@id.example/", "e"),
			urlQuestion("m", "http://id.example/"+canary, "e"),
			urlQuestion("m", canary+"://x", "e"),
			json.RawMessage(`{"mode":"url","message":"m","url":["` + canary + `"]}`),
			json.RawMessage(`{"mode":"url","message":"m","url":"` + canary),
			json.RawMessage(`{"mode":"` + canary + `","message":"m"}`),
		}
		for _, reply := range replies {
			sc := &screen{t: t}
			sc.answer = func(q *protocol.Request) { r.HandleReply(s.Sender(), result(q.ID, reply)) }
			for _, via := range []elicitation.Via{elicitation.ViaFrames(sc),
				asksFor(fmt.Errorf("cannot use %s", reply))(sc)} {
				call := r.begin(elicitation.Origin{Session: s}, via, "up")
				for _, q := range questions {
					_, err := call.Elicit(t.Context(), q)
					if e, ok := errors.AsType[*elicitation.Error](err); ok {
						errs = append(errs, e, e.Wire)
					}
				}
				call.End()
			}
		}
		text := r.logText()
		families, _ := r.registry.Gather()
		text += fmt.Sprint(families)
		for _, err := range errs {
			// The upstream may read the error of its own question.
			if wire, _ := protocol.AsError(err); wire.Code != protocol.CodeInvalidParams {
				text += fmt.Sprintln(err, string(wire.Data))
			}
		}
		if i := strings.Index(text, canary); i >= 0 {
			t.Errorf("validation %d: the secret is there: …%s…", how,
				text[max(0, i-200):min(len(text), i+200)])
		}
		if r.logs.Len() < 100 {
			t.Errorf("%d logged", r.logs.Len())
		}
		r.settled()
	}
}

// A redactor removes secrets from question texts, even where a transport error quotes them.
func TestRedactor(t *testing.T) {
	const canary = "canary-4242-secret"
	r := newScene(t, elicitation.Options{Redactor: hideMessage}, yes)
	if _, err := r.ask(form("Is it " + canary + "?")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ask(json.RawMessage(`{"message":"` + canary + `"}`)); err == nil {
		t.Error("a question without a schema was asked")
	}
	if _, err := r.ElicitFrom(t.Context(), "other", form(canary)); err == nil {
		t.Error("a question of nobody's was asked")
	}
	quotes := r.begin(elicitation.Origin{Session: r.session}, sends(
		func(_ context.Context, m protocol.Message) error {
			return fmt.Errorf("cannot write %s", m.(*protocol.Request).Params)
		}), "quotes")
	if _, err := quotes.Elicit(t.Context(), form("Is it "+canary+"?")); !errors.Is(err,
		elicitation.ReasonDelivery) {
		t.Errorf("error is %v", err)
	}
	if text := r.logText(); strings.Contains(text, canary) {
		t.Errorf("the secret is there: %s", text)
	}
	wantEqual(t, "message", r.logs.All()[0].ContextMap()["message"], "len=25")
	r.wantEvents("created delivered completed rejected rejected created error")
}

func TestMessagesInLogs(t *testing.T) {
	for _, test := range []struct{ name, message, want string }{
		{"plain", "Größe für 日本?", "Größe für 日本?"},
		{"forged line", "x\n{\"msg\":\"elicitation.completed\"}", `x\n{"msg":"elicitation.completed"}`},
		{"terminal", "\x1b[2Jhello\u202e", `\x1b[2Jhello\u202e`},
		{"exactly as long as fits", strings.Repeat("ä", 256), strings.Repeat("ä", 256)},
		{"long", strings.Repeat("ä", 257), strings.Repeat("ä", 255) + "…"},
		{"long and hidden", strings.Repeat("\x00", 100), strings.Repeat(`\x00`, 63) + "…"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSceneVia(t, elicitation.Options{}, byHand())
			message, _ := json.Marshal(test.message)
			s.put(s.call, json.RawMessage(`{"requestedSchema":{},"message":`+string(message)+`}`))
			got := s.logs.All()[0].ContextMap()["message"].(string)
			if got != test.want || utf8.RuneCountInString(got) > 256 {
				t.Errorf("message is %q, want %q", got, test.want)
			}
		})
	}
}

func TestCausesAreLogged(t *testing.T) {
	dial := &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}
	for _, test := range []struct {
		name string
		via  func(sc *screen) elicitation.Via
		want string
	}{
		{"a transport's text", func(sc *screen) elicitation.Via {
			sc.fail = errors.New("no stream at https://client.example/mcp?key=canary")
			return elicitation.ViaFrames(sc)
		}, "no stream at https://client.example/mcp?…"},
		{"an SDK's known cause", asksFor(fmt.Errorf("secret: %w", io.ErrUnexpectedEOF)),
			"unexpected EOF"},
		{"an SDK's number of the system", asksFor(fmt.Errorf("secret: %w", dial)), "broken pipe"},
		{"an SDK's own type", asksFor(fmt.Errorf("secret: %w",
			&json.UnsupportedValueError{Str: "secret"})),
			"error of type *json.UnsupportedValueError"},
		{"an answer that cannot be read", func(sc *screen) elicitation.Via {
			return asker(func(context.Context, elicitation.Question, func()) (string, error) {
				return `{"secret":`, nil
			})
		}, "the result is not strict JSON"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newSceneVia(t, elicitation.Options{}, test.via(&screen{t: t}))
			if _, err := r.ask(form("m")); err == nil {
				t.Fatal("the question has an answer")
			}
			end := r.logs.FilterMessage("elicitation.error").All()
			if len(end) != 1 || end[0].ContextMap()["error"] != test.want {
				t.Errorf("the log has %v, want error %q", end, test.want)
			}
		})
	}
}

func asksFor(err error) func(*screen) elicitation.Via {
	return func(*screen) elicitation.Via {
		return asker(func(context.Context, elicitation.Question, func()) (string, error) {
			return "", err
		})
	}
}

// Host names that a peer may have chosen are escaped too.
func TestNamesInLogs(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	s := r.attach(elicitation.SessionInfo{ID: "secret-id", LogName: "alice's\nlaptop"})
	call := r.begin(elicitation.Origin{Session: s, CallID: "c\n1",
		Request: protocol.StringID("r1\n")},
		elicitation.ViaFrames(r.answers(s, yes)), "up\n1")
	if _, err := call.Elicit(t.Context(), form("m")); err != nil {
		t.Fatal(err)
	}
	f := r.logs.All()[0].ContextMap()
	if f["downstream_session"] != `alice's\nlaptop` || f["upstream_session"] != `up\n1` ||
		f["call_id"] != `c\n1` || f["client_request"] != `"r1\n"` {
		t.Errorf("the log has %v", f)
	}
}

// A rejected question's entry describes the calls that could have caused it.
func TestRejectionsNameTheCallsTheyCouldBeOf(t *testing.T) {
	r := newRig(t, elicitation.Options{
		Subject: func(p protocol.Principal) string { return p.Subject }})
	alice, bob := protocol.Principal{Subject: "alice"}, protocol.Principal{Subject: "bob"}
	s := r.attach(elicitation.SessionInfo{ID: "s1", Principal: alice})
	begin := func(s *elicitation.Session, id int64, upstream elicitation.UpstreamKey) {
		r.begin(elicitation.Origin{Session: s, Request: protocol.IntID(id)}, byHand(), upstream)
	}
	begin(s, 1, "same")
	begin(s, 2, "same")
	begin(s, 3, "different")
	begin(r.attach(elicitation.SessionInfo{ID: "s2", Principal: bob}), 4, "different")
	over, cancel := context.WithCancel(t.Context())
	r.beginIn(over, elicitation.Origin{Session: s, Request: protocol.IntID(5)}, elicitation.Via{},
		"over")
	cancel()
	ids := map[string]bool{"": true}
	for i, test := range []struct {
		upstream   elicitation.UpstreamKey
		session    string
		subject    any
		request    any
		candidates any
	}{
		{"same", "s1", "alice", nil, int64(2)},
		{"different", "", nil, nil, int64(2)},
		{"over", "s1", "alice", "5", nil},
		{"none", "", nil, nil, nil},
	} {
		if _, err := r.ElicitFrom(t.Context(), test.upstream, form("?")); err == nil {
			t.Fatalf("%s: was asked", test.upstream)
		}
		e := r.logs.All()[i].ContextMap()
		if e["downstream_session"] != test.session || e["subject"] != test.subject ||
			e["client_request"] != test.request || e["candidates"] != test.candidates {
			t.Errorf("%s: %+v", test.upstream, e)
		}
		id := e["request_id"].(string)
		if ids[id] {
			t.Errorf("%s: the id %q is not its own", test.upstream, id)
		}
		ids[id] = true
	}
}

func hideMessage(message string) string { return fmt.Sprintf("len=%d", len(message)) }
