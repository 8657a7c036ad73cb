package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
)

const (
	grantJWTBearer     = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	grantTokenExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	tokenTypeIDJAG     = "urn:ietf:params:oauth:token-type:id-jag"
)

// A Machine gets tokens without a browser: [ClientCredentials], [Workload] or [Enterprise]. Its
// credentials are only sent to issuers in Options.Registrations.
type Machine interface {
	// extension returns the capability that clients declare, or "".
	extension() string
	// check returns the first mistake in the fields, or nil.
	check() error
	// newForm returns the parameters of the grant, without the scopes.
	newForm(ctx context.Context, s *Source, d *discovery, scopes []string) (url.Values, error)
}

// ClientCredentials gets tokens for the client itself (RFC 6749, section 4.4).
type ClientCredentials struct{}

func (ClientCredentials) extension() string {
	return "io.modelcontextprotocol/oauth-client-credentials"
}

func (ClientCredentials) check() error { return nil }

func (ClientCredentials) newForm(_ context.Context, s *Source, d *discovery, _ []string) (
	url.Values, error) {
	if r := s.registrationFor(d.issuer); r.ClientSecret == "" && r.PrivateKey == nil {
		return nil, &Error{ErrRegistration, d.issuer, errors.New("client credentials need the " +
			"secret or the key of the Registration")}
	}
	return url.Values{"grant_type": {"client_credentials"}}, nil
}

// A Workload gets tokens by an assertion of the platform that runs this program (RFC 7523, section
// 2.1). The Registration needs no secret. A request sends a refused assertion only once.
type Workload struct {
	// Assertion returns the platform's JWT for an authorization server. Its audience is the issuer,
	// or the token endpoint if required (RFC 7523, section 3). It is called for each token. An
	// error ends the login.
	Assertion func(ctx context.Context, issuer string) (string, error)
}

func (Workload) extension() string { return "" }

func (w Workload) check() error {
	if w.Assertion == nil {
		return errors.New("oauth: Workload.Assertion is nil")
	}
	return nil
}

func (w Workload) newForm(ctx context.Context, _ *Source, d *discovery, _ []string) (
	url.Values, error) {
	assertion, err := w.Assertion(ctx, d.issuer)
	return url.Values{"grant_type": {grantJWTBearer}, "assertion": {assertion}}, err
}

// Enterprise gets tokens for a user who has logged in at their company's identity provider
// (enterprise-managed authorization): it exchanges the user's token for an identity assertion
// authorization grant (ID-JAG) for the authorization server.
type Enterprise struct {
	// TokenEndpoint is the identity provider's token endpoint, configured by the host.
	TokenEndpoint string
	// ClientID and ClientSecret are this client's credentials there. Public clients have no secret.
	ClientID     string
	ClientSecret Secret
	// Subject returns the user's token and its type (RFC 8693), for example
	// urn:ietf:params:oauth:token-type:id_token. The token goes to the identity provider alone.
	// Subject is called for each token. An error ends the login.
	Subject func(ctx context.Context) (token, tokenType string, err error)
}

func (Enterprise) extension() string {
	return "io.modelcontextprotocol/enterprise-managed-authorization"
}

func (e Enterprise) check() error {
	if e.TokenEndpoint == "" || e.ClientID == "" || e.Subject == nil {
		return errors.New("oauth: Enterprise needs TokenEndpoint, ClientID and Subject")
	}
	return nil
}

// newForm requests an ID-JAG from the identity provider (RFC 8693, section 2.1).
func (e Enterprise) newForm(ctx context.Context, s *Source, d *discovery, scopes []string) (
	url.Values, error) {
	subject, tokenType, err := e.Subject(ctx)
	if err != nil {
		return nil, err
	}
	form := url.Values{"grant_type": {grantTokenExchange}, "requested_token_type": {tokenTypeIDJAG},
		"audience": {d.issuer}, "resource": {d.resource}, "subject_token": {subject},
		"subject_token_type": {tokenType}}
	if len(scopes) > 0 {
		form.Set("scope", joinScopes(s.providerFor(d.issuer).serverScopes(scopes)))
	}
	client := &oauthClient{id: e.ClientID, secret: string(e.ClientSecret), method: methodNone}
	if client.secret != "" {
		client.method = methodBasic
	}
	idp := &serverMetadata{Issuer: e.TokenEndpoint, Token: e.TokenEndpoint}
	if _, err := s.guard.checkURL(e.TokenEndpoint); err != nil {
		return nil, &TokenError{Issuer: idp.Issuer, Err: err}
	}
	issued, err := s.sendTokenRequest(ctx, idp, client, form)
	if err != nil {
		return nil, err
	}
	if issued.IssuedType != tokenTypeIDJAG {
		return nil, s.tokenError(ctx, idp, client, issued, errNoTokenResponse)
	}
	return url.Values{"grant_type": {grantJWTBearer}, "assertion": {issued.Access}}, nil
}

// Extensions returns the [Machine]'s capabilities, for client.Options.Extensions.
func (s *Source) Extensions() map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	if s.opts.Machine != nil && s.opts.Machine.extension() != "" {
		all[s.opts.Machine.extension()] = json.RawMessage("{}")
	}
	return all
}

// logInMachine requests a token by Options.Machine, at a registered issuer. A refusal is cached.
func (s *Source) logInMachine(ctx context.Context, d *discovery, request loginRequest) error {
	client := s.configuredClient(d.server)
	if client == nil || client.registration == nil {
		return &Error{ErrRegistration, d.issuer, errors.New("the credentials of a machine are " +
			"sent to issuers alone that Options.Registrations names")}
	}
	if err := client.checkAuthMethod(d.server); err != nil {
		return err
	}
	scopes, err := s.chooseScopes(ctx, d, request)
	if err != nil {
		return err
	}
	form, err := s.opts.Machine.newForm(ctx, s, d, scopes)
	var record *tokenRecord
	if err == nil {
		if len(scopes) > 0 {
			form.Set("scope", joinScopes(scopes))
		}
		record, err = s.requestToken(ctx, d.server, client, d.resource, newGrant(scopes, form))
	}
	if err != nil {
		if isFinalRefusal(err) {
			s.rememberFailure(failureKey(d, request), err)
		}
		return err
	}
	record.Refresh = "" // the same grant gets the next token
	return s.saveLogin(ctx, d.issuer, d.resource, record)
}
