package hophttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// Forward sends r, with body instead of its own, to the owner of its session, and copies the
// response to w. If the event has no status, nothing was written to w. broken means that the client
// has a partial response: the handler must panic with [http.ErrAbortHandler] to make that visible.
//
// The URL is the owner's with the query of r. Headers and Host are copied from r, because the owner
// authenticates by them; HeaderSession must be among them, once. Forward ends with the context of
// r, or if nothing comes from the owner for half a minute. A patience above 0, for repeatable
// requests, ends Forward if the owner shows no sign of life for that long at the start.
//
// The request is sent once, and a second time only if the owner refused the ticket and so did not
// serve it, or if a GET, which has no effects, got no response.
func (f *Forwarder) Forward(w http.ResponseWriter, r *http.Request, owner Owner, body []byte,
	patience time.Duration) (e event.RequestForwarded, broken bool) {
	began := time.Now()
	var until time.Time
	if patience > 0 {
		until = began.Add(patience)
	}
	e = event.RequestForwarded{Owner: owner.Name, HTTPMethod: r.Method, RemoteAddr: r.RemoteAddr}
	response, err := f.sendProven(r, owner, body, until)
	if failed := failureOf(err); failed.stale || r.Method == http.MethodGet &&
		failed.outcome == words.ForwardUnknown && !failed.silent {
		response, err = f.sendProven(r, owner, body, until)
	}
	if err == nil {
		defer response.Body.Close()
		e.Status = response.StatusCode
		broken = copyResponse(w, response) != nil
	}
	e.Outcome, e.Err, e.Duration = outcomeOf(r.Context(), err), err, time.Since(began)
	return e, broken
}

// sendProven sends a request to a proven owner and reads the head of the response, whose body must
// be closed. Errors are *failure or ctx's cause. until, if set, is the deadline for a sign of life.
func (f *Forwarder) sendProven(r *http.Request, owner Owner, body []byte, until time.Time) (
	*http.Response, error) {
	proving, cancel := r.Context(), func() {}
	if !until.IsZero() {
		proving, cancel = context.WithDeadlineCause(proving, until,
			&failure{outcome: words.ForwardUnreachable, err: errSilent, silent: true})
	}
	p, err := f.findProof(proving, owner)
	cancel()
	if err != nil {
		return nil, err
	}
	flight := f.watchFlight(r.Context(), p.peer, until)
	connected := false // a connection was ready to be written to
	u := *p.url
	u.RawQuery, u.ForceQuery = r.URL.RawQuery, false // a hook may authenticate by the query
	sent, err := http.NewRequestWithContext(httptrace.WithClientTrace(flight.ctx,
		&httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }}),
		r.Method, u.String(), bytes.NewReader(body))
	if err != nil {
		flight.end()
		return nil, newFailure(words.ForwardGone, err)
	}
	token := f.codec.Seal(KindHop, p.ticket, digest(r.Header.Get(HeaderSession)), digest(body),
		r.Method, r.RemoteAddr)
	sent.Host, sent.Header = r.Host, outgoingHeader(r.Header)
	sent.Header[headerHop] = []string{token}
	response, err := f.transport.RoundTrip(sent)
	if err != nil {
		defer flight.end()
		return nil, f.noteFailure(sent, p, connected, err)
	}
	flight.ReadCloser, response.Body = response.Body, flight
	if err := f.checkReply(response, token); err != nil {
		flight.Close()
		f.dropProof(p, nil)
		return nil, err
	}
	return response, nil
}

// headersOfConnection are hop-by-hop headers (RFC 9110, section 7.6.1).
var headersOfConnection = [...]string{"Connection", "Proxy-Connection", "Keep-Alive",
	"Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// outgoingHeader returns the headers to send: those received, which the owner authenticates by. The
// client cannot remove any with Connection, and proxies' headers are kept.
func outgoingHeader(arrived http.Header) http.Header {
	header := arrived.Clone()
	for _, key := range headersOfConnection {
		delete(header, key)
	}
	for _, key := range [...]string{"Expect", headerChallenge, headerProof, headerReply} {
		delete(header, key)
	}
	// A request with one of these headers counts as repeatable in net/http.
	for _, key := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := header[key]; ok {
			delete(header, key)
			header[strings.ToLower(key)] = values
		}
	}
	if _, ok := header["User-Agent"]; !ok {
		header["User-Agent"] = []string{""} // without the default of net/http
	}
	return header
}

// checkReply returns nil for the owner's response, and if a handler in front of it refuses the
// credentials (401, 403). Other answers of its host may be temporary, and must not end retries.
func (f *Forwarder) checkReply(response *http.Response, hop string) error {
	reply, ok := f.codec.Open(KindReply, response.Header.Get(headerReply))
	switch delete(response.Header, headerReply); {
	case !ok || reply[0] != digest(hop):
		return newFailure(words.ForwardUnknown, fmt.Errorf(
			"another process answered at its address, with status %d", response.StatusCode))
	case reply[1] == VerdictTaken, reply[1] == VerdictHost &&
		(response.StatusCode == http.StatusUnauthorized ||
			response.StatusCode == http.StatusForbidden):
		return nil
	case reply[1] == VerdictHost:
		return newFailure(words.ForwardUnknown, fmt.Errorf(
			"a handler before the owner answered with status %d", response.StatusCode))
	case reply[1] == VerdictStale:
		return &failure{outcome: words.ForwardGone, stale: true,
			err: errors.New("it refused its ticket")}
	}
	return newFailure(words.ForwardGone, errors.New("it refused the request"))
}

// noteFailure returns a request's failure and drops its proof. connected means that the request may
// have been sent. If not, or for a GET, it returns the cause of a context that has ended.
func (f *Forwarder) noteFailure(sent *http.Request, p *proof, connected bool, err error) error {
	ctx := sent.Context()
	switch {
	case ctx.Err() != nil && (!connected || sent.Method == http.MethodGet):
		return context.Cause(ctx)
	case ctx.Err() != nil:
		return newFailure(words.ForwardUnknown, context.Cause(ctx))
	case connected:
		f.dropProof(p, nil)
		return newFailure(words.ForwardUnknown, err)
	}
	failed := newConnectFailure(err)
	f.dropProof(p, failed)
	return failed
}

const (
	bodyBuffer   = 32 << 10 // for bodies
	streamBuffer = 2 << 10  // for event streams, which stay open with short pieces
)

// copyResponse copies a response. The owner's headers replace w's headers.
func copyResponse(w http.ResponseWriter, response *http.Response) error {
	for _, key := range headersOfConnection {
		delete(response.Header, key)
	}
	maps.Copy(w.Header(), response.Header)
	w.WriteHeader(response.StatusCode)
	size, flush := int64(bodyBuffer), func() error { return nil }
	if response.ContentLength >= 0 {
		size = min(size, response.ContentLength)
	} else {
		flush = http.NewResponseController(w).Flush // send pieces as they are made
		if response.Header.Get("Content-Type") == "text/event-stream" {
			size = streamBuffer
		}
	}
	_ = flush()
	for buffer := make([]byte, max(size, 1)); ; {
		n, err := response.Body.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return err
			}
			_ = flush()
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
