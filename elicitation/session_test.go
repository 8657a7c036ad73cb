package elicitation_test

import (
	"encoding/json"
	"fmt"
	"slices"
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
	if again := r.attach(elicitation.SessionInfo{ID: "s1"}); again.ID() != "s1" {
		t.Errorf("id is %q", again.ID())
	}
	a, b := r.attach(elicitation.SessionInfo{}), r.attach(elicitation.SessionInfo{})
	if a.ID() == b.ID() || len(a.ID()) != 32 {
		t.Errorf("random ids are %q and %q", a.ID(), b.ID())
	}
}

// What clients have declared can be listed from the moment that they are attached.
func TestSessionsAreListed(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	list := func() (got []string) {
		for _, s := range r.Sessions() {
			info := s.Info()
			got = append(got,
				fmt.Sprint(info.ID, " ", info.Principal.Subject, " ", info.Version, " ",
					info.Capabilities.Elicitation != nil && info.Capabilities.Elicitation.URL))
		}
		return got
	}
	b := r.attach(elicitation.SessionInfo{ID: "b", Principal: bob(), Version: protocol.V20250618})
	r.attach(elicitation.SessionInfo{ID: "a", Principal: alice(), Capabilities: caps(true, false)})
	want := []string{"a alice 2025-11-25 false", "b bob 2025-06-18 true"}
	if got := list(); !slices.Equal(got, want) {
		t.Errorf("sessions are %q, want %q", got, want)
	}
	b.Detach()
	if got := list(); !slices.Equal(got, want[:1]) {
		t.Errorf("sessions are %q, want %q", got, want[:1])
	}
}

// attachDeclaring attaches a client with these capabilities.
func (r *rig) attachDeclaring(declared string, v protocol.Version) *elicitation.Session {
	r.Helper()
	capabilities, err := protocol.DecodeClientCapabilities([]byte(declared))
	if err != nil {
		r.Fatal(err)
	}
	s, err := r.Attach(elicitation.SessionInfo{ID: "s1", Capabilities: capabilities, Version: v})
	if err != nil {
		r.Fatal(err)
	}
	return s
}

func TestUndeclaredModesAreRefused(t *testing.T) {
	const url = `{"mode":"url","message":"m","url":"https://id.example/","elicitationId":"e"}`
	plain := strings.Replace(string(form("m")), `"mode":"form",`, "", 1)
	none, form, link := "Client does not support elicitation",
		"Client does not support form elicitation", "Client does not support URL elicitation"
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
		{"June, url", `{"elicitation":{"form":{},"url":{}}}`, protocol.V20250618, url, link,
			-32602, "mode"},
		{"March", `{"elicitation":{}}`, protocol.V20250326, plain, none, -32601, "capability"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, elicitation.Options{})
			s := r.attachDeclaring(test.declared, test.version)
			sc := r.answers(s, `{"action":"decline"}`)
			sc.version = string(test.version)
			call := r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(sc), "up")
			_, err := call.Elicit(t.Context(), json.RawMessage(test.params), nil)
			if test.message == "" {
				if err != nil {
					t.Errorf("it is refused: %v", err)
				}
				return
			}
			refused(t, err, elicitation.ReasonCapability, test.code, test.message)
			if n := len(sc.frames); n != 0 {
				t.Errorf("%d frames were sent", n)
			}
			r.wantEvents("rejected")
			r.wantCounted("rejected_total{"+test.reason+"}", 1)
			r.wantCounted("requests_total", 0)
		})
	}
}

func TestUpstreamCapabilities(t *testing.T) {
	for _, test := range []struct {
		name     string
		declared string
		version  protocol.Version
		want     string
	}{
		{"nothing", `{}`, "", `{}`},
		{"empty object", `{"sampling":{},"roots":{},"elicitation":{}}`, "", `{"elicitation":{"form":{}}}`},
		{"URL mode", `{"elicitation":{"url":{}}}`, "", `{"elicitation":{"url":{}}}`},
		{"URL mode before its revision", `{"elicitation":{"url":{}}}`, protocol.V20250618, `{}`},
		{"both modes", `{"elicitation":{"form":{},"url":{}}}`, "",
			`{"elicitation":{"form":{},"url":{}}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, elicitation.Options{})
			s := r.attachDeclaring(test.declared, test.version)
			if got, _ := s.UpstreamCapabilities().MarshalJSON(); string(got) != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// A server sends no requests to a client of revision 2026-07-28, nor to one that
// speaks nobody knows what.
func TestVersionsWithoutRequestsOfTheServer(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	s := r.attach(elicitation.SessionInfo{ID: "s1", Version: protocol.V20260728})
	sc := &screen{t: t}
	call := r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(sc), "up")
	for _, params := range []json.RawMessage{form("m"),
		urlQuestion("m", "https://id.example/", "1")} {
		_, err := call.Elicit(t.Context(), params, nil)
		refused(t, err, elicitation.ReasonCapability, -32601, "Client does not support elicitation")
	}
	if len(sc.frames) != 0 {
		t.Errorf("the client got %d frames", len(sc.frames))
	}
	for _, version := range []protocol.Version{"2027-01-01", "draft", "2025"} {
		if _, err := r.Attach(elicitation.SessionInfo{Version: version}); err == nil {
			t.Errorf("a session of version %q is attached", version)
		}
	}
	r.settled()
}
