//lint:file-ignore SA1019 sampling, roots and logging are deprecated, and supported for as long as they are

package gosdk

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// PrincipalOf is the default of [WithPrincipal]. Requests that came over HTTP
// are from the user of their bearer token, under the issuer that the token
// verifier left in Extra["iss"], if any; from nobody in particular without a
// token. All others belong to the one user of the process.
//
// A token without a user ID is anonymous: where a server tells its callers
// apart by something else, say so with [WithPrincipal].
func PrincipalOf(req mcp.Request) roundtrip.Principal {
	extra := req.GetExtra()
	if extra == nil || extra.Header == nil || extra.Header[localKey] != nil {
		return roundtrip.Local()
	}
	if extra.TokenInfo == nil || extra.TokenInfo.UserID == "" {
		return roundtrip.Principal{}
	}
	issuer, _ := extra.TokenInfo.Extra["iss"].(string)
	return roundtrip.Principal{Issuer: issuer, Subject: extra.TokenInfo.UserID}
}

// call is one request on its way through the funnel and back.
type call struct {
	roundtrip.Call
	adapter *adapter
	method  string
	request mcp.Request
	session *mcp.ServerSession // the client's
	next    mcp.MethodHandler
	client  *mcp.Implementation
	// said is what the client declared, as the SDK keeps it.
	said *mcp.ClientCapabilities

	// complete is what the handler answered, and placeholder what stands for it
	// in the funnel, which needs to know little of it.
	complete    mcp.Result
	placeholder protocol.Result
	// failure is the error that the SDK has made complete of, for a typed tool.
	failure error
	pushed  atomic.Bool // a question was put to a legacy client
	// misled says that the session is of an older revision and that the SDK
	// takes it for modern, since that is what the client asked for at first.
	misled bool
	// returns says that the handler returns its questions and that the SDK
	// would put them to a legacy client itself.
	returns bool
}

// newCall reads a request. An error is one of the client's.
func (a *adapter) newCall(method string, req mcp.Request, next mcp.MethodHandler) (*call, error) {
	c := &call{adapter: a, method: method, request: req, next: next}
	c.Method, c.Lossy = method, true
	c.Principal = a.principal(req)
	if extra := req.GetExtra(); extra != nil {
		c.Credential = extra.Header.Get("Authorization")
	}
	var answers mcp.InputResponseMap
	var state string
	switch r := req.(type) {
	case *mcp.CallToolRequest:
		c.Target, c.Arguments = r.Params.Name, r.Params.Arguments
		answers, state = r.Params.InputResponses, r.Params.RequestState
		c.session = r.Session
		c.describe(r.Params.Meta, r.ProtocolVersion(), r.ClientCapabilities(), r.ClientInfo())
	case *mcp.GetPromptRequest:
		c.Target = r.Params.Name
		if r.Params.Arguments != nil {
			c.Arguments, _ = json.Marshal(r.Params.Arguments) // a map of strings
		}
		answers, state = r.Params.InputResponses, r.Params.RequestState
		c.session = r.Session
		c.describe(r.Params.Meta, r.ProtocolVersion(), r.ClientCapabilities(), r.ClientInfo())
	case *mcp.ReadResourceRequest:
		c.Target = r.Params.URI
		answers, state = r.Params.InputResponses, r.Params.RequestState
		c.session = r.Session
		c.describe(r.Params.Meta, r.ProtocolVersion(), r.ClientCapabilities(), r.ClientInfo())
	default:
		return nil, fmt.Errorf("%s: the request is a %T", method, req)
	}
	if c.session == nil {
		return nil, fmt.Errorf("%s: the request has no session", method)
	}
	c.Session = c.session
	if retry, ok := asSent(method, req.GetExtra()); ok {
		c.Responses, c.State, c.Lossy = retry.InputResponses, retry.RequestState, false
		return c, nil
	}
	c.State = protocol.StateText(state)
	return c, c.read(answers)
}

// describe fills in what the client said of itself. A request that names a
// modern revision in its _meta is of that revision whatever the session is; in
// sessions the SDK keeps what the client asked for at first, which may be newer
// than what it was given.
func (c *call) describe(meta mcp.Meta, version string, said *mcp.ClientCapabilities, client *mcp.Implementation) {
	c.Version = protocol.Version(version)
	if namedRevision(meta) == "" && (c.Version == "" || c.Version.Era() != protocol.Legacy) {
		c.misled = c.Version != ""
		c.Version = protocol.V20251125
	}
	c.said, c.client = said, client
	c.Capabilities = capabilities(said)
	if c.Version.Era() == protocol.Legacy {
		c.Push = pusher{c}
	}
}

// namedRevision returns the revision that a request names in its _meta, as the
// SDK has decoded it; empty where it names none.
func namedRevision(meta mcp.Meta) string {
	named, _ := meta[protocol.MetaProtocolVersion].(string)
	return named
}

// inSession reports whether a request is of an older revision.
func inSession(req mcp.Request) bool {
	session, ok := req.GetSession().(*mcp.ServerSession)
	if !ok || session.InitializeParams() == nil {
		return false
	}
	params := req.GetParams()
	missing := params == nil || reflect.ValueOf(params).IsZero() // a nil pointer, mostly
	if !missing && namedRevision(params.GetMeta()) != "" {
		return false
	}
	return protocol.Version(session.InitializeParams().ProtocolVersion).Era() == protocol.Legacy
}

// read takes the answers over that the SDK has decoded. Their order is lost.
func (c *call) read(answers mcp.InputResponseMap) error {
	if answers == nil {
		return nil
	}
	c.Responses = make(protocol.InputResponses, 0, len(answers))
	for _, key := range slices.Sorted(maps.Keys(answers)) {
		raw, err := json.Marshal(answers[key])
		if err != nil {
			return protocol.Errorf(protocol.CodeInvalidParams, "inputResponses: the answer to %q cannot be read", key)
		}
		c.Responses = append(c.Responses, protocol.KeyedResponse{Key: key, Result: raw})
	}
	return nil
}

// capabilities reads what the SDK has decoded; encoding it would declare roots
// for everybody.
func capabilities(said *mcp.ClientCapabilities) (c protocol.ClientCapabilities) {
	if said == nil {
		return c
	}
	if e := said.Elicitation; e != nil {
		c.Elicitation = &protocol.ElicitationCapability{Form: e.Form != nil || e.URL == nil, URL: e.URL != nil}
	}
	if s := said.Sampling; s != nil {
		c.Sampling = &protocol.SamplingCapability{Context: s.Context != nil, Tools: s.Tools != nil}
	}
	if r := said.RootsV2; r != nil {
		c.Roots = &protocol.RootsCapability{ListChanged: r.ListChanged}
	}
	return c
}
