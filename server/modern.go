package server

import (
	"context"

	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
)

// Admit decodes and checks a request before dispatch: it must declare its version and capabilities,
// the version must be supported, and the method must exist and be offered. It never fails: an
// invalid request carries its refusal. req must come from [protocol.DecodeMessage].
func (s *Server) Admit(req *protocol.Request, d Delivery) *Admission {
	return s.admitRequest(req, &d, nil)
}

func (s *Server) admitRequest(
	req *protocol.Request, d *Delivery, malformed *protocol.Error,
) *Admission {
	a := newAdmission(s, modernEra{s}, req, d)
	request := &a.request
	request.Version = protocol.Latest
	request.Refuse(malformed)
	params, target, err := s.decodeParams(request.Message.Method, request.Message.Params)
	if err == nil {
		request.Params, request.Target = params, target
		request.Meta = params.RequestMetadata()
		request.boundMeta(request.Meta)
		request.Refuse(s.checkRequest(request.Message.Method, request.Meta))
		return a
	}
	// The version may explain an unreadable request. The parameters of discover are only _meta.
	meta, metaErr := protocol.DecodeParams(protocol.MethodDiscover, request.Message.Params)
	if metaErr != nil && request.Message.Method != protocol.MethodInitialize {
		request.Meta = &protocol.RequestMeta{}
		request.Refuse(rules.PublicError(metaErr))
		return a
	}
	request.Meta = meta.RequestMetadata()
	request.Refuse(s.checkRequest(request.Message.Method, request.Meta))
	request.Refuse(rules.PublicError(err))
	return a
}

// checkRequest returns the reason not to dispatch a request, or nil. initialize, which has no
// version in _meta, comes first, then the version, which defines methods and keys.
func (s *Server) checkRequest(method string, meta *protocol.RequestMeta) *protocol.Error {
	switch {
	case method == protocol.MethodInitialize:
		return refuseInitialize()
	case meta.Version == "":
		return protocol.Errorf(protocol.CodeInvalidParams,
			"invalid params: _meta: %s: must be present", protocol.MetaProtocolVersion)
	case meta.Version != protocol.V20260728:
		return protocol.UnsupportedVersion(string(meta.Version), rules.ModernRevisions())
	case !s.offersMethod(method) && s.extensionMethod(method) == nil:
		return protocol.Errorf(protocol.CodeMethodNotFound, "method not found: %s",
			clipQuoted(method))
	case meta.Capabilities == nil:
		return protocol.Errorf(protocol.CodeInvalidParams,
			"invalid params: _meta: %s: must be present", protocol.MetaClientCapabilities)
	}
	return nil
}

// refuseInitialize refuses a legacy client where there are no sessions (basic/versioning).
func refuseInitialize() *protocol.Error {
	e := protocol.Errorf(protocol.CodeMethodNotFound,
		"method not found: initialize; this server supports %v", rules.ModernRevisions())
	return e.WithData(struct {
		Supported []protocol.Version `json:"supported"`
	}{rules.ModernRevisions()})
}

// modernEra is the era of revision 2026-07-28: independent requests that return their questions.
type modernEra struct{ server *Server }

func (modernEra) beginRequest(*Admission) {}

func (modernEra) endRequest(*Admission, protocol.ID) {}

// isAbandoned is false: transports notice by themselves that a client is gone.
func (modernEra) isAbandoned(*Admission) bool { return false }

func (modernEra) newPusher(*Request) *pusher { return nil }

func (modernEra) sessionKey() any { return nil }

func (m modernEra) answerOwnMethod(
	ctx context.Context, request *Request,
) (protocol.Result, error, bool) {
	switch p := request.Params.(type) {
	case *protocol.RequestMeta:
		if request.Message.Method == protocol.MethodDiscover {
			return m.server.answerDiscover(request), nil, true
		}
	case *protocol.ListenParams:
		result, err := m.server.answerListen(ctx, request, p)
		return result, err, true
	}
	return nil, nil, false
}

func (modernEra) logLevel(meta *protocol.RequestMeta) protocol.LoggingLevel { return meta.LogLevel }

func (modernEra) hasParamHeaders() bool { return true }

func (modernEra) refuseCapabilities(missing protocol.ClientCapabilities) error {
	return protocol.MissingCapabilities(missing)
}

func (modernEra) refuseTool(err error) (protocol.Result, error) { return nil, err }

func (modernEra) namesServer() bool { return true }

func (modernEra) sendNow(context.Context, protocol.Message) error { return ErrEnded }

func (modernEra) spellError(_ context.Context, _ *Request, e *protocol.Error) *protocol.Error {
	return e
}

func (modernEra) revertFailedOpen(*Request, error) {}
