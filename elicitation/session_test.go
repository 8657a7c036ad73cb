package elicitation_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

func TestAttach(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	s := r.attach(elicitation.SessionInfo{ID: "s1"})
	if _, err := r.Attach(elicitation.SessionInfo{ID: "s1"}); err == nil {
		t.Error("one id was attached twice")
	}
	s.Detach()
	wantEqual(t, "id", r.attach(elicitation.SessionInfo{ID: "s1"}).ID(), "s1")
	for _, version := range []protocol.Version{"2027-01-01", "draft", "2025"} {
		if _, err := r.Attach(elicitation.SessionInfo{Version: version}); err == nil {
			t.Errorf("a session of version %q is attached", version)
		}
	}
	a, b := r.attach(elicitation.SessionInfo{}), r.attach(elicitation.SessionInfo{})
	if a.ID() == b.ID() || len(a.ID()) != 32 {
		t.Errorf("random ids are %q and %q", a.ID(), b.ID())
	}
}

func TestUndeclaredModesAreRefused(t *testing.T) {
	const url = `{"mode":"url","message":"m","url":"https://id.example/","elicitationId":"e"}`
	plain := strings.Replace(string(form("m")), `"mode":"form",`, "", 1)
	none, form, link := "Client does not support elicitation",
		"Client does not support form elicitation", "Client does not support URL elicitation"
	for _, test := range []struct {
		name, declared  string
		version         protocol.Version
		params, message string // empty: the question is asked
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
		{"June, url", `{"elicitation":{"form":{},"url":{}}}`, protocol.V20250618, url, link,
			-32602, "mode"},
		{"June, url alone", `{"elicitation":{"url":{}}}`, protocol.V20250618, url, none,
			-32601, "capability"},
		{"of a revision without requests", `{"elicitation":{}}`, protocol.V20260728, plain, none,
			-32601, "capability"},
		{"of a revision without requests, url", `{"elicitation":{"url":{}}}`, protocol.V20260728,
			url, none, -32601, "capability"},
		{"March", `{"elicitation":{}}`, protocol.V20250326, plain, none, -32601, "capability"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, elicitation.Options{})
			declared, err := protocol.DecodeClientCapabilities([]byte(test.declared))
			noError(t, err)
			s, err := r.Attach(elicitation.SessionInfo{Capabilities: declared,
				Version: test.version})
			noError(t, err)
			sc := r.answers(s, `{"action":"decline"}`)
			sc.version = string(test.version)
			call := r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(sc), "up")
			_, err = call.Elicit(t.Context(), json.RawMessage(test.params))
			if test.message == "" {
				if err != nil {
					t.Errorf("it is refused: %v", err)
				}
				return
			}
			refused(t, err, elicitation.ReasonCapability, test.code, test.message)
			wantEqual(t, "frames sent", len(sc.frames), 0)
			r.wantEvents("rejected")
			r.wantCounted("rejected_total{"+test.reason+"}", 1)
			r.wantCounted("requests_total", 0)
		})
	}
}
