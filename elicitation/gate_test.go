package elicitation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

func TestGate(t *testing.T) {
	const url = `{"mode":"url","message":"m","url":"https://id.example/","elicitationId":"e"}`
	plain := strings.Replace(string(form("m")), `"mode":"form",`, "", 1)
	none, form, link := "Client does not support elicitation", "Client does not support form elicitation", "Client does not support URL elicitation"
	for _, test := range []struct {
		name, declared  string
		version         protocol.Version
		params, message string // empty: it is asked
		code            int64
		reason          string
	}{
		{"absent, form", `{}`, "", plain, none, -32601, "capability"},
		{"absent, url", `{"sampling":{}}`, "", url, none, -32601, "capability"},
		{"absent, nonsense", `{}`, "", `[]`, none, -32601, "capability"},
		{"empty, form", `{"elicitation":{}}`, "", plain, "", 0, ""},
		{"empty, form by name", `{"elicitation":{}}`, "", `{"mode":"form",` + plain[1:], "", 0, ""},
		{"empty, url", `{"elicitation":{}}`, "", url, link, -32602, "mode"},
		{"form, form", `{"elicitation":{"form":{}}}`, "", plain, "", 0, ""},
		{"form, url", `{"elicitation":{"form":{}}}`, "", url, link, -32602, "mode"},
		{"url, form", `{"elicitation":{"url":{}}}`, "", plain, form, -32602, "mode"},
		{"url, url", `{"elicitation":{"url":{}}}`, "", url, "", 0, ""},
		{"both, url", `{"elicitation":{"form":{},"url":{}}}`, "", url, "", 0, ""},
		{"June, form", `{"elicitation":{}}`, protocol.V20250618, plain, "", 0, ""},
		{"June, url", `{"elicitation":{"form":{},"url":{}}}`, protocol.V20250618, url, link, -32602, "mode"},
		{"March", `{"elicitation":{}}`, protocol.V20250326, plain, none, -32601, "capability"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, elicitation.Options{})
			declared, err := protocol.DecodeClientCapabilities([]byte(test.declared))
			if err != nil {
				t.Fatal(err)
			}
			s, err := r.Attach(elicitation.SessionInfo{ID: "s1", Capabilities: declared, Version: test.version})
			if err != nil {
				t.Fatal(err)
			}
			sc := r.answers(s, `{"action":"decline"}`)
			sc.version = string(test.version)
			call := r.begin(elicitation.Origin{Session: s}, elicitation.Frames(sc), "up")
			defer call.End()
			_, err = call.Elicit(t.Context(), json.RawMessage(test.params), nil)
			if test.message == "" {
				if err != nil {
					t.Errorf("it is refused: %v", err)
				}
				return
			}
			refused(t, err, elicitation.ErrNotDeclared, test.code, test.message)
			if n := len(sc.frames); n != 0 {
				t.Errorf("%d frames were sent", n)
			}
			r.wantEvents("rejected")
			if n := r.value("elicitation_rejected_total", "reason", test.reason); n != 1 {
				t.Errorf("rejected{%s} is %v, want 1", test.reason, n)
			}
			if n := books(t, r.registry)["elicitation_requests_total"]; n != 0 {
				t.Errorf("a refusal counts as %v requests", n)
			}
		})
	}
}

// The capabilities of one request take the place of the session's.
func TestCapabilitiesOfARequest(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	s := r.attach(elicitation.SessionInfo{ID: "s1"})
	none := protocol.ClientCapabilities{}
	call := r.begin(elicitation.Origin{Session: s, Capabilities: &none}, elicitation.Frames(&screen{t: t}), "up")
	defer call.End()
	_, err := call.Elicit(t.Context(), form("m"), nil)
	refused(t, err, elicitation.ErrNotDeclared, -32601, "Client does not support elicitation")
	if c := call.UpstreamCapabilities(); !c.IsZero() {
		t.Errorf("upstream capabilities of the call are %v", c)
	}
}

func TestUpstreamCapabilities(t *testing.T) {
	for _, test := range []struct {
		declared string
		version  protocol.Version
		want     string
	}{
		{`{}`, "", `{}`},
		{`{"sampling":{},"roots":{},"elicitation":{}}`, "", `{"elicitation":{"form":{}}}`},
		{`{"elicitation":{"url":{}}}`, "", `{"elicitation":{"url":{}}}`},
		{`{"elicitation":{"url":{}}}`, protocol.V20250618, `{}`},
		{`{"elicitation":{"form":{},"url":{}}}`, "", `{"elicitation":{"form":{},"url":{}}}`},
	} {
		r := newRig(t, elicitation.Options{})
		declared, err := protocol.DecodeClientCapabilities([]byte(test.declared))
		if err != nil {
			t.Fatal(err)
		}
		s, err := r.Attach(elicitation.SessionInfo{Capabilities: declared, Version: test.version})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := s.UpstreamCapabilities().MarshalJSON(); string(got) != test.want {
			t.Errorf("%s of %s: %s, want %s", test.declared, test.version, got, test.want)
		}
	}
}

