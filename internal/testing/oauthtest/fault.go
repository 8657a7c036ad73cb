package oauthtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// A Fault is one misbehaviour of a [Server] or a [Resource]: one of the names in the tables of
// their faults.
type Fault string

// A faults table has the change of each fault at an endpoint: a func(*Document) edits the response,
// a reply replaces it.
type faults map[Fault]any

const (
	// ForeignText is the description of an error with a foreign iss: nobody may show it.
	ForeignText = "Call the number on this page to repair your account"
	// RetryAfter is the header of "refresh: 429 with Retry-After", in seconds.
	RetryAfter = 17

	// maxDocument is more than anybody should read of a document.
	maxDocument = 2 << 20
	// foreign is the issuer of somebody else.
	foreign = "https://attacker.example"
)

// enableFault turns on a fault at all endpoints that have it. It panics when there is none.
func (l *recorder) enableFault(f Fault, all map[Endpoint]faults) {
	found := false
	for endpoint, some := range all {
		switch change := some[f].(type) {
		case func(*Document):
			l.Edit(endpoint, change)
		case reply:
			l.mu.Lock()
			l.replies[endpoint] = change
			l.mu.Unlock()
		default:
			continue
		}
		found = true
	}
	if !found {
		panic(fmt.Sprintf("oauthtest: there is no fault %q", f))
	}
}

