package elicitation_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

func TestElicitFrom(t *testing.T) {
	for _, test := range []struct {
		name     string
		upstream elicitation.UpstreamKey
		names    string // the call that the question names, in JSON; "" for none
		want     string // the session that is asked, or the reason for the refusal
	}{
		{"only call on the connection", "alone", "", "s3"},
		{"two calls, nothing known", "shared", "", "ambiguous_origin"},
		{"call id", "shared", `"second"`, "s2"},
		{"call id of no call", "shared", `"third"`, "no_session"},
		{"the only call is another one", "alone", `"first"`, "no_session"},
		{"call id that two clients use", "twice", `"c"`, "ambiguous_origin"},
		{"call id that is no text", "shared", `1`, "ambiguous_origin"},
		{"call id that is empty", "shared", `""`, "ambiguous_origin"},
		{"unknown connection", "other", "", "no_session"},
		{"no connection", "", "", "no_session"},
		{"all calls are over", "ended", "", "no_session"},
		{"the client has gone", "detached", "", "no_session"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, elicitation.Options{})
			asked, read := "", ""
			begin := func(id string, o elicitation.Origin,
				up elicitation.UpstreamKey) *elicitation.Call {
				o.Session = r.attach(elicitation.SessionInfo{ID: id})
				sc := &screen{t: t}
				sc.answer = func(q *protocol.Request) {
					asked, read = id, string(q.Params)
					r.HandleReply(o.Session.Sender(), result(q.ID, yes))
				}
				return r.begin(o, elicitation.ViaFrames(sc), up)
			}
			begin("s1", elicitation.Origin{CallID: "first"}, "shared")
			begin("s2", elicitation.Origin{CallID: "second"}, "shared")
			begin("s3", elicitation.Origin{}, "alone")
			begin("s4", elicitation.Origin{}, "ended").End()
			begin("s5", elicitation.Origin{}, "detached").Origin().Session.Detach()
			begin("s6", elicitation.Origin{}, "")
			begin("s7", elicitation.Origin{CallID: "c"}, "twice")
			begin("s8", elicitation.Origin{CallID: "c"}, "twice")
			params := form("m")
			if test.names != "" {
				params = append([]byte(`{"_meta":{"k":1,"rondo/call":`+test.names+`},`), params[1:]...)
			}
			_, err := r.ElicitFrom(t.Context(), test.upstream, params)
			if err == nil {
				if asked != test.want || strings.Contains(read, "rondo/call") ||
					strings.Contains(read, `"k":1`) != (test.names != "") {
					t.Errorf("asked %q, want %q, who reads %s", asked, test.want, read)
				}
				return
			}
			kind := elicitation.ReasonNoSession
			if test.want == "ambiguous_origin" {
				kind = elicitation.ReasonAmbiguous
			}
			refused(t, err, kind, -32601, "No client session available")
			wantEqual(t, "asked all the same", asked, "")
			r.wantEvents("rejected")
			f := r.logs.All()[0].ContextMap()
			if f["reason"] != test.want || f["upstream_session"] != string(test.upstream) ||
				f["message"] != "m" {
				t.Errorf("the log says %v", f)
			}
			if id, _ := f["call_id"].(string); test.want == "no_session" && test.names != "" &&
				test.names != `"`+id+`"` {
				t.Errorf("the log says that call %q asked", id)
			}
		})
	}
}

// Questions for a client that has left do not reach other clients on the connection: the call
// counts until its host has ended it and, if it was cancelled, for some time after that.
func TestOriginOfACallThatIsOver(t *testing.T) {
	for name, leave := range map[string]func(c *elicitation.Call, cancel func()){
		"request cancelled": func(_ *elicitation.Call, cancel func()) { cancel() },
		"session gone":      func(c *elicitation.Call, _ func()) { c.Origin().Session.Detach() },
		"aborted, and over": func(c *elicitation.Call, cancel func()) { cancel(); c.End() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, elicitation.Options{})
				turn := func(ctx context.Context, who protocol.Principal,
					id string) (*screen, *elicitation.Call) {
					s := r.attach(elicitation.SessionInfo{Principal: who})
					sc := r.answers(s, yes)
					return sc, r.beginIn(ctx, elicitation.Origin{Session: s, CallID: id},
						elicitation.ViaFrames(sc), "up")
				}
				ask := func(call string) error {
					_, err := r.ElicitFrom(t.Context(), "up", ofCall(call, form("for whom?")))
					return err
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				_, first := turn(ctx, alice(), "1")
				leave(first, cancel)
				sc, second := turn(t.Context(), bob(), "2")
				synctest.Wait()
				refused(t, ask(""), elicitation.ReasonAmbiguous, -32601,
					"No client session available")
				refused(t, ask("1"), elicitation.ReasonNoSession, -32601,
					"No client session available")
				if n := len(sc.requests()); n != 0 {
					t.Fatalf("bob was asked %d times", n)
				}
				if err := ask("2"); err != nil {
					t.Error(err)
				}
				first.End()
				second.End()
				time.Sleep(10 * time.Minute)
				turn(t.Context(), bob(), "3")
				if err := ask(""); err != nil {
					t.Error(err)
				}
				r.settled()
			})
		})
	}
}

// The latest connections with cancelled calls are remembered, in bounded memory.
func TestAbortedCallsAreRememberedInBoundedMemory(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	s := r.attach(elicitation.SessionInfo{ID: "s1"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 5000 {
		r.beginIn(ctx, elicitation.Origin{Session: s}, byHand(),
			elicitation.UpstreamKey(fmt.Sprint("up ", i))).End()
	}
	for _, test := range []struct {
		up   elicitation.UpstreamKey
		want bool
	}{{"up 0", false}, {"up 4999", true}} {
		t.Run(string(test.up), func(t *testing.T) {
			r.begin(elicitation.Origin{Session: s}, byHand(), test.up)
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // nobody answers
			_, err := r.ElicitFrom(ctx, test.up, form("m"))
			wantEqual(t, fmt.Sprint(test.up, " is ambiguous"),
				errors.Is(err, elicitation.ReasonAmbiguous), test.want)
		})
	}
}

// Capabilities declared with a request hold for that request alone.
func TestCapabilitiesThatChangeBetweenCalls(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	s := r.attach(elicitation.SessionInfo{ID: "s1"})
	sc := r.answers(s, yes)
	var none protocol.ClientCapabilities
	link := caps(false, true)
	for i, test := range []struct {
		declared *protocol.ClientCapabilities
		want     elicitation.Reason
	}{
		{nil, ""}, {&none, elicitation.ReasonCapability},
		{&link, elicitation.ReasonMode}, {nil, ""},
	} {
		r.begin(elicitation.Origin{Session: s, Capabilities: test.declared,
			CallID: fmt.Sprint(i)}, elicitation.ViaFrames(sc), "up") // they overlap
		_, err := r.ElicitFrom(t.Context(), "up", ofCall(fmt.Sprint(i), form("m")))
		if test.want == "" && err != nil || test.want != "" && !errors.Is(err, test.want) {
			t.Errorf("call %d: %v, want %q", i, err, test.want)
		}
	}
	r.settled()
}