func TestQuestionsThatAreRefused(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 11) + "1" + strings.Repeat("}", 11)
	long := `{"type":"object","properties":{"a":{"type":"string","description":"` + strings.Repeat("x", 100<<10) + `"}}}`
	for _, test := range []struct {
		name, params, reason string
	}{
		{"nothing", ``, "invalid_question"},
		{"null", `null`, "invalid_question"},
		{"array", `[]`, "invalid_question"},
		{"not JSON", `{"message":`, "invalid_question"},
		{"duplicate member", `{"message":"a","message":"b","requestedSchema":{}}`, "invalid_question"},
		{"no message", `{"requestedSchema":{}}`, "invalid_question"},
		{"no schema", `{"message":"m"}`, "invalid_question"},
		{"schema is no object", `{"message":"m","requestedSchema":[]}`, "invalid_question"},
		{"unknown mode", `{"mode":"voice","message":"m","requestedSchema":{}}`, "invalid_question"},
		{"wrong case", `{"Message":"m","requestedSchema":{}}`, "invalid_question"},
		{"token is no id", `{"message":"m","requestedSchema":{},"_meta":{"progressToken":1.5}}`, "invalid_question"},
		{"schema too deep", `{"message":"m","requestedSchema":` + deep + `}`, "too_large"},
		{"schema too large", `{"message":"m","requestedSchema":` + long + `}`, "too_large"},
		{"message too large", `{"message":"` + strings.Repeat("x", 200<<10) + `","requestedSchema":{}}`, "too_large"},
		{"url without URL", `{"mode":"url","message":"m","elicitationId":"e"}`, "invalid_question"},
		{"javascript", `{"mode":"url","message":"m","url":"javascript:alert(1)","elicitationId":"e"}`, "url_policy"},
		{"plain http", `{"mode":"url","message":"m","url":"http://id.example/","elicitationId":"e"}`, "url_policy"},
		{"user name", `{"mode":"url","message":"m","url":"https://bank.example@evil.example/","elicitationId":"e"}`, "url_policy"},
		{"no host", `{"mode":"url","message":"m","url":"https:///x","elicitationId":"e"}`, "url_policy"},
		{"malformed", `{"mode":"url","message":"m","url":"https://%zz/","elicitationId":"e"}`, "url_policy"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, elicitation.Options{})
			s := r.attach(elicitation.SessionInfo{ID: "s1"})
			sc := &screen{t: t}
			call := r.begin(elicitation.Origin{Session: s}, elicitation.Frames(sc), "up")
			defer call.End()
			_, err := call.Elicit(t.Context(), json.RawMessage(test.params), nil)
			e, ok := errors.AsType[*elicitation.Error](err)
			if !ok || string(e.Reason) != test.reason || e.Wire.Code != -32602 || !errors.Is(err, elicitation.ErrInvalidQuestion) {
				t.Fatalf("error is %v (%+v), want reason %s with -32602", err, e, test.reason)
			}
			if len(sc.frames) != 0 {
				t.Error("something was sent")
			}
			r.wantEvents("rejected")
			r.settled()
		})
	}
}

func TestURLPolicy(t *testing.T) {
	for _, url := range []string{"https://id.example/a?b=c#d", "http://localhost:8080/", "http://127.0.0.1/", "http://[::1]:80/x"} {
		if err := elicitation.DefaultURLPolicy(t.Context(), elicitation.URLVisit{URL: url}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	r := newRig(t, elicitation.Options{URLPolicy: func(_ context.Context, v elicitation.URLVisit) error {
		if v.Upstream != "up" || v.Call == nil || v.URL != "https://id.example/x?code=canary" {
			t.Errorf("the policy was asked about %+v", v)
		}
		return errors.New("not listed: " + v.URL)
	}})
	s := r.attach(elicitation.SessionInfo{ID: "s1"})
	call := r.begin(elicitation.Origin{Session: s}, elicitation.Frames(&screen{t: t}), "up")
	defer call.End()
	_, err := call.Elicit(t.Context(), visit("m", "https://id.example/x?code=canary", "e"), nil)
	refused(t, err, elicitation.ErrInvalidQuestion, -32602, "Invalid elicitation request: the URL is not allowed")
	if f := r.logs.All()[0].ContextMap(); f["error"] != "not listed: https://id.example/x?…" {
		t.Errorf("the log says %v", f["error"])
	}
}

// What no person should be sent to, no policy of the host's can allow, but it can
// allow another scheme.
func TestURLPolicyCannotLiftTheRule(t *testing.T) {
	r := newRig(t, elicitation.Options{URLPolicy: func(context.Context, elicitation.URLVisit) error { return nil }})
	s := r.attach(elicitation.SessionInfo{ID: "s1"})
	sc := r.answers(s, `{"action":"accept"}`)
	call := r.begin(elicitation.Origin{Session: s}, elicitation.Frames(sc), "up")
	defer call.End()
	for i, url := range []string{"javascript:alert(1)", "/relative", "https://user@id.example/", "https://id.example/" + strings.Repeat("a", 8<<10)} {
		_, err := call.Elicit(t.Context(), visit("m", url, fmt.Sprint("e", i)), nil)
		refused(t, err, elicitation.ErrInvalidQuestion, -32602, "Invalid elicitation request: the URL is not allowed")
	}
	if len(sc.frames) != 0 {
		t.Error("something was sent")
	}
	if _, err := call.Elicit(t.Context(), visit("m", "http://intranet.example/", "e"), nil); err != nil {
		t.Error(err)
	}
}
