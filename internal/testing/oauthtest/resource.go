package oauthtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

const (
	wellKnown    = "/.well-known/oauth-protected-resource"
	resourcePath = "/mcp" // of the endpoint
)

// ResourceOptions configure a [Resource].
type ResourceOptions struct {
	// Servers are the authorization servers whose tokens are accepted.
	Servers   []*Server
	Root      bool     // metadata is at the origin, and about the origin
	Scopes    []string // required by every request, and named in the challenge of a 401
	Supported []string // scopes_supported in the metadata
	// Need returns the scopes that a tool needs besides Scopes. Nil: no others.
	Need func(tool string) []string
	// Handler answers authorized requests. Nil: each JSON-RPC request gets an empty result.
	Handler http.Handler
}

// A Resource is a protected resource with metadata and challenges. It validates tokens in memory,
// at the authorization servers. Its methods may be called while it serves.
type Resource struct {
	// URL is the endpoint. Origin is the endpoint without its path.
	URL, Origin string
	// Identifier is the resource in the metadata: URL, or Origin if the metadata is at the root.
	Identifier string

	recorder
	opts     ResourceOptions
	location string // the metadata's path
	servers  atomic.Pointer[[]*Server]
}

// NewResource starts a protected resource, which is closed when the test ends.
func NewResource(t testing.TB, opts *ResourceOptions) *Resource {
	t.Helper()
	r := &Resource{opts: *opts}
	r.SetServers(opts.Servers...)
	listen(t, &r.recorder, r.endpointOf, r.answer, func(origin string) {
		r.Origin, r.URL = origin, origin+resourcePath
		r.Identifier, r.location = r.URL, wellKnown+resourcePath
		if opts.Root {
			r.Identifier, r.location = origin, wellKnown
		}
	})
	return r
}

func (r *Resource) SetServers(servers ...*Server) { r.servers.Store(&servers) }

func (r *Resource) endpointOf(request *Request) Endpoint {
	switch path := request.URL.Path; {
	case strings.HasPrefix(path, wellKnown):
		return ResourceMetadata
	case path == resourcePath:
		return Call
	}
	return Other
}

func (r *Resource) answer(request *Request) *Answer {
	path := request.URL.Path
	switch {
	case request.Endpoint == Call:
		return r.answerCall(request)
	case path != r.location && path != Elsewhere || request.Method != http.MethodGet:
		return &Answer{Status: http.StatusNotFound}
	}
	issuers := []string{}
	for _, server := range *r.servers.Load() {
		issuers = append(issuers, server.URL)
	}
	d := Document{"resource": r.Identifier, "authorization_servers": issuers}
	if r.opts.Supported != nil {
		d["scopes_supported"] = r.opts.Supported
	}
	return &Answer{Document: d}
}

func (r *Resource) answerCall(request *Request) *Answer {
	var message struct {
		ID     json.RawMessage
		Params struct{ Name string }
	}
	_ = json.Unmarshal(request.Body, &message) // if the JSON is malformed, no tool is called
	need := slices.Clone(r.opts.Scopes)
	if r.opts.Need != nil {
		need = append(need, r.opts.Need(message.Params.Name)...)
	}
	values := request.Header.Values("Authorization")
	grant, ok := r.checkToken(values)
	switch {
	case len(values) == 0:
		return r.Refusal(http.StatusUnauthorized, "", r.opts.Scopes...)
	case !ok:
		return r.Refusal(http.StatusUnauthorized, "invalid_token", r.opts.Scopes...)
	case !grant.covers(need):
		return r.Refusal(http.StatusForbidden, "insufficient_scope", need...)
	}
	return &Answer{handler: r.opts.Handler,
		Body: fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, message.ID)}
}

func (r *Resource) checkToken(values []string) (Grant, bool) {
	if len(values) != 1 {
		return Grant{}, false
	}
	token, _ := strings.CutPrefix(values[0], "Bearer ")
	for _, server := range *r.servers.Load() {
		if grant, ok := server.Check(token); ok && grant.Resource == r.Identifier {
			return grant, true
		}
	}
	return Grant{}, false
}

// Refusal returns an answer with a challenge. code is an error of RFC 6750 section 3.1, or empty.
func (r *Resource) Refusal(status int, code string, scopes ...string) *Answer {
	challenge := ""
	if code != "" {
		challenge = fmt.Sprintf("error=%q, ", code)
	}
	if len(scopes) > 0 {
		challenge += fmt.Sprintf("scope=%q, ", strings.Join(scopes, " "))
	}
	challenge += fmt.Sprintf("resource_metadata=%q", r.Origin+r.location)
	return &Answer{Status: status, Header: http.Header{"Www-Authenticate": {"Bearer " + challenge}}}
}
