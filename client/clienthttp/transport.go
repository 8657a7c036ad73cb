package clienthttp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"sync"

	"github.com/rondo-mcp/rondo/internal/wire/authhttp"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Transport is a [protocol.Peer] over Streamable HTTP, one POST per message. Calls may overlap.
type Transport struct {
	endpoint      *url.URL
	client        http.Client
	ownTransport  *http.Transport // nil when Options.HTTPClient is set
	fixedHeader   http.Header     // Options.Header
	authorizer    Authorizer      // may be nil
	maxBytes      int64           // of one message
	shownEndpoint *url.URL        // copy of endpoint for the authorizer

	life    context.Context // cancelled by Close, and with it every request
	endLife context.CancelCauseFunc
	mu      sync.Mutex     // orders endLife after running.Add
	running sync.WaitGroup // requests whose connection is in use
}

var _ protocol.LegacyPeer = (*Transport)(nil)

// New returns a transport to endpoint, an absolute http or https URL. Nothing is sent before the
// first message. opts may be nil.
func New(endpoint string, opts *Options) (*Transport, error) {
	u, err := parseEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	shown := *u
	opts = cmp.Or(opts, &Options{})
	t := &Transport{endpoint: u, shownEndpoint: &shown, authorizer: opts.Authorizer,
		maxBytes:    cmp.Or(opts.MaxResponseBytes, defaultMaxResponseBytes),
		fixedHeader: canonicalHeader(opts.Header)}
	if t.maxBytes < 0 {
		t.maxBytes = math.MaxInt64 / 2 // the sum of two limits must not overflow
	}
	if opts.HTTPClient != nil {
		t.client = *opts.HTTPClient
	} else {
		t.ownTransport = authhttp.CloneTransport()
		t.ownTransport.MaxIdleConnsPerHost = 32
		t.client.Transport = t.ownTransport
	}
	// A redirect would send credentials and arguments to any host.
	t.client.CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}
	t.life, t.endLife = context.WithCancelCause(context.Background())
	return t, nil
}

// ServerURL returns the endpoint without its query, which may hold secrets.
func (t *Transport) ServerURL() string {
	shown := *t.endpoint
	shown.RawQuery, shown.Fragment, shown.User = "", "", nil
	return shown.String()
}

// Handle posts a request and returns the response. Earlier notifications on the stream go to back,
// which may be nil, in order. When ctx ends the stream is closed, which tells the server to stop
// (basic/transports/streamable-http, "Cancellation"). An error message of the protocol is a
// response, whatever the HTTP status, with the exceptions of [StatusError].
func (t *Transport) Handle(ctx context.Context, req *protocol.Request,
	back protocol.Back) (*protocol.Response, error) {
	x, err := t.postMessage(ctx, req, &req.Mirror)
	if err != nil {
		return nil, err
	}
	resp, err := x.readResponse(req.ID, back)
	if err = x.closeWith(err); err != nil {
		return nil, err
	}
	return resp, nil
}

// Probe implements [protocol.LegacyPeer]. A server is legacy if it sends an error body of no modern
// revision with a 4xx status about the request itself or with status 200, or a request on the
// stream (basic/transports/streamable-http, "Backward Compatibility").
func (t *Transport) Probe(ctx context.Context,
	req *protocol.Request) (*protocol.Response, bool, error) {
	x, err := t.postMessage(ctx, req, &req.Mirror)
	if err != nil {
		return nil, false, err
	}
	status := x.resp.StatusCode
	resp, err := x.readResponse(req.ID, nil)
	if err = x.closeWith(err); err != nil {
		return nil, ctx.Err() == nil &&
			(isRequestFault(status) || errors.Is(err, errServerRequest)), err
	}
	if resp.Error == nil || rules.ProvesModern(resp.Error) {
		return resp, false, nil
	}
	return resp, status == http.StatusOK || isRequestFault(status), nil
}

// isRequestFault reports a 4xx status that is not about credentials or timing.
func isRequestFault(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden,
		http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status < 500
}

// Notify posts a notification.
func (t *Transport) Notify(ctx context.Context, n *protocol.Notification) error {
	x, err := t.postMessage(ctx, n, &protocol.Mirror{})
	if err != nil {
		return err
	}
	return x.closeWith(x.checkAccepted())
}

// Close cancels every running request and waits for its connection. Later requests fail.
func (t *Transport) Close() error {
	t.mu.Lock()
	t.endLife(errClosed)
	t.mu.Unlock()
	t.running.Wait()
	if t.ownTransport != nil {
		t.ownTransport.CloseIdleConnections()
	}
	return nil
}

// postMessage sends one message and returns when the response header has arrived.
func (t *Transport) postMessage(ctx context.Context, m protocol.Message,
	mirror *protocol.Mirror) (*httpExchange, error) {
	o := outgoingOf(m)
	header, err := t.buildHeader(o.RPC, mirror)
	if err != nil {
		return nil, err
	}
	body, err := protocol.AppendMessage(nil, m)
	if err != nil {
		return nil, errPrefix.Errorf("%w", err)
	}
	x, err := t.sendRequest(ctx, o, header, body)
	return x, withoutEffect(err)
}

func withoutEffect(err error) error {
	if e, ok := errors.AsType[*net.OpError](err); ok && (e.Op == "dial" || e.Op == "proxyconnect") {
		return fmt.Errorf("%w: %w", err, protocol.ErrNotRun)
	}
	return err
}

// sendHTTP returns when the response header has arrived. The caller must end the exchange.
func (t *Transport) sendHTTP(ctx context.Context, method string, header http.Header,
	body []byte) (*httpExchange, error) {
	t.mu.Lock()
	if t.life.Err() != nil {
		t.mu.Unlock()
		return nil, errClosed
	}
	t.running.Add(1)
	t.mu.Unlock()
	x := &httpExchange{transport: t}
	// The context is linked to the caller's by hand: closeWith cuts the link after the response,
	// while it reads the rest of the stream.
	x.ctx, x.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	x.unlinkCaller = context.AfterFunc(ctx, func() { x.cancel(context.Cause(ctx)) })
	x.unlinkLife = context.AfterFunc(t.life, func() { x.cancel(errClosed) })
	// http.NewRequest would parse the URL again. GetBody lets net/http retry on a closed idle
	// connection.
	hr := &http.Request{
		Method: method,
		URL:    t.endpoint,
		Host:   t.endpoint.Host,
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header,
	}
	if body != nil {
		hr.Body = io.NopCloser(bytes.NewReader(body))
		hr.GetBody = func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(body)), nil
		}
		hr.ContentLength = int64(len(body))
	}
	var err error
	x.resp, err = t.client.Do(hr.WithContext(x.ctx))
	if err != nil {
		// *url.Error repeats the URL, whose query may hold a secret.
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err
		}
		err = errPrefix.Errorf("%w", x.explainError(err))
		x.releaseAll()
		return nil, err
	}
	return x, nil
}
