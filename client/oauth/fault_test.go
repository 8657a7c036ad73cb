package oauth_test

import (
	"testing"

	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

const (
	// foreignText is the description of an error with a foreign iss: nobody may show it.
	foreignText = "Call the number on this page to repair your account"
	// foreignIssuer is the issuer of somebody else.
	foreignIssuer = "https://attacker.example"
)

// A fault makes a site misbehave.
type fault func(s *site)

// A docEdit changes a response.
type docEdit = func(*oauthtest.Document)

// edited returns the fault of an endpoint whose response is changed.
func edited(e oauthtest.Endpoint, edit docEdit) fault {
	return func(s *site) {
		if e == oauthtest.ResourceMetadata {
			s.resource.Edit(e, edit)
		} else {
			s.as.Edit(e, edit)
		}
	}
}

// replied returns the fault of an endpoint whose response is replaced.
func replied(e oauthtest.Endpoint, r oauthtest.Reply) fault {
	return func(s *site) {
		if e == oauthtest.ResourceMetadata {
			s.resource.Reply(e, r)
		} else {
			s.as.Reply(e, r)
		}
	}
}

// challenged returns the fault of an endpoint whose challenge is made from the right one.
func challenged(challenge func(right string) []string) fault {
	return func(s *site) {
		s.resource.Challenge(func(_ int, right string) []string { return challenge(right) })
	}
}

// challengedWith replaces a part of the right challenge.
func challengedWith(old, new string) fault {
	return challenged(func(right string) []string {
		return []string{strings.Replace(right, old, new, 1)}
	})
}

// metadataAt names the URL of the metadata in the challenge.
func metadataAt(address string) fault {
	return challenged(func(string) []string {
		return []string{fmt.Sprintf("Bearer resource_metadata=%q", address)}
	})
}

// documentFaults are those of all endpoints that have a JSON response. name is one of its members.
func documentFaults(e oauthtest.Endpoint, name string) map[string]fault {
	return map[string]fault{
		"redirects": replied(e, oauthtest.Reply{Status: http.StatusTemporaryRedirect,
			Header: http.Header{"Location": {oauthtest.Elsewhere}}}),
		"too large":        edited(e, pad),
		"a member twice":   edited(e, oauthtest.Add(name, foreignIssuer)),
		"nested too deep":  edited(e, nest),
		"a page":           replied(e, page),
		"status 503":       replied(e, unavailable),
		"does not answer":  replied(e, oauthtest.Reply{Hangs: true}),
		"is not an object": replied(e, oauthtest.Reply{Status: http.StatusOK, Body: "[]"}),
	}
}

var (
	unavailable = oauthtest.Reply{Status: http.StatusServiceUnavailable, ContentType: "text/plain"}
	page        = oauthtest.Reply{Status: http.StatusOK, ContentType: "text/html",
		Body: "<!DOCTYPE html><title>Sign in</title><p>Welcome."}
)

// refusal is an error response whose description has markup and a control character.
func refusal(status int, code string) oauthtest.Reply {
	return oauthtest.Reply{Status: status, Body: fmt.Sprintf(
		`{"error":%q,"error_description":"\u001b[31m<b>%s</b>"}`, code, code)}
}

// change returns an edit that makes the value of a member from the right one.
func change(name string, f func(right string) string) docEdit {
	return func(d *oauthtest.Document) { d.Set(name, f(fmt.Sprint(d.Get(name)))) }
}

// suffix returns an edit that appends to the value of a member.
func suffix(name, text string) docEdit {
	return change(name, func(right string) string { return right + text })
}

// twice returns an edit that repeats a member.
func twice(name string) docEdit {
	return func(d *oauthtest.Document) { d.Add(name, d.Get(name)) }
}

// pad makes a document too large, and leaves it valid.
func pad(d *oauthtest.Document) { d.Add("padding", strings.Repeat("x", 2<<20)) }

// nest adds a member with many arrays in one another.
func nest(d *oauthtest.Document) {
	const depth = 100_000
	d.Add("nested", json.RawMessage(strings.Repeat("[", depth)+strings.Repeat("]", depth)))
}

// otherPort returns a URL with another port.
func otherPort(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		panic(err) // the server made it
	}
	u.Host = u.Hostname() + ":1"
	return u.String()
}

// check ends the test if there is an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
