package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/internal/scope"
)

const (
	// metadataTime is how long the metadata of an authorization server is used.
	metadataTime = time.Hour
	// maxIssuers is how many authorization servers of a resource are looked at.
	maxIssuers = 10

	wellKnownResource = "/.well-known/oauth-protected-resource"
	wellKnownServer   = "/.well-known/oauth-authorization-server"
	wellKnownOpenID   = "/.well-known/openid-configuration"
)

// A Discovery is what the metadata of an endpoint and of its authorization server says, checked.
// Hosts show it to people, or learn from it which issuer to configure a [Registration] for.
type Discovery struct {
	// Resource is what tokens are asked for.
	Resource string
	// Issuers are the authorization servers that the endpoint names, and Issuer is the one
	// that is used.
	Issuers []string
	Issuer  string
	// Scopes are those that the endpoint names.
	Scopes []string
	// MetadataDocuments is true where the authorization server accepts a client's
	// Options.MetadataURL, and DynamicRegistration where it registers clients.
	MetadataDocuments, DynamicRegistration bool

	server *serverMetadata
}

// Discover reads the metadata of an endpoint and of its authorization server, as a login does, and
// logs nobody in.
func Discover(ctx context.Context, endpoint string, opts *Options) (*Discovery, error) {
	s, err := New(endpoint, opts)
	if err != nil {
		return nil, err
	}
	defer s.guard.client.CloseIdleConnections()
	return s.discover(ctx, challenge{})
}

// A resourceMetadata is what is read of the metadata of a resource (RFC 9728).
type resourceMetadata struct {
	Resource string   `json:"resource"`
	Issuers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

// A serverMetadata is what is read of the metadata of an authorization server (RFC 8414).
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

	read time.Time
}

// discover finds the authorization server of the endpoint (basic/authorization, "Authorization
// Server Discovery"). A document that is refused ends the search: it is never a reason to trust a
// weaker source.
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
		Scopes: scope.Union(resource.Scopes), MetadataDocuments: server.Documents,
		DynamicRegistration: server.Registration != "", server: server}, nil
}

// errNoMetadata says that a server has none.
var errNoMetadata = errors.New("the server has no metadata that " +
	"names its authorization server; for servers of " +
	"revision 2025-03-26 set Options.Legacy")

// discoverResource reads the metadata of the endpoint: where the challenge says, or else before
// its path, or else at the root.
func (s *Source) discoverResource(ctx context.Context, c challenge) (*resourceMetadata, error) {
	origin := s.endpoint.Scheme + "://" + s.endpoint.Host
	root := origin + wellKnownResource
	if c.metadata != "" {
		body, err := s.guard.get(ctx, c.metadata)
		if err != nil {
			return nil, err
		}
		return s.readResource(c.metadata, body, c.metadata == root)
	}
	path := s.endpoint.EscapedPath()
	if path == "/" {
		path = "" // of the host; that of a path is part of the name of the resource
	}
	if s.endpoint.RawQuery != "" {
		path += "?" + s.endpoint.RawQuery
	}
	at := []string{root + path}
	if at[0] != root {
		at = append(at, root)
	}
	for _, at := range at {
		body, err := s.guard.get(ctx, at)
		if status := (*statusError)(nil); errors.As(err, &status) && status.missing() {
			continue
		}
		if err != nil {
			return nil, err
		}
		return s.readResource(at, body, at == root)
	}
	return nil, &MetadataError{root, errNoMetadata}
}

// readResource checks the metadata of the endpoint. It must be about the endpoint, or, at the root,
// about the origin.
func (s *Source) readResource(at string, body []byte, isRoot bool) (*resourceMetadata, error) {
	var m resourceMetadata
	if err := jsonx.Unmarshal(body, &m); err != nil {
		return nil, &MetadataError{at, errors.New("it is not the metadata of RFC 9728")}
	}
	// An origin is one resource with its slash and without: RFC 9728, 3.1, makes the same address
	// of metadata from both, and the request for either is the same (RFC 3986, 6.2.3). Of what has
	// a path each spelling is a resource of its own.
	origin := s.endpoint.Scheme + "://" + s.endpoint.Host
	atRoot := isRoot && (m.Resource == origin || m.Resource == origin+"/")
	if m.Resource != s.endpointText && !atRoot {
		return nil, &MetadataError{at, &ResourceError{Want: s.endpointText, Got: m.Resource}}
	}
	if len(m.Issuers) == 0 {
		return nil, &MetadataError{at, errors.New("it names no authorization server")}
	}
	if len(m.Issuers) > maxIssuers {
		m.Issuers = m.Issuers[:maxIssuers]
	}
	return &m, nil
}