// namesOf returns all faults, sorted.
func namesOf(all map[Endpoint]faults) []Fault {
	names := make(map[Fault]bool)
	for _, some := range all {
		for f := range some {
			names[f] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Misbehave turns on a fault, until Behave.
func (s *Server) Misbehave(f Fault) { s.enableFault(f, s.allFaults()) }

// Faults returns all faults of a server, sorted.
func (s *Server) Faults() []Fault { return namesOf(s.allFaults()) }

func (s *Server) allFaults() map[Endpoint]faults {
	refresh := s.tokenFaults()
	maps.Copy(refresh, s.refreshFaults())
	return map[Endpoint]faults{Metadata: s.metadataFaults(), Authorize: s.redirectFaults(),
		Token: s.tokenFaults(), Refresh: refresh, Register: s.registrationFaults()}
}

// unavailable, hanging and page are replies that are no answers.
func unavailable() reply {
	return reply{status: http.StatusServiceUnavailable, contentType: "text/plain"}
}

func hanging() reply { return reply{hangs: true} }

func page() reply {
	return reply{status: http.StatusOK, contentType: "text/html",
		body: "<!DOCTYPE html><title>Sign in</title><p>Welcome."}
}

func redirect(status int, origin string) reply {
	return reply{status: status, header: http.Header{"Location": {origin + elsewhere}}}
}

// hostile is an error answer whose description has markup and a control character in it.
func hostile(status int, code string) reply {
	d := Document{{"error", code}, {"error_description", "\x1b[31m<b>" + code + "</b>"}}
	return reply{status: status, body: string(d.encodeJSON())}
}

// pad makes a document too large, and leaves it valid.
func pad(d *Document) { d.Add("padding", strings.Repeat("x", maxDocument)) }

// nest adds a member with many arrays in one another.
func nest(d *Document) {
	const depth = 100_000
	d.Add("nested", json.RawMessage(strings.Repeat("[", depth)+strings.Repeat("]", depth)))
}

func (s *Server) metadataFaults() faults {
	const (
		issuer, authorize = "issuer", "authorization_endpoint"
		token, methods    = "token_endpoint", "code_challenge_methods_supported"
		promise           = "authorization_response_iss_parameter_supported"
	)
	return faults{
		"issuer with a slash more":                    Set(issuer, s.URL+"/"),
		"issuer in other letters":                     Set(issuer, strings.ToUpper(s.URL)),
		"issuer of another port":                      Set(issuer, otherPort(s.URL)),
		"issuer of somebody else":                     Set(issuer, foreign),
		"no code challenge methods":                   remove(methods),
		"plain code challenges only":                  Set(methods, []string{"plain"}),
		"authorization endpoint is javascript":        Set(authorize, "javascript:alert(1)"),
		"authorization endpoint is a file":            Set(authorize, "file:///etc/passwd"),
		"token endpoint without TLS":                  Set(token, "http://attacker.example/token"),
		"token endpoint at a link-local address":      Set(token, "http://169.254.169.254/token"),
		"token endpoint with a password in its URL":   Set(token, withUser(s.URL)+"/token"),
		"authorization endpoint with a fragment":      Set(authorize, s.URL+"/authorize#fragment"),
		"authorization endpoint with a query (legal)": Set(authorize, s.URL+"/authorize?tenant=1"),
		"no authorization endpoint":                   remove(authorize),
		"no token endpoint":                           remove(token),
		"iss is sent and not advertised (legal)":      remove(promise),
		"foreign iss and not advertised":              remove(promise),
		"metadata redirects":                          redirect(http.StatusFound, s.origin),
		"metadata too large":                          pad,
		"metadata with a member twice":                add(token, "https://attacker.example/token"),
		"metadata of wrong types":                     Set(authorize, []string{s.URL}),
		"metadata nested too deep":                    nest,
		"metadata is a page":                          page(),
		"metadata fails with 503":                     unavailable(),
		"metadata does not answer":                    hanging(),
	}
}

func (s *Server) redirectFaults() faults {
	return faults{
		"advertised iss missing":         remove("iss"),
		"iss of somebody else":           Set("iss", foreign),
		"iss with a slash more":          Set("iss", s.URL+"/"),
		"iss twice":                      add("iss", s.URL),
		"foreign iss and not advertised": Set("iss", foreign),
		"state missing":                  remove("state"),
		"state wrong":                    Set("state", "another"),
		"state twice":                    func(d *Document) { d.Add("state", d.Get("state")) },
		"code missing":                   remove("code"),
		"code twice":                     add("code", "another"),
		"code and error":                 add("error", "access_denied"),
		"error with foreign iss": func(d *Document) {
			*d = Document{{"error", "access_denied"}, {"error_description", ForeignText},
				{"state", d.Get("state")}, {"iss", foreign}}
		},
	}
}

// tokenFaults are those of all grants.
func (s *Server) tokenFaults() faults {
	return faults{
		"token of another type":            Set("token_type", "mac"),
		"token without a type":             remove("token_type"),
		"token without expires_in (legal)": remove("expires_in"),
		"expires_in is a text":             Set("expires_in", "soon"),
		"expires_in is negative":           Set("expires_in", -1),
		"token without scope (legal)":      remove("scope"),
		"no access token":                  remove("access_token"),
		"access token with a line break":   Set("access_token", "abc\r\nX-Injected: yes"),
		"token answer too large":           pad,
		"token answer with a member twice": add("access_token", "another"),
		"token answer is a page":           page(),
		"token endpoint fails with 503":    unavailable(),
		"token endpoint does not answer":   hanging(),
		"token endpoint redirects":         redirect(http.StatusTemporaryRedirect, s.origin),
		"invalid_client":                   hostile(http.StatusUnauthorized, "invalid_client"),
	}
}

func (s *Server) refreshFaults() faults {
	return faults{
		"refresh: invalid_grant":                   hostile(http.StatusBadRequest, "invalid_grant"),
		"refresh: an error of no standard":         hostile(http.StatusBadRequest, "made_up"),
		"refresh: answer lost once after rotation": reply{lost: true},
		"refresh: 503":                             unavailable(),
		"refresh: 429 with Retry-After": reply{status: http.StatusTooManyRequests,
			header: http.Header{"Retry-After": {fmt.Sprint(RetryAfter)}}},
		"refresh: a page with 200": page(),
		"refresh: no answer":       hanging(),
		"refresh: fewer scopes": func(d *Document) {
			scope, _, _ := strings.Cut(fmt.Sprint(d.Get("scope")), " ")
			d.Set("scope", scope)
		},
	}
}

func (s *Server) registrationFaults() faults {
	return faults{
		"registration: invalid_client_metadata": hostile(http.StatusBadRequest,
			"invalid_client_metadata"),
		"registration: 503":          unavailable(),
		"registration: a page":       page(),
		"registration: no client_id": remove("client_id"),
		"registration: secret has expired": Set("client_secret_expires_at",
			time.Now().Add(-time.Hour).Unix()),
		"registration: unknown authentication method": Set("token_endpoint_auth_method", "made_up"),
	}
}

// otherPort returns a URL with another port.
func otherPort(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		panic(err) // internal error: the server made it
	}
	u.Host = u.Hostname() + ":1"
	return u.String()
}

// withUser returns a URL with user information.
func withUser(text string) string { return strings.Replace(text, "://", "://user:password@", 1) }
