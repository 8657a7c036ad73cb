//lint:file-ignore SA1019 sampling, roots and logging are deprecated, but supported

package gosdk

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/wire/accepthttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// PrincipalOf is the default of [Options].Principal. The principal of an HTTP request is
// the user of its bearer token, under the issuer that the token verifier left in
// Extra["iss"], if any; a request without a token is anonymous. On other transports
// the caller is [protocol.LocalPrincipal].
//
// A token without a user ID is anonymous, too. States of an anonymous caller are bound to
// its Authorization header if there is one: a retry with another token is refused, and a
// renewed token is another one. Servers whose callers renew their tokens while a person
// thinks, and servers that identify callers in another way, set [Options].Principal.
func PrincipalOf(req mcp.Request) protocol.Principal {
	extra := req.GetExtra()
	if extra == nil || extra.Header == nil || extra.Header[streamHeader] != nil {
		return protocol.LocalPrincipal()
	}
	if extra.TokenInfo == nil || extra.TokenInfo.UserID == "" {
		return protocol.Principal{}
	}
	issuer, _ := extra.TokenInfo.Extra["iss"].(string)
	return protocol.Principal{Issuer: issuer, Subject: extra.TokenInfo.UserID}
}

// call is one request that can have rounds, from its arrival to its response. Its
// fields are set by newCall, but for those that a run of the handler sets; runs of one
// call do not overlap.
type call struct {
	roundtrip.Call
	adapter *Adapter
	server  *mcp.Server
	method  string
	request mcp.Request
	session *mcp.ServerSession // the client's
	next    mcp.MethodHandler
	client  clientOf // the request, as the SDK decodes it
	meta    mcp.Meta
	// readByAdapter is set where [Adapter.Handler] or [Adapter.Transport] has read answers
	// and state before the SDK.
	readByAdapter bool

	// takesJSONAlone is set where nothing but the response can be sent in response to the call.
	takesJSONAlone bool

	// complete is the handler's complete result. The funnel gets placeholder in its
	// place: a result without content, since the funnel looks at nothing but IsError.
	complete    mcp.Result
	placeholder protocol.Result
	// toolError is the error of a typed tool from which the SDK made complete.
	toolError error
	// plainError is the error without a code that the last run of the handler returned.
	plainError error
	// askedByPush is set once a question was pushed to a legacy client. Pushes of one
	// run may overlap.
	askedByPush atomic.Bool
	// sdkSaysModern is set where the session is of a legacy revision and the SDK treats
	// it as modern, because the client proposed a modern revision in initialize.
	sdkSaysModern bool
	// returnsQuestions is set once the SDK's bridge was stopped: the handler returns its
	// questions, and is run behind a modern shadow session from then on.
	returnsQuestions bool
}

// principalOf returns the principal of a request.
func (a *Adapter) principalOf(req mcp.Request) protocol.Principal {
	if a.opts.Principal != nil {
		return a.opts.Principal(req)
	}
	return PrincipalOf(req)
}

// newCall reads a request. Its errors are the client's mistakes.
func (a *Adapter) newCall(method string, req mcp.Request, next mcp.MethodHandler) (*call, error) {
	c := &call{adapter: a, method: method, request: req, next: next}
	c.Method, c.EmptyStateIsAbsent = method, true
	c.Principal, c.Authenticates = a.principalOf(req), a.opts.Principal != nil
	if extra := req.GetExtra(); extra != nil {
		c.Credential = extra.Header.Get("Authorization")
		c.takesJSONAlone = !accepthttp.AdmitsEvents(extra.Header)
	}
	var answers mcp.InputResponseMap
	var state string
	switch r := req.(type) {
	case *mcp.CallToolRequest:
		c.Target, c.Arguments = r.Params.Name, r.Params.Arguments
		answers, state = r.Params.InputResponses, r.Params.RequestState
		c.session = r.Session
		c.client, c.meta = r, r.Params.Meta
	case *mcp.GetPromptRequest:
		c.Target = r.Params.Name
		if r.Params.Arguments != nil {
			c.Arguments, _ = json.Marshal(r.Params.Arguments) // a map of strings
		}
		answers, state = r.Params.InputResponses, r.Params.RequestState
		c.session = r.Session
		c.client, c.meta = r, r.Params.Meta
	case *mcp.ReadResourceRequest:
		c.Target = r.Params.URI
		answers, state = r.Params.InputResponses, r.Params.RequestState
		c.session = r.Session
		c.client, c.meta = r, r.Params.Meta
	default:
		return nil, fmt.Errorf("%s: the request is a %T", method, req)
	}
	if c.session == nil {
		return nil, fmt.Errorf("%s: the request has no session", method)
	}
	if len(c.meta) > 1 { // more than a progress token
		encoded, _ := json.Marshal(c.meta)
		c.KeptBytes = int32(len(encoded))
	}
	c.Session = roundtrip.SessionKeyOf(c.session)
	if strict, retry, ok := readParams(method, req.GetExtra()); ok {
		c.readByAdapter, c.EmptyStateIsAbsent = true, false
		c.Responses, c.State = retry.InputResponses, retry.RequestState
		c.readClient(strict.Capabilities)
		return c, nil
	}
	c.readClient(nil)
	c.State = protocol.StateText(state)
	return c, c.readAnswers(answers)
}

