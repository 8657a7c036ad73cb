package urlrule_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"unicode"

	"github.com/rondo-mcp/rondo/internal/forms/urlrule"
	"github.com/rondo-mcp/rondo/protocol"
)

// The variable refused has URLs, each with a word of the reason for its refusal.
var refused = [...]struct{ url, why string }{
	{"", "absolute"}, {"/relative", "absolute"}, {"relative", "absolute"},
	{"//host.example/", "absolute"}, {"?a=b", "absolute"},
	{"javascript:alert(1)", "never"}, {"JavaScript:alert(1)", "never"}, {"vbscript:x", "never"},
	{"file:///etc/passwd", "never"}, {"data:text/html,x", "never"},
	{"blob:https://a.example/x", "never"},
	{"ftp://a.example/", "scheme"}, {"mailto:a@a.example", "host"}, {"canary-4242:x", "host"},
	{"https:a.example", "host"}, {"https://", "host"}, {"https:///x", "host"},
	{"https://:443/", "host"},
	{"https://user@a.example/", "credentials"},
	{"https://user:canary-4242@a.example/", "credentials"}, {"https://@a.example/", "credentials"},
	{"http://a.example/", "loopback"}, {"http://169.254.169.254/", "loopback"},
	{"http://10.0.0.1/", "loopback"}, {"http://192.168.0.1/", "loopback"},
	{"http://0.0.0.0/", "loopback"}, {"http://[::]/", "loopback"},
	{"http://[fe80::1]/", "loopback"}, {"http://localhost.evil.example/", "loopback"},
	{"http://127.0.0.1.evil.example/", "loopback"}, {"http://0x7f000001/", "loopback"},
	{"http://2130706433/", "loopback"}, {"http://127.1/", "loopback"},
	{"https://a.example/\x00", "U+0000"}, {"https://a.example/\x1f", "U+001F"},
	{"https://a.example/\x7f", "U+007F"}, {"https://a.example/\u0080", "U+0080"},
	{"https://a.example/\u009f", "U+009F"},
	{"https://a.example/a b", "U+0020"}, {"https://a.example/\u00a0", "U+00A0"},
	{"https://a.example/\u202e", "U+202E"}, {"https://a.example/\u200b", "U+200B"},
	{"https://a.example\\@b.example/", "U+005C"}, {"\nhttps://a.example/", "U+000A"},
	{"https://%zz/", "parsed"}, {"https://[::1/", "parsed"}, {"https://a.example:port/", "parsed"},
	{"https://a.example/\xff", "UTF-8"},
	{"https://a.example/" + strings.Repeat("a", urlrule.MaxBytes), "longer"},
}

var allowed = [...]string{
	"https://a.example", "https://a.example/", "https://a.example:8443/a/b?c=d&e=%20#f",
	"HTTPS://A.EXAMPLE/", "https://ä.example/ö", "https://10.0.0.1/",
	"https://a.example/?u=https://b@c/",
	"http://localhost", "http://LocalHost:8080/x", "http://127.0.0.1/", "http://127.8.9.1:1/",
	"http://[::1]:80/x", "https://a.example/\u00a1",
	"https://a.example/" + strings.Repeat("a", urlrule.MaxBytes-len("https://a.example/")),
}

func TestCheck(t *testing.T) {
	for _, tt := range refused {
		u, err := urlrule.Check(tt.url)
		if err == nil || u != nil || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%.60q: %v, %v; want %s", tt.url, u, err, tt.why)
		} else if strings.Contains(err.Error(), "4242") {
			t.Errorf("%q: the error repeats it: %v", tt.url, err)
		}
	}
	for _, text := range allowed {
		if u, err := urlrule.Check(text); err != nil || u == nil {
			t.Errorf("%.60q: %v", text, err)
		}
	}
}

