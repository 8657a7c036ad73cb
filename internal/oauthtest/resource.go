package oauthtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// rootMetadata is the well-known address of the metadata of an origin.
const rootMetadata = "/.well-known/oauth-protected-resource"

// ResourceOptions configure a [Resource].
type ResourceOptions struct {
	// Servers are the authorization servers whose tokens are accepted. The metadata names them in
	// this order.
	Servers []*Server

	// Path is that of the endpoint. Empty: /mcp.
	Path string

	// Location is the path at which the metadata lies. Empty: the well-known address of the
	// endpoint. At the well-known address of the origin the resource is the origin.
	Location string

	NoHeader   bool // the challenge does not say where the metadata lies
	NoMetadata bool // there is no metadata, as before 2025-06-18

	Scopes    []string // needed for every request, and named in the challenge of a 401
	Supported []string // scopes_supported of the metadata

	// Need returns the scopes that a request needs beside Scopes. Target is the name of a tool or
	// prompt, or the URI of a resource.
	Need func(rpc, target string) []string

	// Handler answers requests that may pass. Nil: an empty result for each JSON-RPC request.
	Handler http.Handler

	// On has the resource listen where an authorization server listens. Nil: a port of its own.
	On *Server

	// Listen is as in [Options].
	Listen func(h http.Handler) string
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

	opts ResourceOptions
	log  recorder

	mu         sync.Mutex
	servers    []*Server
	challenges func(status int, right string) []string
	refusal    int // a status of the faults that refuse every request; zero: none
}

// NewResource starts a protected resource, which is closed when the test ends.
func NewResource(t testing.TB, opts *ResourceOptions) *Resource {
	t.Helper()
	r := &Resource{opts: *opts, servers: opts.Servers}
	r.opts.Path = cmp.Or(r.opts.Path, "/mcp")
	r.opts.Location = cmp.Or(r.opts.Location, rootMetadata+r.opts.Path)
	if r.opts.Handler == nil {
		r.opts.Handler = http.HandlerFunc(serveEmptyResult)
	}
	t.Cleanup(r.log.releaseAll)
	switch {
	case opts.On != nil:
		r.Origin = opts.On.Origin
		for _, path := range []string{r.opts.Path, r.opts.Location, rootMetadata} {
			opts.On.Handle(path, r)
		}
	case opts.Listen != nil:
		r.Origin = opts.Listen(r)
	default:
		server := httptest.NewServer(r)
		r.Origin = server.URL
		t.Cleanup(func() {
			r.log.releaseAll()
			server.CloseClientConnections()
			server.Close()
		})
	}
	r.URL = r.Origin + r.opts.Path
	r.Identifier = r.URL
	if r.opts.Location == rootMetadata {
		r.Identifier = r.Origin
	}
	return r
}

// SetServers says which authorization servers the resource has from now on.
func (r *Resource) SetServers(servers ...*Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.servers = servers
}

// Challenge has f make the WWW-Authenticate headers from the right one. Nil: the right one alone.
func (r *Resource) Challenge(f func(status int, right string) []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.challenges = f
}

// Count returns how many requests an endpoint has received.
func (r *Resource) Count(e Endpoint) int { return len(r.log.requests(e)) }

// Requests returns what an endpoint has received, oldest first.
func (r *Resource) Requests(e Endpoint) []Request { return r.log.requests(e) }

// Reset forgets what was counted and recorded.
func (r *Resource) Reset() { r.log.reset() }

// Hold is as [Server.Hold].
func (r *Resource) Hold(e Endpoint) *Gate { return r.log.hold(e) }

// Edit is as [Server.Edit]. Only the metadata can be edited.
func (r *Resource) Edit(e Endpoint, f func(*Document)) { r.log.edit(e, f) }

// Answer is as [Server.Answer].
func (r *Resource) Answer(e Endpoint, reply Reply) { r.log.answer(e, reply) }

// Behave ends what Edit, Answer, Challenge and Misbehave began.
func (r *Resource) Behave() {
	r.log.behave()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.challenges, r.refusal = nil, 0
}

// ServeHTTP serves the endpoint and its metadata.
func (r *Resource) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(io.LimitReader(request.Body, 16<<20))
	if err != nil {
		return // the client is gone
	}
	recorded := Request{Endpoint: Other, Method: request.Method, URL: *request.URL,
		Host: request.Host, Header: request.Header.Clone(), Form: request.URL.Query(), Body: body}
	switch {
	case strings.Contains(request.URL.Path, "/.well-known/"),
		request.URL.Path == r.opts.Location:
		recorded.Endpoint = ResourceMetadata
	case request.URL.Path == r.opts.Path:
		recorded.Endpoint = Call
	}
	if !r.log.record(request.Context(), recorded) {
		return
	}
	if reply, ok := r.log.replyFor(recorded.Endpoint); ok {
		reply.send(w, request)
		return
	}
	switch recorded.Endpoint {
	case ResourceMetadata:
		r.serveMetadata(w, request)
	case Call:
		request.Body = io.NopCloser(bytes.NewReader(body))
		r.serveCall(w, request, body)
	default: // elsewhere, whoever follows a redirect could go on
		r.serveMetadata(w, request)
	}
}

