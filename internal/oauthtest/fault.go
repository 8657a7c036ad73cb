package oauthtest

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// A Fault is one misbehaviour of a [Server].
type Fault string

// Faults of the metadata document.
const (
	IssuerSlash        Fault = "issuer with a slash more"
	IssuerCase         Fault = "issuer in other letters"
	IssuerPort         Fault = "issuer of another port"
	IssuerForeign      Fault = "issuer of somebody else"
	NoPKCE             Fault = "no code challenge methods"
	PlainPKCE          Fault = "plain code challenges only"
	ScriptEndpoint     Fault = "authorization endpoint is javascript"
	FileEndpoint       Fault = "authorization endpoint is a file"
	PlainEndpoint      Fault = "token endpoint without TLS"
	LinkLocalEndpoint  Fault = "token endpoint at a link-local address"
	UserinfoEndpoint   Fault = "token endpoint with a password in its URL"
	FragmentEndpoint   Fault = "authorization endpoint with a fragment"
	QueryEndpoint      Fault = "authorization endpoint with a query" // legal
	NoAuthorize        Fault = "no authorization endpoint"
	NoToken            Fault = "no token endpoint"
	UnadvertisedIss    Fault = "iss is sent and not advertised" // legal
	MetadataRedirected Fault = "metadata redirects"
	MetadataOversize   Fault = "metadata too large"
	MetadataDuplicate  Fault = "metadata with a member twice"
	MetadataTypes      Fault = "metadata of wrong types"
	MetadataDeep       Fault = "metadata nested too deep"
	MetadataHTML       Fault = "metadata is a page"
	MetadataFails      Fault = "metadata fails with 503"
	MetadataHangs      Fault = "metadata does not answer"
)

// Faults of the redirect to the client.
const (
	IssMissing    Fault = "advertised iss missing"
	IssForeign    Fault = "iss of somebody else"
	IssSlash      Fault = "iss with a slash more"
	IssTwice      Fault = "iss twice"
	IssUnexpected Fault = "foreign iss and not advertised"
	StateMissing  Fault = "state missing"
	StateWrong    Fault = "state wrong"
	StateTwice    Fault = "state twice"
	CodeMissing   Fault = "code missing"
	CodeTwice     Fault = "code twice"
	CodeAndError  Fault = "code and error"
	ErrorForeign  Fault = "error with foreign iss"
)

// ForeignText is the description of the error that ErrorForeign sends: nobody may show it.
const ForeignText = "Call the number on this page to repair your account"

// Faults of the token endpoint, for all grants.
const (
	TokenTypeOther Fault = "token of another type"
	NoTokenType    Fault = "token without a type"
	NoExpiry       Fault = "token without expires_in" // legal
	ExpiryText     Fault = "expires_in is a text"
	ExpiryNegative Fault = "expires_in is negative"
	NoScope        Fault = "token without scope" // legal
	NoAccessToken  Fault = "no access token"
	TokenControl   Fault = "access token with a line break"
	TokenOversize  Fault = "token answer too large"
	TokenDuplicate Fault = "token answer with a member twice"
	TokenHTML      Fault = "token answer is a page"
	TokenFails     Fault = "token endpoint fails with 503"
	TokenHangs     Fault = "token endpoint does not answer"
	TokenRedirects Fault = "token endpoint redirects"
	InvalidClient  Fault = "invalid_client"
)

// Faults of refreshing alone.
const (
	RefreshInvalidGrant Fault = "refresh: invalid_grant"
	RefreshOtherError   Fault = "refresh: an error of no standard"
	RefreshLost         Fault = "refresh: answer lost once after rotation"
	RefreshFails        Fault = "refresh: 503"
	RefreshLimited      Fault = "refresh: 429 with Retry-After"
	RefreshHTML         Fault = "refresh: a page with 200"
	RefreshHangs        Fault = "refresh: no answer"
	RefreshNarrows      Fault = "refresh: fewer scopes"
)

// RetryAfter is the number of seconds that RefreshLimited tells.
const RetryAfter = 17

