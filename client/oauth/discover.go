package oauth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rondo-mcp/rondo/internal/wire/authhttp"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
)

const (
	metadataLifetime  = time.Hour                               // greatest age of cached metadata
	maxIssuers        = 10                                      // limit per MCP server
	wellKnownResource = "/.well-known/oauth-protected-resource" // RFC 9728, section 3
)

// A discovery has the checked metadata of an endpoint and of its authorization server.
type discovery struct {
	resource string   // for which tokens are requested (RFC 8707)
	issuer   string   // the chosen issuer, as its own metadata names it
	scopes   []string // scopes_supported of the endpoint
	server   *serverMetadata
}

// A resourceMetadata is the metadata of a protected resource (RFC 9728, section 2).
type resourceMetadata struct {
	Resource string   `json:"resource"`
	Issuers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

// A serverMetadata is the metadata of an authorization server (RFC 8414, section 2; RFC 9207,
// section 3; draft-ietf-oauth-client-id-metadata-document).
type serverMetadata struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Registration  string   `json:"registration_endpoint"`
	Revocation    string   `json:"revocation_endpoint"`
	Challenges    []string `json:"code_challenge_methods_supported"`
	AuthMethods   []string `json:"token_endpoint_auth_methods_supported"`
	Scopes        []string `json:"scopes_supported"`
	SendsIssuer   bool     `json:"authorization_response_iss_parameter_supported"`
	Documents     bool     `json:"client_id_metadata_document_supported"`

	read time.Time // time of the fetch
}

// discover finds the authorization server of the endpoint (basic/authorization, "Authorization
// Server Discovery"). If a document is refused, the search ends.
func (s *Source) discover(ctx context.Context, c challenge) (*discovery, error) {
	resource, err := s.discoverResource(ctx, c)
	if errors.Is(err, errNoMetadata) && s.opts.Legacy {
		return s.discoverLegacy(ctx)
	}
	if err != nil {
		return nil, err
	}
	issuer, err := s.chooseIssuer(ctx, resource)
	if err != nil {
		return nil, err
	}
	server, err := s.discoverServer(ctx, issuer)
	if err != nil {
		return nil, err
	}
	return &discovery{resource.Resource, server.Issuer, rules.UniteScopes(resource.Scopes),
		server}, nil
}

var errNoMetadata = errors.New("the server has no metadata that names its authorization server; " +
	"for servers of revision 2025-03-26 set Options.Legacy")

// discoverResource gets the endpoint's metadata: at the challenge's URL, else at a well-known path.
func (s *Source) discoverResource(ctx context.Context, c challenge) (*resourceMetadata, error) {
	root, urls := s.endpointOrigin()+wellKnownResource, s.resourceMetadataURLs()
	if c.metadata != "" {
		body, err := s.guard.fetchDocument(ctx, c.metadata)
		if err != nil {
			return nil, err
		}
		return s.readResource(c.metadata, body, c.metadata == root)
	}
	for _, at := range urls { // any other failure ends the search: no weaker source follows
		switch body, err := s.guard.fetchDocument(ctx, at); {
		case authhttp.IsMissing(err):
		case err != nil:
			return nil, err
		default:
			return s.readResource(at, body, at == root)
		}
	}
	return nil, metadataError(root, errNoMetadata)
}

func (s *Source) endpointOrigin() string { return s.endpoint.Scheme + "://" + s.endpoint.Host }

// resourceMetadataURLs lists URLs of the endpoint's metadata in order (RFC 9728, section 3.1).
func (s *Source) resourceMetadataURLs() []string {
	path := s.endpoint.EscapedPath()
	if path == "/" {
		path = "" // RFC 9728 removes the slash of an origin, but keeps the slash of a path
	}
	if s.endpoint.RawQuery != "" {
		path += "?" + s.endpoint.RawQuery
	}
	root := s.endpointOrigin() + wellKnownResource
	return slices.Compact([]string{root + path, root})
}

// readResource checks the endpoint's metadata (RFC 9728, section 3.3). Its resource must be the
// endpoint. At the origin's well-known path it may be the origin.
func (s *Source) readResource(at string, body []byte, isRoot bool) (*resourceMetadata, error) {
	var m resourceMetadata
	if err := jsonx.Unmarshal(body, &m); err != nil {
		return nil, metadataError(at, errors.New("it is not the metadata of RFC 9728"))
	}
	// An origin is the same resource with and without its slash (RFC 9728, section 3.1; RFC 3986,
	// section 6.2.3); URLs with a path differ.
	origin := s.endpointOrigin()
	atRoot := isRoot && (m.Resource == origin || m.Resource == origin+"/")
	if m.Resource != s.endpointText && !atRoot {
		return nil, metadataError(at, untrustedError(fmt.Sprintf("the metadata is about the "+
			"resource %s, and not about %s: tokens for it must not be sent here",
			quoteUntrusted(m.Resource), s.endpointText)))
	}
	if len(m.Issuers) == 0 {
		return nil, metadataError(at, errors.New("it names no authorization server"))
	}
	if len(m.Issuers) > maxIssuers {
		m.Issuers = m.Issuers[:maxIssuers]
	}
	return &m, nil
}

// chooseIssuer returns the login's authorization server, a registered one or the metadata's first.
func (s *Source) chooseIssuer(ctx context.Context, m *resourceMetadata) (string, error) {
	current, err := s.readStored(ctx, false)
	if err != nil {
		return "", err
	}
	if current != nil && current.resource == m.Resource {
		for _, issuer := range m.Issuers {
			if s.resolveAlias(issuer) == current.issuer {
				return issuer, nil
			}
		}
	}
	for _, issuer := range m.Issuers {
		if s.registrationFor(s.resolveAlias(issuer)) != nil {
			return issuer, nil
		}
	}
	return m.Issuers[0], nil
}

