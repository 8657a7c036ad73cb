package replicahttp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/rondo-mcp/rondo/internal/replica"
)

// HeaderSession carries the id of a session.
const HeaderSession = "Mcp-Session-Id"

var (
	// ErrOwnerGone: the owner has surely not received the request, and cannot.
	ErrOwnerGone = errors.New("the replica that owns the session is gone")
	// ErrOutcomeUnknown: the owner may have received the request, and its response, or
	// whether there will be one, is not known.
	ErrOutcomeUnknown = errors.New("the replica that owns the session did not answer")
	// ErrUnreachable: the owner has surely not received the request. It may be alive.
	ErrUnreachable = errors.New("the replica that owns the session cannot be reached")
)

// A Result says what became of a request that was to be passed on.
type Result struct {
	// Status is that of the owner's response, which was sent to the client; 0: there was
	// none, and nothing was sent.
	Status int
	// Err wraps one of the errors above, or is the cause of the end of the context: that of
	// a request that was not sent, or of a GET. Nil when Status is not 0.
	Err error
}

// Forward passes r on to the owner of the session that it names, with body in the place of
// its own, and the response to w. It panics with [http.ErrAbortHandler] when the owner
// breaks off in the middle of its response, so that half of one does not look like all of
// it. done is called once, on the same goroutine, before Forward returns or panics.
func (f *Forwarder) Forward(w http.ResponseWriter, r *http.Request, owner replica.Owner,
	body []byte, done func(Result)) {
	var result Result
	defer func() { done(result) }()
	c, err := f.openChannel(r.Context(), owner)
	if err != nil {
		result.Err = f.classifyUnsent(r.Context(), err)
		return
	}
	ctx, cut := context.WithCancelCause(r.Context())
	defer cut(nil)
	hop := &hop{forwarder: f, arrived: r.WithContext(ctx), owner: owner, channel: c, body: body,
		peer: c.peer, began: time.Now(), cut: cut}
	f.mu.Lock()
	hop.watch = time.AfterFunc(watchInterval, hop.watchOwner)
	f.mu.Unlock()
	defer hop.watch.Stop()
	pool := &buffers{}
	proxy := &httputil.ReverseProxy{
		Rewrite: hop.rewriteRequest, Transport: hop, FlushInterval: -1, BufferPool: pool,
		ErrorLog: log.New(io.Discard, "", 0), // done is told
		ModifyResponse: func(response *http.Response) error {
			result.Status = response.StatusCode
			response.Body = watchedBody{response.Body, hop}
			pool.small = response.Header.Get("Content-Type") == "text/event-stream"
			header := w.Header()
			for key := range response.Header { // what the owner says replaces what is there
				delete(header, key)
			}
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { result.Err = err },
	}
	proxy.ServeHTTP(w, hop.arrived)
}

// classifyUnsent says what a failure before the request was sent means.
func (f *Forwarder) classifyUnsent(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, ErrOwnerGone) {
		return err // remembered by dropChannel
	}
	if _, ok := errors.AsType[*UnreachableError](err); ok {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return fmt.Errorf("%w: %w", ErrOwnerGone, err)
}

// A hop is one request on its way to the owner. It is the transport of its reverse proxy,
// which calls rewriteRequest and then RoundTrip, on the goroutine of the request.
type hop struct {
	forwarder *Forwarder
	arrived   *http.Request
	owner     replica.Owner
	channel   *channel
	body      []byte
	peer      *peer
	began     time.Time
	watch     *time.Timer             // runs watchOwner
	cut       context.CancelCauseFunc // ends the request because the owner is silent
}

// rewriteRequest prepares the request that is sent. It has the headers that arrived: the owner
// authenticates by them and holds the body against them. The client does not choose by
// Connection which of them go missing, and those that proxies have set are kept.
func (h *hop) rewriteRequest(p *httputil.ProxyRequest) {
	p.Out.Header = p.In.Header.Clone()
	for _, key := range [...]string{"Connection", "Proxy-Connection", "Keep-Alive",
		"Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding",
		"Upgrade", "Expect", headerChallenge, headerHop, headerProof, headerReply} {
		delete(p.Out.Header, key)
	}
	p.Out.Host, p.Out.Trailer = p.In.Host, nil
}

// RoundTrip sends the request. Where the owner does not accept the channel it has not
// served the request, which is then sent once more on another. So is a GET whose owner did not
// answer: it does nothing that could be done twice.
func (h *hop) RoundTrip(r *http.Request) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		response, verdict, err := h.sendOnce(r)
		switch {
		case errors.Is(err, ErrOutcomeUnknown) && r.Method == http.MethodGet && attempt == 1:
			// The channel has been dropped.
		case err != nil:
			return nil, err
		case verdict == replica.Taken:
			return response, nil
		default:
			response.Body.Close()
			h.forwarder.dropChannel(h.owner, h.channel, nil)
			if verdict == replica.Misdirected || attempt == 2 {
				return nil, fmt.Errorf("%w: it refused the request", ErrOwnerGone)
			}
		}
		if h.channel, err = h.forwarder.openChannel(r.Context(), h.owner); err != nil {
			return nil, h.forwarder.classifyUnsent(r.Context(), err)
		}
	}
}