// Faults of registration.
const (
	RegistrationRefused Fault = "registration: invalid_client_metadata"
	RegistrationFails   Fault = "registration: 503"
	RegistrationHTML    Fault = "registration: a page"
	RegistrationNoID    Fault = "registration: no client_id"
	RegistrationExpired Fault = "registration: secret has expired"
	RegistrationMethod  Fault = "registration: unknown authentication method"
)

// Faults of the key set and of introspection.
const (
	KeysOversize    Fault = "keys: too large"
	KeysMany        Fault = "keys: too many"
	KeysSymmetric   Fault = "keys: symmetric one with the id of the right one"
	KeysEncryption  Fault = "keys: for encryption"
	KeysMixed       Fault = "keys: of unknown types among good ones" // legal
	KeysHTML        Fault = "keys: a page"
	KeysFail        Fault = "keys: 503"
	KeysHang        Fault = "keys: no answer"
	KeysRedirect    Fault = "keys: redirect"
	ActiveText      Fault = "introspection: active is a text"
	ActiveTwice     Fault = "introspection: active twice"
	ForeignAudience Fault = "introspection: audience of somebody else"
	ForeignIssuer   Fault = "introspection: issuer of somebody else"
	ActiveExpired   Fault = "introspection: active and expired"
	NotYet          Fault = "introspection: not before tomorrow"
	IntrospectHTML  Fault = "introspection: a page"
	IntrospectFails Fault = "introspection: 503"
	IntrospectHangs Fault = "introspection: no answer"
)

// maxDocument is more than anybody should read of a document.
const maxDocument = 2 << 20

// foreign is the issuer of somebody else.
const foreign = "https://attacker.example"

// Misbehave turns on a fault, until Behave.
func (s *Server) Misbehave(f Fault) {
	start := s.faults()[f]
	if start == nil {
		panic(fmt.Sprintf("oauthtest: a server has no fault %q", f))
	}
	start()
}

// Faults returns all faults of a server, sorted.
func (s *Server) Faults() []Fault { return slices.Sorted(maps.Keys(s.faults())) }

func (s *Server) faults() map[Fault]func() {
	all := s.metadataFaults()
	for _, some := range []map[Fault]func(){s.redirectFaults(), s.tokenFaults(),
		s.refreshFaults(), s.registrationFaults(), s.keyFaults(), s.introspectFaults()} {
		maps.Copy(all, some)
	}
	return all
}

// edits returns what turns edits of an endpoint on.
func (s *Server) edits(e Endpoint, edits ...func(*Document)) func() {
	return func() {
		for _, edit := range edits {
			s.Edit(e, edit)
		}
	}
}

// answers returns what has endpoints answer with a reply.
func (s *Server) answers(reply Reply, endpoints ...Endpoint) func() {
	return func() {
		for _, e := range endpoints {
			s.Answer(e, reply)
		}
	}
}

func (s *Server) metadataFaults() map[Fault]func() {
	const issuer, authorize, token = "issuer", "authorization_endpoint", "token_endpoint"
	const methods = "code_challenge_methods_supported"
	set := func(name string, value any) func() { return s.edits(Metadata, Set(name, value)) }
	return map[Fault]func(){
		IssuerSlash:        set(issuer, s.URL+"/"),
		IssuerCase:         set(issuer, strings.ToUpper(s.URL)),
		IssuerPort:         set(issuer, otherPort(s.URL)),
		IssuerForeign:      set(issuer, foreign),
		NoPKCE:             s.edits(Metadata, Delete(methods)),
		PlainPKCE:          set(methods, []string{"plain"}),
		ScriptEndpoint:     set(authorize, "javascript:alert(document.domain)"),
		FileEndpoint:       set(authorize, "file:///etc/passwd"),
		PlainEndpoint:      set(token, "http://attacker.example/token"),
		LinkLocalEndpoint:  set(token, "http://169.254.169.254/token"),
		UserinfoEndpoint:   set(token, withUser(s.URL)+"/token"),
		FragmentEndpoint:   set(authorize, s.URL+"/authorize#fragment"),
		QueryEndpoint:      set(authorize, s.URL+"/authorize?tenant=1&scope=all"),
		NoAuthorize:        s.edits(Metadata, Delete(authorize)),
		NoToken:            s.edits(Metadata, Delete(token)),
		UnadvertisedIss:    s.edits(Metadata, Delete("authorization_response_iss_parameter_supported")),
		MetadataRedirected: s.answers(RedirectTo(s.Origin+elsewhere), Metadata),
		MetadataOversize:   s.edits(Metadata, Pad(maxDocument)),
		MetadataDuplicate:  s.edits(Metadata, Add(token, "https://attacker.example/token")),
		MetadataTypes:      set(authorize, []string{s.URL + "/authorize"}),
		MetadataDeep:       s.edits(Metadata, Nest(100_000)),
		MetadataHTML:       s.answers(HTML(), Metadata),
		MetadataFails:      s.answers(Status(http.StatusServiceUnavailable), Metadata),
		MetadataHangs:      s.answers(Hang(), Metadata),
	}
}

