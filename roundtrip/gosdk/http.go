package gosdk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
	"github.com/rondo-mcp/rondo/internal/wire/revision"
	"github.com/rondo-mcp/rondo/protocol"
)

// Handler returns a handler that serves both eras of the protocol on one URL. It takes what
// [mcp.NewStreamableHTTPHandler] takes, and replaces it:
//
//	h, err := a.Handler(func(*http.Request) *mcp.Server { return server }, nil)
//
// The SDK's own handler serves one era: with sessions it refuses clients of revision
// 2026-07-28, without them it cannot push questions to the others. Handler has one of each
// and chooses for every request. A request is modern when its _meta names a revision, or its
// MCP-Protocol-Version header one that is modern or unknown. All others are of older
// revisions.
//
// GetServer returns the server for a request, and nil where there is none, which is answered
// as by the SDK. It is called at most once a request, may return a new server each time, and
// calls may overlap. The adapter is installed on what it returns. A panic of it, or of the
// server's GetSessionID, is reported and answered with an internal error. A panic of an
// EventStore is reported, too, and is to the SDK an error that the store returned.
//
// Opts mean what they mean to the SDK; nil means the SDK's defaults. With Stateless, requests
// of older revisions have no session: a handler that asks gets an error that says so, and all
// other calls are served as ever. Replicas then need no more than a shared key. Without
// Stateless, JSONResponse applies to the responses of older revisions as long as the call
// sends nothing else; questions and progress need a stream. Handler fails where an option
// cannot be honored, and where it does not know one that is set, and names it.
//
// A client that accepts one of the two media types alone gets responses of that type. Of a
// call that is answered with JSON alone nothing but the response is sent, and in a session
// its questions go out on the client's open GET stream. Without one the call is refused with
// the reason before anybody is asked.
//
// Answers and states are decoded strictly, from the bytes that the client sent: a
// repeated member fails the request, names are case-sensitive, an answer is decoded by
// the kind of its question, and one that does not decode is dropped.
func (a *Adapter) Handler(getServer func(*http.Request) *mcp.Server,
	opts *mcp.StreamableHTTPOptions) (http.Handler, error) {
	if getServer == nil {
		return nil, errors.New("gosdk: Handler: getServer is nil")
	}
	var o mcp.StreamableHTTPOptions
	if opts != nil {
		o = *opts
	}
	if err := a.checkHandlerOptions(&o); err != nil {
		return nil, fmt.Errorf("gosdk: Handler: %w", err)
	}
	if o.MaxRequestBodyBytes == 0 {
		o.MaxRequestBodyBytes = mcp.DefaultMaxRequestBodyBytes
	}
	h := &httpHandler{adapter: a, getServer: getServer, stateless: o.Stateless,
		maxBody: o.MaxRequestBodyBytes}
	if o.EventStore != nil {
		o.EventStore = &eventStore{o.EventStore, a}
	}
	modern, legacy := o, o
	modern.Stateless = true
	h.modern = a.endpoint.Wrap(mcp.NewStreamableHTTPHandler(h.findServer, &modern), false)
	if o.Stateless {
		h.legacy = h.modern
		a.warnOfEphemeralKey(o.Logger)
		return h, nil
	}
	legacy.JSONResponse = false
	h.legacy = a.endpoint.Wrap(mcp.NewStreamableHTTPHandler(h.findServer, &legacy),
		o.JSONResponse)
	h.legacy = a.forwarder.Wrap(h.legacy,
		hophttp.WrapOptions{MaxBody: o.MaxRequestBodyBytes, Observer: a.opts.Observer})
	return h, nil
}

// AnswerChallenges returns a handler that answers the challenges by which other replicas
// make sure of this one, and leaves all else to next. It goes around the handler that
// authenticates, which goes around [Adapter.Handler].
func (a *Adapter) AnswerChallenges(next http.Handler) http.Handler {
	return a.forwarder.AnswerChallenges(next)
}

type httpHandler struct {
	adapter        *Adapter
	getServer      func(*http.Request) *mcp.Server
	modern, legacy http.Handler
	stateless      bool  // older revisions have no sessions
	maxBody        int64 // negative: no limit
}

// versionHeader names the revision of a request.
const versionHeader = "MCP-Protocol-Version"

// ServeHTTP serves one request.
func (h *httpHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hideHeaders(r.Header) // net/http refuses such names; other servers may not
	r = r.Clone(context.WithValue(r.Context(), foundServerKey{}, &foundServer{}))
	defer h.answerPanic(r.Context(), w)
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
	if modern || err == nil && req != nil && revision.IsNamedIn(req.Params) {
		if err == nil {
			body, err = rewriteModern(r.Header, body, req)
		}
		if err != nil {
			writeError(w, req, err)
			return
		}
		modern = true
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	h.serveEra(w, r, modern)
}

// rewriteModern returns the body without answers and state, which header gets. Req is nil
// where body is no request. The error is sent to the client.
func rewriteModern(header http.Header, body []byte, req *protocol.Request) ([]byte, error) {
	if req == nil || !protocol.MultiRoundTrip(req.Method) {
		return body, nil
	}
	params, text, refused := extractRetry(req.Method, req.Params)
	if refused != nil {
		return nil, refused
	}
	header[retryHeader] = []string{text}
	return protocol.AppendMessage(nil,
		&protocol.Request{ID: req.ID, Method: req.Method, Params: params})
}

func (h *httpHandler) serveEra(w http.ResponseWriter, r *http.Request, modern bool) {
	if modern {
		h.modern.ServeHTTP(w, r)
		return
	}
	if h.stateless {
		r.Header[statelessHeader] = []string{""}
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
	if long, ok := errors.AsType[*http.MaxBytesError](err); ok { // in the SDK's words
		http.Error(w, fmt.Sprintf("request body exceeds %d bytes", long.Limit),
			http.StatusRequestEntityTooLarge)
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
	writeStatus(w, http.StatusBadRequest, req, e)
}

// writeStatus answers with a JSON-RPC error. Req is nil where it could not be read.
func writeStatus(w http.ResponseWriter, status int, req *protocol.Request, e *protocol.Error) {
	response := &protocol.Response{Error: e}
	if req != nil {
		response.ID = req.ID
	}
	text, err := protocol.AppendMessage(nil, response)
	if err != nil {
		http.Error(w, "the request cannot be read", status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}
