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

// Forward passes r on to the owner of the session that it names, with body in the place of
// its own, and the response to w. Where the event has no status nothing was written to w. broken
// means that the client has only a part of the response: the handler must panic with
// [http.ErrAbortHandler], so that it does not look like all of it.
//
// The URL is that of the owner with the query of r. Headers and Host are those of r, and the owner
// authenticates by them; HeaderSession must be among them, once. It ends with the context of r, and
// when nothing comes from the owner for half a minute. patience is for requests that may be sent
// again: they end when there is no sign of life of the owner for as long at first. 0: the others.
//
// The request is sent once, and a second time only where the owner has not accepted the ticket, and
// so not served the request, or where no response came to a GET, which does nothing that could be
// done twice.
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

// sendProven sends a request to an owner that proves itself and reads the head of the response,
// whose body must be closed. The error is a failure, or the cause of the end of the context. until,
// unless zero, is when there must have been a sign of life of the owner.
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
	u.RawQuery, u.ForceQuery = r.URL.RawQuery, false // a hook may authenticate by it
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

// headersOfConnection are those that belong to one connection (RFC 9110, section 7.6.1).
var headersOfConnection = [...]string{"Connection", "Proxy-Connection", "Keep-Alive",
	"Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// outgoingHeader returns the headers that are sent: those that arrived, since the owner
// authenticates by them and holds the body against them. The client does not choose by
// Connection which of them go missing, and those that proxies have set are kept.
func outgoingHeader(arrived http.Header) http.Header {
	header := arrived.Clone()
	for _, key := range headersOfConnection {
		delete(header, key)
	}
	for _, key := range [...]string{"Expect", headerChallenge, headerProof, headerReply} {
		delete(header, key)
	}
	// By these, spelled so, net/http takes any request for one that it may send twice.
	for _, key := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := header[key]; ok {
			delete(header, key)
			header[strings.ToLower(key)] = values
		}
	}
	if _, ok := header["User-Agent"]; !ok {
		header["User-Agent"] = []string{""} // not that of net/http
	}
	return header
}

// checkReply returns nil for the owner's response to the hop, and where a handler before it refuses
// the credentials (401, 403). Any other answer of the host may be temporary, and must not end a
// request that is retried until the owner has it.
func (f *Forwarder) checkReply(response *http.Response, hop string) error {
	reply, ok := f.codec.Open(KindReply, response.Header.Get(headerReply))
	switch delete(response.Header, headerReply); {
	case !ok || reply[0] != digest(hop):
		return newFailure(words.ForwardUnknown, fmt.Errorf(
			"who answered at its address, with status %d, is another", response.StatusCode))
	case reply[1] == VerdictTaken, reply[1] == VerdictHost &&
		(response.StatusCode == http.StatusUnauthorized ||
			response.StatusCode == http.StatusForbidden):
		return nil
	case reply[1] == VerdictHost:
		return newFailure(words.ForwardUnknown, fmt.Errorf(
			"what stands before the owner answered with status %d", response.StatusCode))
	case reply[1] == VerdictStale:
		return &failure{outcome: words.ForwardGone, stale: true,
			err: errors.New("it refused its ticket")}
	}
	return newFailure(words.ForwardGone, errors.New("it refused the request"))
}

// noteFailure returns why there is no response to a request, and drops the proof that it was sent
// with. connected says whether it may have been sent. For one that was not, and for a GET, which
// does nothing that could be done twice, it returns the cause of the end of its context.
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
	// bodyBuffer is the size of the buffer with which a body is passed on.
	bodyBuffer = 32 << 10
	// streamBuffer is the same for an event stream, which stays open and has short pieces.
	streamBuffer = 2 << 10
)

// copyResponse passes a response on. What the owner says replaces what is in the header.
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
		flush = http.NewResponseController(w).Flush // pieces come as they are made
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
