package gosdk

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/revision"
	"github.com/rondo-mcp/rondo/protocol"
)

// Handler serves both eras of the protocol on one URL. The SDK's own handler serves one: with
// sessions it refuses clients of revision 2026-07-28, without them it cannot push questions to the
// others. Handler has one of each and chooses for every request. A request is modern when its _meta
// names a revision, or its MCP-Protocol-Version header one that is modern or unknown. All others
// belong to a session.
//
// Opts configure both handlers; nil means the SDK's defaults. Stateless is ignored, and
// JSONResponse applies to modern clients only, since pushed questions need a stream.
//
// Answers and states are decoded strictly, from the bytes that the client sent: a
// repeated member fails the request, names are case-sensitive, an answer is decoded by
// the kind of its question, and one that does not decode is dropped.
func (a *Adapter) Handler(opts *mcp.StreamableHTTPOptions) http.Handler {
	var o mcp.StreamableHTTPOptions
	if opts != nil {
		o = *opts
	}
	if o.MaxRequestBodyBytes == 0 {
		o.MaxRequestBodyBytes = mcp.DefaultMaxRequestBodyBytes
	}
	get := func(*http.Request) *mcp.Server { return a.server }
	modern, legacy := o, o
	modern.Stateless, legacy.Stateless, legacy.JSONResponse = true, false, false
	return &httpHandler{
		modern: mcp.NewStreamableHTTPHandler(get, &modern),
		legacy: a.forwardSessions(mcp.NewStreamableHTTPHandler(get, &legacy),
			o.MaxRequestBodyBytes),
		maxBody: o.MaxRequestBodyBytes,
	}
}

type httpHandler struct {
	modern, legacy http.Handler
	maxBody        int64 // negative: no limit
}

// versionHeader names the revision of a request.
const versionHeader = "MCP-Protocol-Version"

// ServeHTTP serves one request.
func (h *httpHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, key := range []string{retryHeader, streamHeader} {
		delete(r.Header, key) // net/http refuses such names; other servers may not
	}
	named := protocol.Version(r.Header.Get(versionHeader))
	modern := named != "" && (!named.Known() || named.Era() == protocol.Modern)
	if r.Method != http.MethodPost || r.Body == nil {
		h.serveEra(w, r, modern)
		return
	}
	body, err := h.readBody(w, r)
	if err != nil {
		return
	}
	message, err := protocol.DecodeMessage(body)
	req, _ := message.(*protocol.Request)
	modern = modern || err == nil && req != nil && revision.IsNamedIn(req.Params)
	r = r.Clone(r.Context())
	switch {
	case !modern:
	case err != nil:
		writeError(w, req, err)
		return
	case req != nil && protocol.MultiRoundTrip(req.Method):
		params, text, refused := extractRetry(req.Method, req.Params)
		if refused != nil {
			writeError(w, req, refused)
			return
		}
		if body, err = protocol.AppendMessage(nil,
			&protocol.Request{ID: req.ID, Method: req.Method, Params: params}); err != nil {
			writeError(w, req, err)
			return
		}
		r.Header[retryHeader] = []string{text}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	h.serveEra(w, r, modern)
}

func (h *httpHandler) serveEra(w http.ResponseWriter, r *http.Request, modern bool) {
	if modern {
		h.modern.ServeHTTP(w, r)
		return
	}
	h.legacy.ServeHTTP(w, r)
}

// readBody reads the body. Where it fails it has answered the request.
func (h *httpHandler) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	limited := r.Body
	if h.maxBody > 0 {
		limited = http.MaxBytesReader(w, r.Body, h.maxBody)
	}
	body, err := io.ReadAll(limited)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		http.Error(w, "the request body is too large", http.StatusRequestEntityTooLarge)
	} else if err != nil {
		http.Error(w, "the request body cannot be read", http.StatusBadRequest)
	}
	return body, err
}

// writeError answers with a JSON-RPC error and the status 400, as the SDK does for
// requests that it cannot read.
func writeError(w http.ResponseWriter, req *protocol.Request, err error) {
	e, ok := protocol.AsError(err)
	if !ok {
		e = protocol.Errorf(protocol.CodeInvalidRequest, "%v", err)
	}
	response := &protocol.Response{Error: e}
	if req != nil {
		response.ID = req.ID
	}
	text, err := protocol.AppendMessage(nil, response)
	if err != nil {
		http.Error(w, "the request cannot be read", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write(text)
}
