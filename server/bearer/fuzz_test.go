package bearer_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/server/bearer"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// challengeForm has one scheme. Its parameters lack quotes, backslashes and control characters.
var challengeForm = regexp.MustCompile(`^Bearer [a-z_]+="[ -!#-\[\]-~]*"(, [a-z_]+="[ -!#-\[\]-~]*")*$`)

func checkRefusal(t *testing.T, err error) {
	t.Helper()
	refused := (*serverhttp.AuthError)(nil)
	if !errors.As(err, &refused) {
		t.Fatalf("%T is no refusal", err)
	}
	switch refused.Status {
	case http.StatusUnauthorized, http.StatusBadRequest:
		if !challengeForm.MatchString(refused.Challenge) {
			t.Errorf("challenge %q", refused.Challenge)
		}
	case http.StatusServiceUnavailable:
		wantEqual(t, "503 with the challenge", refused.Challenge, "")
	default:
		t.Errorf("status %d", refused.Status)
	}
}

// FuzzHeader checks that only tokens that the issuer has signed pass.
func FuzzHeader(f *testing.F) {
	issuer := newFakeIssuer(f)
	good := "Bearer " + issuer.token(nil)
	parts := strings.Split(good, ".")
	for _, seed := range []string{
		good, "bearer" + good[len("Bearer"):], good + "=", "Bearer", "Bearer ", "Basic YTpi",
		"Bearer " + good, good + ", " + good, "Bearer a\x00b", "Bearer ....", "Bearer e30.e30.",
		parts[0] + "." + parts[1] + ".", parts[0] + "..", "DPoP abc", "Bearer " + parts[1],
	} {
		f.Add(seed)
	}
	g := newResourceServer(f, issuer, nil)
	f.Fuzz(func(t *testing.T, value string) {
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		r.Header["Authorization"] = []string{value}
		id, err := g.Identify(r)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		if scheme, token, _ := strings.Cut(value, " "); !strings.EqualFold(scheme, "Bearer") ||
			strings.Trim(token, " ") != good[len("Bearer "):] {
			t.Errorf("%q is accepted as %v", value, id.Principal)
		}
	})
}

// FuzzJWTHeader checks that a signature does not count for another header or other claims.
func FuzzJWTHeader(f *testing.F) {
	issuer := newFakeIssuer(f)
	good := strings.Split(issuer.token(nil), ".")
	decode := base64.RawURLEncoding.DecodeString
	signed, err := decode(good[0])
	check(f, err)
	claims, err := decode(good[1])
	check(f, err)
	for _, header := range []string{
		string(signed),
		`{"alg":"none"}`, `{"alg":"NONE","kid":"k1"}`, `{"alg":"HS256","kid":"k1"}`,
		`{"alg":"ES256","kid":"k1","crit":["b64"],"b64":false}`,
		`{"alg":"ES256","kid":"k1","jku":"https://evil.example.com/keys"}`,
		`{"alg":"ES256","kid":"k1","x5u":"https://evil.example.com/x","x5c":["AA=="]}`,
		`{"alg":"ES256","jwk":{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}}`,
		`{"alg":"ES256","alg":"none","kid":"k1"}`, `{"alg":["ES256"]}`, `{"alg":null}`,
		`{"alg":"ES256","kid":7}`, `{"alg":"ES256","typ":null}`, `{"typ":"at+jwt"}`, `[]`, ``,
	} {
		f.Add([]byte(header), claims, good[2])
	}
	for _, claims := range []string{`{}`, `[]`, ``, `{"iss":"` + issuerURL + `"}`,
		`{"iss":"` + issuerURL + `","exp":1e400}`, `{"iss":"` + issuerURL + `","aud":[7]}`} {
		f.Add(signed, []byte(claims), good[2])
	}
	f.Add(signed, claims, "")
	f.Add(signed, claims, strings.Repeat("A", 86))
	g := newResourceServer(f, issuer, nil)
	f.Fuzz(func(t *testing.T, header, payload []byte, signature string) {
		encode := base64.RawURLEncoding.EncodeToString
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		r.Header.Set("Authorization",
			"Bearer "+encode(header)+"."+encode(payload)+"."+signature)
		id, err := g.Identify(r)
		if err != nil {
			checkRefusal(t, err)
		} else if !bytes.Equal(header, signed) || !bytes.Equal(payload, claims) {
			t.Errorf("a token is accepted as %v that the issuer has not signed", id.Principal)
		}
		for _, path := range []string{"/x", "/evil"} {
			if issuer.count(path) > 0 {
				t.Errorf("%s was fetched, which only a token names", path)
			}
		}
	})
}