// The hook is called only for allowed URLs.
func TestHookRefusesMore(t *testing.T) {
	no := errors.New("not on the list")
	seen := 0
	hook := urlrule.Hook(func(u *url.URL) error {
		seen++
		if u.Host != "good.example" {
			return no
		}
		return nil
	})
	if r := hook.Refuse("k", "https://good.example/"); r != nil {
		t.Error(r)
	}
	if r := hook.Refuse("k", "https://other.example/"); r == nil || !errors.Is(r, no) ||
		!strings.Contains(r.Error(), `"k"`) {
		t.Errorf("%v", r)
	}
	if r := hook.Refuse("k", "javascript:alert(1)"); r == nil || seen != 2 {
		t.Errorf("%v after %d", r, seen)
	}
	wire := (&urlrule.Refusal{Key: strings.Repeat("k", 10_000), Err: errors.New("secret")}).Wire()
	if wire.Code != protocol.CodeInternalError || len(wire.Message) > 500 ||
		strings.Contains(wire.Message, "secret") {
		t.Errorf("the client gets %v", wire)
	}
}

func TestRequiredVisitsAreChecked(t *testing.T) {
	one := func(url, id string) string {
		return `{"mode":"url","message":"m","url":"` + url + `","elicitationId":"` + id + `"}`
	}
	for _, tt := range []struct{ name, data, key string }{
		{"no data", "", ""},
		{"null", `null`, ""},
		{"text", `"text"`, ""},
		{"no list", `{}`, ""},
		{"empty list", `{"elicitations":[]}`, ""},
		{"null list", `{"elicitations":null}`, ""},
		{"good address", `{"elicitations":[` + one("https://a.example/", "a") + `],"more":1}`, ""},
		{"bad address after a good one", `{"elicitations":[` + one("https://a.example/", "a") +
			`,` + one("javascript:x", "b") + `]}`, "b"},
		{"no id", `{"elicitations":[` + one("/", "") + `]}`, "url-elicitation-1"},
		{"no more than an address", `{"elicitations":[{"url":"javascript:x"}]}`, "url-elicitation-1"},
		{"object for a list", `{"elicitations":{"url":"javascript:x"}}`, "url-elicitation-1"},
		{"number in the list", `{"elicitations":[1]}`, "url-elicitation-1"},
		{"cut off", `{"elicitations":`, ""},
		{"name twice", `{"elicitations":[],"elicitations":[{"url":"javascript:x"}]}`, ""}, // not JSON, so not sent
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := urlrule.Hook(nil).RefuseRequired(&protocol.Error{
				Code: protocol.CodeURLElicitationRequired, Message: "m", Data: []byte(tt.data)})
			if (r == nil) != (tt.key == "") || r != nil && r.Key != tt.key {
				t.Errorf("%s: %v, want key %q", tt.data, r, tt.key)
			}
		})
	}
	if r := urlrule.Hook(nil).RefuseRequired(&protocol.Error{Code: -32000, Data: []byte(`{"elicitations":[{"url":"javascript:x"}]}`)}); r != nil {
		t.Errorf("another error: %v", r)
	}
}

func FuzzCheck(f *testing.F) {
	for _, tt := range refused {
		f.Add(tt.url)
	}
	for _, text := range allowed {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := urlrule.Check(text)
		if err != nil {
			if len(err.Error()) > 200 {
				t.Errorf("%q: a long error: %v", text, err)
			}
			return
		}
		lower := strings.ToLower(text)
		switch {
		case len(text) > urlrule.MaxBytes:
			t.Errorf("%d bytes", len(text))
		case !strings.HasPrefix(lower, "https://") && !strings.HasPrefix(lower, "http://"):
			t.Errorf("%q: another scheme", text)
		case u.User != nil || u.Hostname() == "":
			t.Errorf("%q: user %v, host %q", text, u.User, u.Host)
		case strings.ContainsFunc(text,
			func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) || r == '\\' }):
			t.Errorf("%q: a control character", text)
		}
		authority, _, _ := strings.Cut(text[strings.Index(text, "://")+3:], "/")
		authority, _, _ = strings.Cut(authority, "?")
		authority, _, _ = strings.Cut(authority, "#")
		if strings.Contains(authority, "@") {
			t.Errorf("%q: a user in the authority", text)
		}
	})
}
