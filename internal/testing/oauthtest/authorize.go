package oauthtest

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A code is an authorization code with its login.
type code struct {
	redirect  string
	challenge string
	grant     Grant
	used      bool
	noRefresh bool
	family    int // once it was used
}

// A Grant is the consent of a person.
type Grant struct {
	Client   string
	Subject  string
	Resource string
	Scopes   []string
}

// serveAuthorize plays the pages of the authorization server: the person is logged in and consents
// at once, or denies it. Mistakes in the client or the redirect URI are shown to the person, others
// are sent back to the client (RFC 6749 section 4.1.2.1).
func (s *Server) serveAuthorize(w http.ResponseWriter, r Request) {
	query := r.URL.Query()
	s.mu.Lock()
	client := s.clients[query.Get("client_id")]
	s.mu.Unlock()
	redirect, err := url.Parse(query.Get("redirect_uri"))
	if hasRepeated(query) || client == nil || err != nil ||
		!s.mayRedirect(client, query.Get("redirect_uri")) {
		http.Error(w, "client or redirect URI", http.StatusBadRequest)
		return
	}
	d := s.answerConsent(client, query)
	if query.Has("state") {
		d.Add("state", query.Get("state"))
	}
	d.Add("iss", s.URL)
	s.applyEdits(Authorize, &d)
	parameters := d.encodeQuery()
	if redirect.RawQuery != "" {
		parameters = redirect.RawQuery + "&" + parameters
	}
	redirect.RawQuery = parameters
	w.Header().Set("Location", redirect.String())
	w.WriteHeader(http.StatusFound)
}

func hasRepeated(values url.Values) bool {
	for _, v := range values {
		if len(v) > 1 {
			return true
		}
	}
	return false
}

// answerConsent returns the parameters of the redirect except state and iss.
func (s *Server) answerConsent(client *Client, query url.Values) Document {
	challenge := query.Get("code_challenge")
	deviations := s.deviationsNow()
	resource, _ := deviations.resourceOf(query)
	refusal := deviations.refuseAuthorization(query)
	switch {
	case query.Get("response_type") != "code":
		return failed("unsupported_response_type")
	case query.Get("code_challenge_method") != "S256" || len(challenge) != 43:
		return failed("invalid_request")
	case !client.mayUse("authorization_code"):
		return failed("unauthorized_client")
	case refusal != "":
		return failed(refusal)
	case query.Has("scope") && query.Get("scope") == "":
		return failed("invalid_scope")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.denied {
		return failed("access_denied")
	}
	made := "code-" + rand.Text()
	s.secrets = append(s.secrets, made)
	s.codes[made] = &code{redirect: query.Get("redirect_uri"), challenge: challenge,
		grant: Grant{Client: client.ID, Subject: s.subject, Resource: resource,
			Scopes: s.grantableLocked(deviations.scopesOf(query))},
		noRefresh: deviations.AccessType && query.Get("access_type") != "offline"}
	return Document{{"code", made}}
}

// isResource reports whether a resource indicator can be one. It must be there: the specification
// wants one in every request.
func isResource(resource string) bool {
	u, err := url.Parse(resource)
	return err == nil && u.IsAbs() && u.Host != "" && !strings.Contains(resource, "#")
}

// grantableLocked returns those of the requested scopes that are granted.
func (s *Server) grantableLocked(requested []string) []string {
	granted := []string{}
	for _, scope := range requested {
		if (s.narrow == nil || slices.Contains(s.narrow, scope)) &&
			!slices.Contains(granted, scope) {
			granted = append(granted, scope)
		}
	}
	return granted
}
