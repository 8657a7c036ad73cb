package oauthtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// rootMetadata is the well-known address of the metadata of an origin.
const rootMetadata = "/.well-known/oauth-protected-resource"

// resourcePath is that of the endpoint of a resource.
const resourcePath = "/mcp"

// ResourceOptions configure a [Resource].
type ResourceOptions struct {
	// Servers are the authorization servers whose tokens are accepted. The metadata names them in
	// this order.
	Servers []*Server

	// Location is the path at which the metadata lies. Empty: the well-known address of the
	// endpoint. At the well-known address of the origin the resource is the origin.
	Location string

	NoHeader bool // the challenge has no URL of the metadata

	Scopes    []string // needed for every request, and named in the challenge of a 401
	Supported []string // scopes_supported of the metadata

	// Need returns the scopes that a request needs beside Scopes. Target is the name of a tool or
	// prompt, or the URI of a resource.
	Need func(rpc, target string) []string

	// Handler answers requests that may pass. Nil: an empty result for each JSON-RPC request.
	Handler http.Handler
}

// A Resource is a protected resource that serves metadata and challenges. It asks the authorization
// servers in memory whether a token is valid. Its methods may be called while it serves.
type Resource struct {
	// URL is the endpoint.
	URL string

	// Origin is URL without its path.
	Origin string

	// Identifier is the resource of the metadata: URL, or Origin for metadata at the root.
	Identifier string

	*recorder
	opts ResourceOptions

	mu         sync.Mutex
	servers    []*Server
	challenges func(status int, right string) []string
	refusal    int // see Refuse
}

// NewResource starts a protected resource, which is closed when the test ends.
func NewResource(t testing.TB, opts *ResourceOptions) *Resource {
	t.Helper()
	r := &Resource{recorder: newRecorder(), opts: *opts, servers: opts.Servers}
	r.opts.Location = cmp.Or(r.opts.Location, rootMetadata+resourcePath)
	if r.opts.Handler == nil {
		r.opts.Handler = http.HandlerFunc(serveEmptyResult)
	}
	r.Origin = listen(t, r.recorder, r)
	r.URL = r.Origin + resourcePath
	r.Identifier = r.URL
	if r.opts.Location == rootMetadata {
		r.Identifier = r.Origin
	}
	return r
}

// SetServers replaces the authorization servers of the resource.
func (r *Resource) SetServers(servers ...*Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.servers = servers
}

// Challenge has f make the WWW-Authenticate headers from the right one.
func (r *Resource) Challenge(f func(status int, right string) []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.challenges = f
}

// Refuse has the resource refuse every request that has a token, with status 401, or with 403 and a
// scope that nobody has.
func (r *Resource) Refuse(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusal = status
}

// Behave undoes Edit, Reply, Challenge and Refuse.
func (r *Resource) Behave() {
	r.recorder.Behave()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.challenges, r.refusal = nil, 0
}

// ServeHTTP serves the endpoint and its metadata.
func (r *Resource) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.receiveRequest(w, request, r.endpointOf, func(w http.ResponseWriter, recorded Request) {
		if recorded.Endpoint != Call { // elsewhere, a client that follows a redirect could go on
			r.serveMetadata(w, request)
			return
		}
		request.Body = io.NopCloser(bytes.NewReader(recorded.Body))
		r.serveCall(w, request, recorded.Body)
	})
}

func (r *Resource) endpointOf(request Request) Endpoint {
	switch path := request.URL.Path; {
	case strings.Contains(path, "/.well-known/"), path == r.opts.Location:
		return ResourceMetadata
	case path == resourcePath:
		return Call
	}
	return Other
}

func (r *Resource) serveMetadata(w http.ResponseWriter, request *http.Request) {
	path := request.URL.Path
	if path != r.opts.Location && path != Elsewhere || request.Method != http.MethodGet {
		http.NotFound(w, request)
		return
	}
	issuers := []string{}
	for _, server := range r.currentServers() {
		issuers = append(issuers, server.URL)
	}
	d := Document{
		{"resource", r.Identifier},
		{"authorization_servers", issuers},
		{"bearer_methods_supported", []string{"header"}},
	}
	if r.opts.Supported != nil {
		d.Add("scopes_supported", r.opts.Supported)
	}
	r.sendDocument(w, ResourceMetadata, http.StatusOK, d)
}

func (r *Resource) currentServers() []*Server {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.servers)
}

// serveCall checks the token and the scopes of a request.
func (r *Resource) serveCall(w http.ResponseWriter, request *http.Request, body []byte) {
	need := slices.Clone(r.opts.Scopes)
	if r.opts.Need != nil {
		need = append(need, r.opts.Need(rpcOf(body))...)
	}
	r.mu.Lock()
	refusal := r.refusal
	r.mu.Unlock()
	values := request.Header.Values("Authorization")
	grant, ok := r.checkToken(values)
	switch {
	case len(values) == 0:
		r.refuseCall(w, http.StatusUnauthorized, "", r.opts.Scopes)
	case !ok, refusal == http.StatusUnauthorized:
		r.refuseCall(w, http.StatusUnauthorized, "invalid_token", r.opts.Scopes)
	case refusal == http.StatusForbidden:
		r.refuseCall(w, http.StatusForbidden, "insufficient_scope", append(need, "impossible"))
	case slices.ContainsFunc(need, func(scope string) bool {
		return !slices.Contains(grant.Scopes, scope)
	}):
		r.refuseCall(w, http.StatusForbidden, "insufficient_scope", need)
	default:
		r.opts.Handler.ServeHTTP(w, request)
	}
}

// checkToken returns the grant of a token, if one of the servers has issued it for this resource.
func (r *Resource) checkToken(values []string) (Grant, bool) {
	if len(values) != 1 {
		return Grant{}, false
	}
	token, ok := strings.CutPrefix(values[0], "Bearer ")
	if !ok {
		return Grant{}, false
	}
	for _, server := range r.currentServers() {
		if grant, ok := server.Check(token); ok && grant.Resource == r.Identifier {
			return grant, true
		}
	}
	return Grant{}, false
}

// refuseCall sends a challenge. code is the error of RFC 6750 section 3.1, which is left out where
// no token came.
func (r *Resource) refuseCall(w http.ResponseWriter, status int, code string, scopes []string) {
	parts := []string{}
	add := func(name, value string) { parts = append(parts, fmt.Sprintf("%s=%q", name, value)) }
	if code != "" {
		add("error", code)
	}
	if len(scopes) > 0 {
		add("scope", strings.Join(scopes, " "))
	}
	if !r.opts.NoHeader {
		add("resource_metadata", r.Origin+r.opts.Location)
	}
	lines := []string{strings.TrimSpace("Bearer " + strings.Join(parts, ", "))}
	r.mu.Lock()
	edit := r.challenges
	r.mu.Unlock()
	if edit != nil {
		lines = edit(status, lines[0])
	}
	for _, line := range lines {
		w.Header().Add("WWW-Authenticate", line)
	}
	http.Error(w, http.StatusText(status), status)
}

// rpcOf returns the method of a JSON-RPC message, and the name or URI that it is about.
func rpcOf(body []byte) (rpc, target string) {
	var message struct {
		Method string
		Params struct{ Name, URI string }
	}
	_ = json.Unmarshal(body, &message) // malformed JSON has no method
	return message.Method, cmp.Or(message.Params.Name, message.Params.URI)
}

func serveEmptyResult(w http.ResponseWriter, request *http.Request) {
	var message struct{ ID json.RawMessage }
	if err := json.NewDecoder(request.Body).Decode(&message); err != nil || message.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, message.ID)
}