type saying []byte

func (s saying) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{},
		Body: io.NopCloser(bytes.NewReader(s))}, nil
}

// FuzzIntrospection checks that tokens that pass are active, for this resource, and have a subject.
func FuzzIntrospection(f *testing.F) {
	for _, seed := range []string{
		`{"active":true,"iss":"` + issuerURL + `","sub":"alice","aud":"` + resource + `",` +
			`"client_id":"app","scope":"files:read","token_type":"Bearer","exp":4102444800,` +
			`"iat":1700000000,"jti":"7"}`,
		`{"active":true,"sub":"alice","aud":["` + resource + `"]}`,
		`{"active":true,"client_id":"app","aud":["x","` + resource + `"],"scp":["a"]}`,
		`{"active":false}`, `{"active":"true"}`, `{"active":1}`, `{"active":null}`, `{}`, `[]`,
		`{"active":true,"active":false}`, `{"Active":true,"aud":"` + resource + `","sub":"a"}`,
		`{"active":true,"sub":"alice","aud":"` + resource + `","exp":"4102444800"}`,
		`{"active":true,"sub":"alice","aud":"` + resource + `","exp":-1e9}`,
		`<html>`, ``, `{"active":true`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		opts := bearer.Options{Resource: resource, Issuers: []bearer.Issuer{{URL: issuerURL}},
			HTTPClient: &http.Client{Transport: saying(body)}}
		introspecting(&opts)
		g, err := bearer.New(opts)
		check(t, err)
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		r.Header.Set("Authorization", "Bearer opaque")
		id, err := g.Identify(r)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		var said map[string]any
		if err := json.Unmarshal(body, &said); err != nil {
			t.Fatalf("%q is accepted: %v", body, err)
		}
		audience, ok := said["aud"].([]any)
		if !ok {
			audience = []any{said["aud"]}
		}
		if said["active"] != true || !slices.Contains(audience, any(resource)) ||
			id.Principal.Issuer != issuerURL || id.Principal.Subject == "" {
			t.Errorf("%q is accepted as %v", body, id.Principal)
		}
		for _, scope := range id.Access.Scopes {
			if strings.ContainsAny(scope, " \t\r\n") || scope == "" {
				t.Errorf("%q grants the scope %q", body, scope)
			}
		}
	})
}

// FuzzKeys checks that no key set lets tokens pass that the issuer has not signed.
func FuzzKeys(f *testing.F) {
	issuer := newFakeIssuer(f)
	token := issuer.token(map[string]any{"exp": int64(4102444800)})
	published, err := json.Marshal(map[string]any{"keys": issuer.keys})
	check(f, err)
	key, err := json.Marshal(issuer.signer.Public())
	check(f, err)
	for _, seed := range []string{
		string(published), `{"keys":[]}`, `{"keys":null}`, `{}`, `[]`, ``,
		`{"keys":[{"kty":"oct","kid":"k1","k":"AAAA"}]}`, `{"keys":[null,7,"x",[],{}]}`,
		`{"keys":[{"kty":"RSA","kid":"k1","n":"AQAB","e":"AQAB"}]}`,
		`{"keys":[{"kty":"EC","crv":"P-256","kid":"k1","x":"AA","y":"AA"}]}`,
		`{"keys":[` + string(key) + `,` + string(key) + `]}`,
		strings.Replace(string(published), `"use":"sig"`, `"use":"enc"`, 1),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		g, err := bearer.New(bearer.Options{Resource: resource,
			Issuers:    []bearer.Issuer{{URL: issuerURL, KeysURL: "https://login.example.com/k"}},
			HTTPClient: &http.Client{Transport: saying(body)}})
		check(t, err)
		if _, err := identify(g, token); err != nil {
			checkRefusal(t, err)
		} else if !json.Valid(body) {
			t.Errorf("%q has verified a token", body)
		}
	})
}