func (s *Source) chooseIssuer(ctx context.Context, m *resourceMetadata) (string, error) {
	if s.opts.ChooseIssuer != nil {
		issuer, err := s.opts.ChooseIssuer(ctx, m.Resource, slices.Clone(m.Issuers))
		if err == nil && !slices.Contains(m.Issuers, issuer) {
			err = errors.New("oauth: ChooseIssuer returned an issuer that the server does not name")
		}
		return issuer, err
	}
	if now := s.currentTokens(); now != nil && now.resource == m.Resource {
		for _, issuer := range m.Issuers {
			if s.spelled(issuer) == now.issuer {
				return issuer, nil
			}
		}
	}
	for _, issuer := range m.Issuers {
		if s.registrationFor(s.spelled(issuer)) != nil {
			return issuer, nil
		}
	}
	return m.Issuers[0], nil
}

// spelled returns an issuer as its metadata spells it.
func (s *Source) spelled(issuer string) string {
	if alias, ok := s.opts.Aliases[issuer]; ok {
		return alias
	}
	return issuer
}

// discoverServer reads the metadata of an authorization server, and remembers it for an hour.
func (s *Source) discoverServer(ctx context.Context, issuer string) (*serverMetadata, error) {
	s.mu.Lock()
	known := s.servers[issuer]
	s.mu.Unlock()
	if known != nil && time.Since(known.read) < metadataTime {
		return known, nil
	}
	u, err := s.guard.checkURL(issuer)
	if err == nil && u.RawQuery != "" {
		err = errors.New("URL has a query")
	}
	if err != nil {
		return nil, &MetadataError{issuer, err}
	}
	for _, at := range serverMetadataURLs(u) {
		body, err := s.guard.get(ctx, at)
		if status := (*statusError)(nil); errors.As(err, &status) && status.missing() {
			continue
		}
		if err != nil {
			return nil, err
		}
		return s.readServer(at, issuer, body)
	}
	return nil, &MetadataError{issuer, errNoServerMetadata}
}

var errNoServerMetadata = errors.New("the authorization server has no metadata")

// serverMetadataURLs returns where the metadata of an issuer may be, in the prescribed order.
func serverMetadataURLs(u *url.URL) []string {
	origin, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	at := []string{origin + wellKnownServer + path, origin + wellKnownOpenID + path}
	if path != "" {
		at = append(at, origin+path+wellKnownOpenID)
	}
	return at
}

// readServer checks the metadata of an authorization server.
func (s *Source) readServer(at, issuer string, body []byte) (*serverMetadata, error) {
	m := &serverMetadata{read: time.Now()}
	if err := jsonx.Unmarshal(body, m); err != nil {
		return nil, &MetadataError{at, errors.New("it is not the metadata of RFC 8414")}
	}
	if want := s.spelled(issuer); m.Issuer != want {
		return nil, &MetadataError{at, &IssuerError{Want: want, Got: m.Issuer}}
	}
	if !slices.Contains(m.Challenges, "S256") {
		return nil, &MetadataError{at, errors.New("the authorization server does not say that it " +
			"supports PKCE with S256 (code_challenge_methods_supported)")}
	}
	if err := s.checkEndpoints(m); err != nil {
		return nil, &MetadataError{at, err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.servers) >= maxServers {
		clear(s.servers)
	}
	s.servers[issuer] = m
	return m, nil
}

func (s *Source) checkEndpoints(m *serverMetadata) error {
	for _, e := range []struct {
		name, at string
		required bool
	}{
		{"authorization_endpoint", m.Authorization, true}, {"token_endpoint", m.Token, true},
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

// discoverLegacy takes the origin of the endpoint for its authorization server (revision
// 2025-03-26), whose endpoints have default paths where it has no metadata.
func (s *Source) discoverLegacy(ctx context.Context) (*Discovery, error) {
	origin := s.endpoint.Scheme + "://" + s.endpoint.Host
	server, err := s.discoverServer(ctx, origin)
	if errors.Is(err, errNoServerMetadata) {
		server, err = &serverMetadata{Issuer: origin, Authorization: origin + "/authorize",
			Token: origin + "/token", Registration: origin + "/register", read: time.Now()}, nil
	}
	if err != nil {
		return nil, err
	}
	return &Discovery{Resource: s.endpointText, Issuers: []string{origin}, Issuer: server.Issuer,
		DynamicRegistration: server.Registration != "", server: server}, nil
}