// sendOnce sends the request on the channel and reads the head of the response. The error
// wraps one of the errors of this file, or is the cause of the end of the context.
func (h *hop) sendOnce(request *http.Request) (*http.Response, replica.Verdict, error) {
	sequence := h.channel.last.Add(1)
	token, err := h.forwarder.codec.SealHop(&replica.Hop{
		Channel: h.channel.id, Sequence: sequence,
		Method: request.Method, RemoteAddr: h.arrived.RemoteAddr,
		Session: sha256.Sum256([]byte(request.Header.Get(HeaderSession))),
		Body:    sha256.Sum256(h.body),
	})
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrOwnerGone, err)
	}
	connections := 0 // that were ready to be written to
	sent := request.Clone(httptrace.WithClientTrace(request.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connections++ },
	}))
	sent.URL = h.targetURL(request.URL)
	h.setBody(sent)
	sent.Header[headerHop] = []string{token}
	response, err := h.forwarder.transport.RoundTrip(sent)
	if err != nil {
		return nil, 0, h.classifyFailure(request.Context(), connections > 0, err)
	}
	reply, ok := h.forwarder.codec.OpenReply(response.Header.Get(headerReply))
	delete(response.Header, headerReply)
	if !ok || reply.Channel != h.channel.id || reply.Sequence != sequence {
		response.Body.Close()
		err = fmt.Errorf("%w: who answered at its address, with status %d, is another",
			ErrOutcomeUnknown, response.StatusCode)
		h.forwarder.dropChannel(h.owner, h.channel, nil)
		return nil, 0, err
	}
	if reply.Verdict == replica.StaleChannel && connections > 1 &&
		request.Method != http.MethodGet {
		// The transport has sent the request again, as it does with an Idempotency-Key of
		// the client: the owner may have served it the first time.
		response.Body.Close()
		return nil, 0, fmt.Errorf("%w: the request was sent twice", ErrOutcomeUnknown)
	}
	return response, reply.Verdict, nil
}

// classifyFailure says what it means that there is no response.
func (h *hop) classifyFailure(ctx context.Context, connected bool, err error) error {
	switch {
	case ctx.Err() != nil && (!connected || h.arrived.Method == http.MethodGet):
		return context.Cause(ctx) // a GET does nothing that could be done twice
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, context.Cause(ctx))
	case connected:
		h.forwarder.dropChannel(h.owner, h.channel, nil)
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	err = fmt.Errorf("%w: %w", ErrOwnerGone, err)
	h.forwarder.dropChannel(h.owner, h.channel, err)
	return err
}

// targetURL is the URL of the owner, with the query of the client, by which a hook may
// authenticate.
func (h *hop) targetURL(asked *url.URL) *url.URL {
	u := *h.channel.url
	u.RawQuery, u.ForceQuery = asked.RawQuery, false
	return &u
}

func (h *hop) setBody(r *http.Request) {
	r.ContentLength, r.TransferEncoding = int64(len(h.body)), nil
	if len(h.body) == 0 {
		r.Body, r.GetBody = http.NoBody, nil
		return
	}
	r.GetBody = func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(h.body)), nil
	}
	r.Body, _ = r.GetBody()
}
