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
	// metadataLifetime is the greatest age of cached metadata of an authorization server.
	metadataLifetime = time.Hour
	// maxIssuers bounds the authorization servers of an MCP server that are read.
	maxIssuers = 10
	// wellKnownResource is the path of the metadata of a resource (RFC 9728, section 3).
	wellKnownResource = "/.well-known/oauth-protected-resource"
)

// A Discovery has the checked metadata of an endpoint and of its authorization server. Hosts show
// it to people, or learn from it for which issuer they need a [Registration].
type Discovery struct {
	// Resource is the resource that tokens are requested for (RFC 8707).
	Resource string
	// Issuers are the authorization servers that the endpoint names, at most ten. Issuer is the
	// chosen one, as its own metadata names it.
	Issuers []string
	Issuer  string
	// Scopes is scopes_supported of the endpoint.
	Scopes []string
	// MetadataDocuments reports whether the authorization server accepts a client's
	// ClientInfo.MetadataURL, and DynamicRegistration whether it registers clients (RFC 7591).
	MetadataDocuments, DynamicRegistration bool

	server *serverMetadata
}

// Discover requests and checks the metadata of an endpoint and of its authorization server, as a
// login does. Nobody is logged in. opts may be nil. The error is [ErrMetadata] if a document is
// refused or cannot be read.
func Discover(ctx context.Context, endpoint string, opts *Options) (*Discovery, error) {
	s, err := New(endpoint, opts)
	if err != nil {
		return nil, err
	}
	defer s.guard.client.CloseIdleConnections()
	return s.discover(ctx, challenge{})
}

// A resourceMetadata has the metadata of a protected resource (RFC 9728, section 2).
type resourceMetadata struct {
	Resource string   `json:"resource"`
	Issuers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

// A serverMetadata has the metadata of an authorization server (RFC 8414, section 2; RFC 9207,
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

	read time.Time // when the document was read
}

// discover finds the authorization server of the endpoint (basic/authorization, "Authorization
// Server Discovery"). A document that is refused ends the search: another place is not tried.
func (s *Source) discover(ctx context.Context, c challenge) (*Discovery, error) {
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
	return &Discovery{Resource: resource.Resource, Issuers: resource.Issuers, Issuer: server.Issuer,
		Scopes: rules.UniteScopes(resource.Scopes), MetadataDocuments: server.Documents,
		DynamicRegistration: server.Registration != "", server: server}, nil
}

// errNoMetadata is the error of an MCP server without metadata.
var errNoMetadata = errors.New("the server has no metadata that names its authorization server; " +
	"for servers of revision 2025-03-26 set Options.Legacy")