func (s *Server) redirectFaults() map[Fault]func() {
	edit := func(edits ...func(*Document)) func() { return s.edits(Authorize, edits...) }
	return map[Fault]func(){
		IssMissing: edit(Delete("iss")),
		IssForeign: edit(Set("iss", foreign)),
		IssSlash:   edit(Set("iss", s.URL+"/")),
		IssTwice:   edit(Add("iss", s.URL)),
		IssUnexpected: func() {
			s.Misbehave(UnadvertisedIss)
			s.Misbehave(IssForeign)
		},
		StateMissing: edit(Delete("state")),
		StateWrong:   edit(Set("state", "another")),
		StateTwice:   edit(func(d *Document) { d.Add("state", d.Get("state")) }),
		CodeMissing:  edit(Delete("code")),
		CodeTwice:    edit(Add("code", "another")),
		CodeAndError: edit(Add("error", "access_denied")),
		ErrorForeign: edit(Delete("code"), Set("error", "access_denied"),
			Set("error_description", ForeignText), Set("iss", foreign)),
	}
}

func (s *Server) tokenFaults() map[Fault]func() {
	edit := func(f func(*Document)) func() {
		return func() {
			for _, e := range []Endpoint{Token, Refresh} {
				s.Edit(e, f)
			}
		}
	}
	set := func(name string, value any) func() { return edit(Set(name, value)) }
	answer := func(reply Reply) func() { return s.answers(reply, Token, Refresh) }
	return map[Fault]func(){
		TokenTypeOther: set("token_type", "mac"),
		NoTokenType:    edit(Delete("token_type")),
		NoExpiry:       edit(Delete("expires_in")),
		ExpiryText:     set("expires_in", "soon"),
		ExpiryNegative: set("expires_in", -1),
		NoScope:        edit(Delete("scope")),
		NoAccessToken:  edit(Delete("access_token")),
		TokenControl:   set("access_token", "abc\r\nX-Injected: yes"),
		TokenOversize:  edit(Pad(maxDocument)),
		TokenDuplicate: edit(Add("access_token", "another")),
		TokenHTML:      answer(HTML()),
		TokenFails:     answer(Status(http.StatusServiceUnavailable)),
		TokenHangs:     answer(Hang()),
		TokenRedirects: answer(Reply{Status: http.StatusTemporaryRedirect,
			Header: http.Header{"Location": {s.Origin + elsewhere}}}),
		InvalidClient: answer(Error(http.StatusUnauthorized, "invalid_client")),
	}
}

func (s *Server) refreshFaults() map[Fault]func() {
	answer := func(reply Reply) func() { return s.answers(reply, Refresh) }
	return map[Fault]func(){
		RefreshInvalidGrant: answer(Error(http.StatusBadRequest, "invalid_grant")),
		RefreshOtherError:   answer(Error(http.StatusBadRequest, "made_up")),
		RefreshLost:         answer(Lost()),
		RefreshFails:        answer(Status(http.StatusServiceUnavailable)),
		RefreshLimited: answer(Reply{Status: http.StatusTooManyRequests,
			Header: http.Header{"Retry-After": {fmt.Sprint(RetryAfter)}}}),
		RefreshHTML:  answer(HTML()),
		RefreshHangs: answer(Hang()),
		RefreshNarrows: s.edits(Refresh, func(d *Document) {
			scope, _, _ := strings.Cut(fmt.Sprint(d.Get("scope")), " ")
			d.Set("scope", scope)
		}),
	}
}