func (r *Resource) serveMetadata(w http.ResponseWriter, request *http.Request) {
	path := request.URL.Path
	if r.opts.NoMetadata || path != r.opts.Location && path != elsewhere ||
		request.Method != http.MethodGet {
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
	r.log.send(w, ResourceMetadata, http.StatusOK, d)
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
	if len(values) == 0 {
		r.refuse(w, http.StatusUnauthorized, "", r.opts.Scopes)
		return
	}
	grant, ok := r.check(values)
	switch {
	case !ok, refusal == http.StatusUnauthorized:
		r.refuse(w, http.StatusUnauthorized, "invalid_token", r.opts.Scopes)
	case refusal == http.StatusForbidden:
		r.refuse(w, http.StatusForbidden, "insufficient_scope", append(need, "impossible"))
	case slices.ContainsFunc(need, func(scope string) bool {
		return !slices.Contains(grant.Scopes, scope)
	}):
		r.refuse(w, http.StatusForbidden, "insufficient_scope", need)
	default:
		ctx := context.WithValue(request.Context(), grantKey{}, grant)
		r.opts.Handler.ServeHTTP(w, request.WithContext(ctx))
	}
}

type grantKey struct{}

// GrantFrom returns what the token of a request grants, for handlers of a [Resource].
func GrantFrom(ctx context.Context) (Grant, bool) {
	grant, ok := ctx.Value(grantKey{}).(Grant)
	return grant, ok
}

// check returns what a token grants, if one of the servers has issued it for this resource.
func (r *Resource) check(values []string) (Grant, bool) {
	token, ok := strings.CutPrefix(values[0], "Bearer ")
	if !ok || len(values) != 1 {
		return Grant{}, false
	}
	for _, server := range r.currentServers() {
		if grant, ok := server.Check(token); ok && grant.Resource == r.Identifier {
			return grant, true
		}
	}
	return Grant{}, false
}

// refuse sends a challenge. code is the error of RFC 6750 section 3.1, which is left out where no
// token came.
func (r *Resource) refuse(w http.ResponseWriter, status int, code string, scopes []string) {
	parts := []string{}
	add := func(name, value string) { parts = append(parts, fmt.Sprintf("%s=%q", name, value)) }
	if code != "" {
		add("error", code)
	}
	if len(scopes) > 0 {
		add("scope", strings.Join(scopes, " "))
	}
	if !r.opts.NoHeader && !r.opts.NoMetadata {
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
	_ = json.Unmarshal(body, &message) // what is none has no method
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

// A ResourceFault is one misbehaviour of a [Resource].
type ResourceFault string

// Faults of the metadata document of a resource.
const (
	ResourceForeign     ResourceFault = "resource of somebody else"
	ResourceSlash       ResourceFault = "resource with a slash more"
	ResourceParent      ResourceFault = "resource is a parent path"
	ResourceCase        ResourceFault = "resource in other letters"
	ResourcePort        ResourceFault = "resource of another port"
	ResourceMissing     ResourceFault = "no resource"
	ServersMissing      ResourceFault = "no authorization servers"
	ServersEmpty        ResourceFault = "empty list of authorization servers"
	ServersTypes        ResourceFault = "authorization servers of a wrong type"
	ServersMany         ResourceFault = "a thousand authorization servers"
	ServerScript        ResourceFault = "authorization server is javascript"
	ServerPlain         ResourceFault = "authorization server without TLS"
	ServerLinkLocal     ResourceFault = "authorization server at a link-local address"
	ServerQuery         ResourceFault = "authorization server with a query"
	ResourceRedirected  ResourceFault = "resource metadata redirects"
	ResourceOversize    ResourceFault = "resource metadata too large"
	ResourceDuplicate   ResourceFault = "resource metadata with a member twice"
	ResourceDeep        ResourceFault = "resource metadata nested too deep"
	ResourceHTML        ResourceFault = "resource metadata is a page"
	ResourceUnavailable ResourceFault = "resource metadata fails with 503"
	ResourceHangs       ResourceFault = "resource metadata does not answer"
)

// Faults of challenges.
const (
	SeveralSchemes       ResourceFault = "several schemes in one header" // legal
	SeveralHeaders       ResourceFault = "several headers"               // legal
	QuotedCommas         ResourceFault = "commas in quotes"              // legal
	NoChallenge          ResourceFault = "no challenge"
	BrokenChallenge      ResourceFault = "challenge that ends in a quote"
	MetadataElsewhere    ResourceFault = "metadata of another origin"
	MetadataLinkLocal    ResourceFault = "metadata at a link-local address"
	MetadataScript       ResourceFault = "metadata address is javascript"
	UnauthorizedForEver  ResourceFault = "401 for ever"
	InsufficientForEver  ResourceFault = "insufficient_scope for ever"
	ForbiddenWithoutCode ResourceFault = "403 without an error code"
)

// Misbehave turns on a fault, until Behave.
func (r *Resource) Misbehave(f ResourceFault) {
	if start := r.documentFaults()[f]; start != nil {
		start()
		return
	}
	start := r.challengeFaults()[f]
	if start == nil {
		panic(fmt.Sprintf("oauthtest: a resource has no fault %q", f))
	}
	start()
}

// Faults returns all faults of a resource, sorted.
func (r *Resource) Faults() []ResourceFault {
	var all []ResourceFault
	for f := range r.documentFaults() {
		all = append(all, f)
	}
	for f := range r.challengeFaults() {
		all = append(all, f)
	}
	slices.Sort(all)
	return all
}

func (r *Resource) documentFaults() map[ResourceFault]func() {
	edit := func(f func(*Document)) func() { return func() { r.Edit(ResourceMetadata, f) } }
	set := func(name string, value any) func() { return edit(Set(name, value)) }
	answer := func(reply Reply) func() { return func() { r.Answer(ResourceMetadata, reply) } }
	const resource, servers = "resource", "authorization_servers"
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf("%s/tenant-%d", r.Origin, i)
	}
	return map[ResourceFault]func(){
		ResourceForeign:     set(resource, "https://other.example/mcp"),
		ResourceSlash:       set(resource, r.Identifier+"/"),
		ResourceParent:      set(resource, r.Origin+"/"),
		ResourceCase:        set(resource, strings.ToUpper(r.Identifier)),
		ResourcePort:        set(resource, otherPort(r.Identifier)),
		ResourceMissing:     edit(Delete(resource)),
		ServersMissing:      edit(Delete(servers)),
		ServersEmpty:        set(servers, []string{}),
		ServersTypes:        set(servers, "https://attacker.example"),
		ServersMany:         set(servers, many),
		ServerScript:        set(servers, []string{"javascript:alert(1)"}),
		ServerPlain:         set(servers, []string{"http://attacker.example"}),
		ServerLinkLocal:     set(servers, []string{"http://169.254.169.254"}),
		ServerQuery:         set(servers, []string{r.Origin + "?tenant=1"}),
		ResourceRedirected:  answer(RedirectTo(r.Origin + elsewhere)),
		ResourceOversize:    edit(Pad(maxDocument)),
		ResourceDuplicate:   edit(Add(servers, []string{"https://attacker.example"})),
		ResourceDeep:        edit(Nest(100_000)),
		ResourceHTML:        answer(HTML()),
		ResourceUnavailable: answer(Status(http.StatusServiceUnavailable)),
		ResourceHangs:       answer(Hang()),
	}
}

func (r *Resource) challengeFaults() map[ResourceFault]func() {
	lines := func(f func(right string) []string) func() {
		return func() { r.Challenge(func(_ int, right string) []string { return f(right) }) }
	}
	metadata := func(address string) func() {
		return lines(func(string) []string {
			return []string{fmt.Sprintf("Bearer resource_metadata=%q", address)}
		})
	}
	refuse := func(status int) func() {
		return func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.refusal = status
		}
	}
	return map[ResourceFault]func(){
		SeveralSchemes: lines(func(right string) []string {
			return []string{`Negotiate YIIabc==, Basic realm="a, b=\"c\"", ` + right +
				`, Digest realm="x", nonce="n"`}
		}),
		SeveralHeaders: lines(func(right string) []string {
			return []string{`Basic realm="x"`, right, "Negotiate"}
		}),
		QuotedCommas: lines(func(right string) []string {
			return []string{strings.Replace(right, "Bearer ",
				`bearer realm="a, Basic scope=\"x\", b" , , `, 1)}
		}),
		NoChallenge:       lines(func(string) []string { return nil }),
		BrokenChallenge:   lines(func(right string) []string { return []string{right + `, x="`} }),
		MetadataElsewhere: metadata("https://attacker.example" + r.opts.Location),
		MetadataLinkLocal: metadata("http://169.254.169.254" + r.opts.Location),
		MetadataScript:    metadata("javascript:alert(1)"),
		ForbiddenWithoutCode: lines(func(right string) []string {
			return []string{strings.Replace(right, `error="insufficient_scope", `, "", 1)}
		}),
		UnauthorizedForEver: refuse(http.StatusUnauthorized),
		InsufficientForEver: refuse(http.StatusForbidden),
	}
}