// discoverResource gets the metadata of the endpoint: from the URL of the challenge, or else from
// the well-known path of the endpoint, or else from that of its origin.
func (s *Source) discoverResource(ctx context.Context, c challenge) (*resourceMetadata, error) {
	root, urls := s.endpointOrigin()+wellKnownResource, s.resourceMetadataURLs()
	if c.metadata != "" {
		body, err := s.guard.fetchDocument(ctx, c.metadata)
		if err != nil {
			return nil, err
		}
		return s.readResource(c.metadata, body, c.metadata == root)
	}
	for _, at := range urls { // any other failure ends the search: no weaker source is tried
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

// endpointOrigin returns the origin of the endpoint.
func (s *Source) endpointOrigin() string { return s.endpoint.Scheme + "://" + s.endpoint.Host }

// resourceMetadataURLs returns the URLs at which the metadata of the endpoint may be, in the order
// in which they are tried (RFC 9728, section 3.1).
func (s *Source) resourceMetadataURLs() []string {
	path := s.endpoint.EscapedPath()
	if path == "/" {
		path = "" // RFC 9728 removes the slash of an origin, and keeps that of a path
	}
	if s.endpoint.RawQuery != "" {
		path += "?" + s.endpoint.RawQuery
	}
	root := s.endpointOrigin() + wellKnownResource
	if path == "" {
		return []string{root}
	}
	return []string{root + path, root}
}

// readResource checks the metadata of the endpoint (RFC 9728, section 3.3). Its resource must be
// the endpoint, or at the well-known path of the origin, the origin.
func (s *Source) readResource(at string, body []byte, isRoot bool) (*resourceMetadata, error) {
	var m resourceMetadata
	if err := jsonx.Unmarshal(body, &m); err != nil {
		return nil, metadataError(at, errors.New("it is not the metadata of RFC 9728"))
	}
	// An origin is the same resource with its slash and without: both have the same metadata URL
	// (RFC 9728, section 3.1), and a request to either is the same (RFC 3986, section 6.2.3). URLs
	// with a path that differ in a slash are different resources.
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

// chooseIssuer returns one of the authorization servers of a resource: that of the login, or
// else one of Options.Registrations, or else the first.
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

// resolveAlias maps an issuer as an MCP server names it to the issuer that its metadata must have:
// that of the Provider with the name, or else the same.
func (s *Source) resolveAlias(issuer string) string {
	for _, p := range s.opts.Providers {
		if p.NamedAs != "" && p.NamedAs == issuer {
			return p.Issuer
		}
	}
	return issuer
}

// discoverServer returns the metadata of an authorization server, and caches it for an hour. issuer
// is spelled as the MCP server names it.
func (s *Source) discoverServer(ctx context.Context, issuer string) (*serverMetadata, error) {
	s.mu.Lock()
	known := s.servers[issuer]
	s.mu.Unlock()
	if known != nil && time.Since(known.read) < metadataLifetime {
		return known, nil
	}
	if p := s.providerFor(s.resolveAlias(issuer)); p.Endpoints != nil {
		return s.acceptServer(issuer, issuer, p.configuredServer())
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

// findServer returns the metadata of an authorization server. issuer is spelled as in the metadata.
func (s *Source) findServer(ctx context.Context, issuer string) (*serverMetadata, error) {
	if named := s.providerFor(issuer).NamedAs; named != "" {
		return s.discoverServer(ctx, named)
	}
	m, err := s.discoverServer(ctx, issuer)
	if errors.Is(err, errNoServerMetadata) && s.opts.Legacy {
		d, legacyErr := s.discoverLegacy(ctx)
		if legacyErr == nil && d.Issuer == issuer {
			return d.server, nil
		}
	}
	return m, err
}

// errNoServerMetadata is the error of an authorization server without metadata.
var errNoServerMetadata = errors.New("the authorization server has no metadata; if its " +
	"endpoints are known, set Provider.Endpoints")

// readServer checks and caches the metadata of an authorization server (RFC 8414, section 3.3). Its
// issuer must be the one that was named, and it must support PKCE with S256.
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

// acceptServer checks the metadata of an authorization server whose issuer is the right one, and
// caches it.
func (s *Source) acceptServer(at, issuer string, m *serverMetadata) (*serverMetadata, error) {
	err := s.checkEndpoints(m)
	switch {
	case slices.Contains(m.Challenges, "S256"), s.opts.Machine != nil: // machines have no code
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

// checkIss returns an error for an authorization server that Options.RequireIss refuses.
func (s *Source) checkIss(m *serverMetadata) error {
	if !s.opts.RequireIss || m.SendsIssuer || s.registrationFor(m.Issuer) != nil ||
		s.providerFor(m.Issuer).Issuer != "" {
		return nil
	}
	return errors.New("it does not send iss (RFC 9207), and Options.RequireIss is set; if you " +
		"trust it, name it in Options.Providers or Registrations")
}

// checkEndpoints checks the URLs of the endpoints that an authorization server has.
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

// discoverLegacy uses the origin of the endpoint as its authorization server (revision 2025-03-26).
// If that has no metadata, its endpoints have the paths of that revision.
func (s *Source) discoverLegacy(ctx context.Context) (*Discovery, error) {
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
	return &Discovery{Resource: s.endpointText, Issuers: []string{origin}, Issuer: server.Issuer,
		DynamicRegistration: server.Registration != "", server: server}, nil
}