// resolveAlias returns the issuer that a name stands for; see Provider.NamedAs.
func (s *Source) resolveAlias(issuer string) string {
	for _, p := range s.opts.Providers {
		if p.NamedAs != "" && p.NamedAs == issuer {
			return p.Issuer
		}
	}
	return issuer
}

// discoverServer returns an authorization server's metadata, cached for an hour. issuer is spelled
// as the MCP server spells it.
func (s *Source) discoverServer(ctx context.Context, issuer string) (*serverMetadata, error) {
	s.mu.Lock()
	known := s.servers[issuer]
	s.mu.Unlock()
	if known != nil && time.Since(known.read) < metadataLifetime {
		return known, nil
	}
	if p := s.providerFor(s.resolveAlias(issuer)); p.Endpoints != nil {
		e := p.Endpoints
		return s.acceptServer(issuer, issuer, &serverMetadata{Issuer: p.Issuer,
			Authorization: e.Authorization, Token: e.Token, Registration: e.Registration,
			Revocation: e.Revocation, read: time.Now()})
	}
	u, err := s.guard.checkURL(issuer)
	if err == nil && u.RawQuery != "" {
		err = errors.New("URL has a query")
	}
	if err != nil {
		return nil, metadataError(issuer, err)
	}
	at, body, err := authhttp.FetchMetadata(ctx, u, s.guard.fetchDocument)
	if errors.Is(err, authhttp.ErrMissing) {
		return nil, metadataError(issuer, errNoServerMetadata)
	}
	if err != nil {
		return nil, err
	}
	return s.readServer(at, issuer, body)
}

// findServer calls discoverServer for an issuer as spelled in its own metadata.
func (s *Source) findServer(ctx context.Context, issuer string) (*serverMetadata, error) {
	if named := s.providerFor(issuer).NamedAs; named != "" {
		return s.discoverServer(ctx, named)
	}
	m, err := s.discoverServer(ctx, issuer)
	if errors.Is(err, errNoServerMetadata) && s.opts.Legacy {
		d, legacyErr := s.discoverLegacy(ctx)
		if legacyErr == nil && d.issuer == issuer {
			return d.server, nil
		}
	}
	return m, err
}

var errNoServerMetadata = errors.New("the authorization server has no metadata; if its " +
	"endpoints are known, set Provider.Endpoints")

// readServer checks and caches metadata (RFC 8414, section 3.3), which must be issuer's.
func (s *Source) readServer(at, issuer string, body []byte) (*serverMetadata, error) {
	m := &serverMetadata{read: time.Now()}
	if err := jsonx.Unmarshal(body, m); err != nil {
		return nil, metadataError(at, errors.New("it is not the metadata of RFC 8414"))
	}
	if want := s.resolveAlias(issuer); m.Issuer != want {
		return nil, metadataError(at, untrustedError(fmt.Sprintf("the issuer is %s, and not %q; "+
			"if both are the same, see Provider.NamedAs", quoteUntrusted(m.Issuer), want)))
	}
	return s.acceptServer(at, issuer, m)
}

func (s *Source) acceptServer(at, issuer string, m *serverMetadata) (*serverMetadata, error) {
	err := s.checkEndpoints(m)
	switch {
	case slices.Contains(m.Challenges, "S256"), s.opts.Machine != nil: // machines use no code
	case m.Challenges == nil && s.providerFor(m.Issuer).AssumeS256:
	case m.Challenges == nil:
		err = errors.New("the authorization server does not say that it supports PKCE with S256 " +
			"(code_challenge_methods_supported); where it does, set Provider.AssumeS256")
	default:
		err = errors.New("code_challenge_methods_supported has no S256")
	}
	if err == nil {
		err = s.checkIss(m)
	}
	if err != nil {
		return nil, metadataError(at, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.servers) >= maxServers {
		clear(s.servers)
	}
	s.servers[issuer] = m
	return m, nil
}

// checkIss returns an error if Options.RequireIss refuses the authorization server.
func (s *Source) checkIss(m *serverMetadata) error {
	if !s.opts.RequireIss || m.SendsIssuer || s.registrationFor(m.Issuer) != nil ||
		s.providerFor(m.Issuer).Issuer != "" {
		return nil
	}
	return errors.New("it does not send iss (RFC 9207), and Options.RequireIss is set; if you " +
		"trust it, name it in Options.Providers or Registrations")
}

func (s *Source) checkEndpoints(m *serverMetadata) error {
	for _, e := range []struct {
		name, at string
		required bool
	}{
		{"authorization_endpoint", m.Authorization, s.opts.Machine == nil},
		{"token_endpoint", m.Token, true},
		{"registration_endpoint", m.Registration, false},
		{"revocation_endpoint", m.Revocation, false},
	} {
		if e.at == "" && !e.required {
			continue
		}
		if _, err := s.guard.checkURL(e.at); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return nil
}

// discoverLegacy takes the endpoint's origin as its authorization server (revision 2025-03-26). If
// the origin has no metadata, its endpoints have that revision's paths.
func (s *Source) discoverLegacy(ctx context.Context) (*discovery, error) {
	origin := s.endpointOrigin()
	server, err := s.discoverServer(ctx, origin)
	if errors.Is(err, errNoServerMetadata) {
		server, err = &serverMetadata{Issuer: origin, Authorization: origin + "/authorize",
			Token: origin + "/token", Registration: origin + "/register", read: time.Now()}, nil
		if err = s.checkIss(server); err != nil {
			err = metadataError(origin, err)
		}
	}
	if err != nil {
		return nil, err
	}
	return &discovery{s.endpointText, server.Issuer, nil, server}, nil
}