func (s *Server) registrationFaults() map[Fault]func() {
	answer := func(reply Reply) func() { return s.answers(reply, Register) }
	return map[Fault]func(){
		RegistrationRefused: answer(Error(http.StatusBadRequest, "invalid_client_metadata")),
		RegistrationFails:   answer(Status(http.StatusServiceUnavailable)),
		RegistrationHTML:    answer(HTML()),
		RegistrationNoID:    s.edits(Register, Delete("client_id")),
		RegistrationExpired: s.edits(Register, func(d *Document) {
			d.Set("client_secret_expires_at", s.opts.Now().Add(-time.Hour).Unix())
		}),
		RegistrationMethod: s.edits(Register, Set("token_endpoint_auth_method", "made_up")),
	}
}

func (s *Server) keyFaults() map[Fault]func() {
	answer := func(reply Reply) func() { return s.answers(reply, JWKS) }
	raw := func(key jose.JSONWebKey) json.RawMessage {
		text, err := key.MarshalJSON()
		if err != nil {
			panic(err) // internal error: the key is of a known type
		}
		return text
	}
	return map[Fault]func(){
		KeysOversize: s.edits(JWKS, Pad(maxDocument)),
		KeysMany: s.edits(JWKS, func(d *Document) {
			var many []json.RawMessage
			for i := range 1000 {
				key := newSigningKey("EdDSA", fmt.Sprint("other-", i))
				many = append(many, raw(jose.JSONWebKey{Key: key.private.Public(), KeyID: key.id}))
			}
			keys, _ := d.Get("keys").([]json.RawMessage)
			d.Set("keys", append(many, keys...))
		}),
		KeysSymmetric: s.edits(JWKS, func(d *Document) {
			secret := make([]byte, 32)
			_, _ = rand.Read(secret) // does not fail
			d.Set("keys", []json.RawMessage{raw(jose.JSONWebKey{Key: secret, KeyID: s.KeyID()})})
		}),
		KeysEncryption: s.edits(JWKS, func(d *Document) {
			var keys []json.RawMessage
			for _, key := range s.PublicKeys().Keys {
				key.Use = "enc"
				keys = append(keys, raw(key))
			}
			d.Set("keys", keys)
		}),
		KeysMixed: s.edits(JWKS, func(d *Document) {
			keys, _ := d.Get("keys").([]json.RawMessage)
			d.Set("keys", append([]json.RawMessage{[]byte(`{"kty":"future","kid":"f"}`)}, keys...))
		}),
		KeysHTML:     answer(HTML()),
		KeysFail:     answer(Status(http.StatusServiceUnavailable)),
		KeysHang:     answer(Hang()),
		KeysRedirect: answer(RedirectTo(s.Origin + elsewhere)),
	}
}

func (s *Server) introspectFaults() map[Fault]func() {
	set := func(name string, value any) func() { return s.edits(Introspect, Set(name, value)) }
	answer := func(reply Reply) func() { return s.answers(reply, Introspect) }
	return map[Fault]func(){
		ActiveText:      set("active", "true"),
		ActiveTwice:     s.edits(Introspect, Add("active", true)),
		ForeignAudience: set("aud", "https://other.example/mcp"),
		ForeignIssuer:   set("iss", foreign),
		ActiveExpired:   set("exp", s.opts.Now().Add(-time.Hour).Unix()),
		NotYet:          set("nbf", s.opts.Now().Add(24*time.Hour).Unix()),
		IntrospectHTML:  answer(HTML()),
		IntrospectFails: answer(Status(http.StatusServiceUnavailable)),
		IntrospectHangs: answer(Hang()),
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
func withUser(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		panic(err) // internal error: the server made it
	}
	u.User = url.UserPassword("user", "password")
	return u.String()
}