// clientOf is what the SDK's requests tell of the client. The SDK decodes the last two anew
// in each call.
type clientOf interface {
	ProtocolVersion() string
	ClientCapabilities() *mcp.ClientCapabilities
	ClientInfo() *mcp.Implementation
}

// readClient sets the revision and the capabilities. A request that names a modern
// revision in its _meta is of that revision, whatever its session. For sessions the SDK
// reports the revision that the client proposed, which may be newer than the one that
// was negotiated. Declared are the capabilities in the _meta of a request that the adapter
// has read, nil for others.
func (c *call) readClient(declared *protocol.ClientCapabilities) {
	c.Version = protocol.Version(c.client.ProtocolVersion())
	if namedRevision(c.meta) == "" && (c.Version == "" || c.Version.Era() != protocol.Legacy) {
		c.sdkSaysModern = c.Version != ""
		c.Version = protocol.V20251125
	}
	if declared != nil {
		c.Capabilities = *declared
	} else {
		c.Capabilities = decodeCapabilities(c.client.ClientCapabilities())
	}
	if c.Version.Era() == protocol.Legacy && c.canPush() {
		c.Push = pusher{c}
	}
}

// canPush reports whether the SDK can send requests to the client: over HTTP it takes a
// session, which has an id.
func (c *call) canPush() bool {
	extra := c.request.GetExtra()
	overHTTP := extra != nil && extra.Header != nil && extra.Header[streamHeader] == nil
	if !overHTTP {
		return true
	}
	return c.session != nil && c.session.ID() != "" && extra.Header[statelessHeader] == nil
}

// namedRevision returns the revision that a request names in its _meta, as the
// SDK has decoded it; empty where it names none.
func namedRevision(meta mcp.Meta) string {
	named, _ := meta[protocol.MetaProtocolVersion].(string)
	return named
}

// isLegacySession reports whether a request is of a legacy revision.
func isLegacySession(req mcp.Request) bool {
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

// readAnswers encodes the answers that the SDK decoded, in the order of their keys: the
// order in which they were sent is lost.
func (c *call) readAnswers(answers mcp.InputResponseMap) error {
	if answers == nil {
		return nil
	}
	c.Responses = make(protocol.InputResponses, 0, len(answers))
	for _, key := range slices.Sorted(maps.Keys(answers)) {
		raw, err := json.Marshal(answers[key])
		if err != nil {
			return protocol.Errorf(protocol.CodeInvalidParams,
				"inputResponses: the answer to %q cannot be read", key)
		}
		c.Responses = append(c.Responses, protocol.KeyedResponse{Key: key, Result: raw})
	}
	return nil
}

// decodeCapabilities converts member by member. Through JSON every client would declare
// roots, because the SDK's encoding always has them.
func decodeCapabilities(said *mcp.ClientCapabilities) (c protocol.ClientCapabilities) {
	if said == nil {
		return c
	}
	if e := said.Elicitation; e != nil {
		c.Elicitation = &protocol.ElicitationCapability{Form: e.Form != nil || e.URL == nil,
			URL: e.URL != nil}
	}
	if s := said.Sampling; s != nil {
		c.Sampling = &protocol.SamplingCapability{Context: s.Context != nil, Tools: s.Tools != nil}
	}
	if r := said.RootsV2; r != nil {
		c.Roots = &protocol.RootsCapability{ListChanged: r.ListChanged}
	}
	return c
}
