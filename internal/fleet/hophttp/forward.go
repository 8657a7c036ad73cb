package hophttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/roundtrip/event"
)

var (
	// ErrOwnerGone: the owner has surely not received the request, and cannot.
	ErrOwnerGone = errors.New("the replica that owns the session is gone")
	// ErrOutcomeUnknown: the owner may have received the request, and its response, or
	// whether there will be one, is not known.
	ErrOutcomeUnknown = errors.New("the replica that owns the session did not answer")
	// ErrUnreachable: the owner has surely not received the request. It may be alive.
	ErrUnreachable = errors.New("the replica that owns the session cannot be reached")

	errRefused = fmt.Errorf("%w: it refused the request", ErrOwnerGone)
	// errStale: the owner has not served the request, and may with another ticket.
	errStale = fmt.Errorf("%w: it refused its ticket", ErrOwnerGone)
)

// Forward passes r on to the owner of the session that it names, with body in the place of
// its own, and the response to w. Where the event has no status nothing was written to w. Its
// error is one of Send. broken means that the client has only a part of the response: the handler
// must panic with [http.ErrAbortHandler], so that it does not look like all of it.
func (f *Forwarder) Forward(w http.ResponseWriter, r *http.Request, owner Owner, body []byte) (
	e event.RequestForwarded, broken bool) {
	began := time.Now()
	e = event.RequestForwarded{Owner: owner.Name, HTTPMethod: r.Method, RemoteAddr: r.RemoteAddr}
	response, err := f.Send(r, owner, body)
	if err == nil {
		defer response.Body.Close()
		e.Status = response.StatusCode
		broken = copyResponse(w, response) != nil
	}
	e.Outcome, e.Err, e.Duration = outcomeOf(r.Context(), err), err, time.Since(began)
	return e, broken
}

func outcomeOf(ctx context.Context, err error) event.ForwardOutcome {
	switch {
	case err == nil:
		return event.ForwardAnswered
	case errors.Is(context.Cause(ctx), context.Canceled): // the client is gone
		return event.ForwardAbandoned
	case errors.Is(err, ErrOwnerGone):
		return event.ForwardGone
	case errors.Is(err, ErrOutcomeUnknown):
		return event.ForwardUnknown
	case errors.Is(err, ErrUnreachable):
		return event.ForwardUnreachable
	}
	return event.ForwardAbandoned
}

// Send sends r to an owner, with body in the place of its own, and returns the response, whose
// body must be closed. The URL is that of the owner with the query of r. Headers and Host are
// those of r, and the owner authenticates by them; HeaderSession must be among them, once. It
// ends with the context of r, and when nothing comes from the owner for half a minute. The error
// wraps one of those above, or is the cause of the end of the context: of a request that was not
// sent, or of a GET.
//
// The owner gets the request once. Where it does not accept the ticket it has not served the
// request, which is then sent once more with another. So is a GET whose owner did not answer: it
// does nothing that could be done twice.
func (f *Forwarder) Send(r *http.Request, owner Owner, body []byte) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		p, err := f.findProof(r.Context(), owner)
		if err != nil {
			return nil, err
		}
		response, err := f.sendOnce(r, p, body)
		again := errors.Is(err, errStale) || r.Method == http.MethodGet &&
			errors.Is(err, ErrOutcomeUnknown) && !errors.Is(err, errSilent)
		if !again || attempt == 2 {
			return response, err
		}
	}
}

// sendOnce sends a request with a proof and reads the head of the response.
func (f *Forwarder) sendOnce(r *http.Request, p *proof, body []byte) (*http.Response, error) {
	flight := f.watchFlight(r.Context(), p.peer)
	connected := false // a connection was ready to be written to
	u := *p.url
	u.RawQuery, u.ForceQuery = r.URL.RawQuery, false // a hook may authenticate by it
	sent, err := http.NewRequestWithContext(httptrace.WithClientTrace(flight.ctx,
		&httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }}),
		r.Method, u.String(), bytes.NewReader(body))
	if err != nil {
		flight.end()
		return nil, fmt.Errorf("%w: %w", ErrOwnerGone, err)
	}
	token := f.codec.Seal(KindHop, p.ticket, digest(r.Header.Get(HeaderSession)), digest(body),
		r.Method, r.RemoteAddr)
	sent.Host, sent.Header = r.Host, outgoingHeader(r.Header)
	sent.Header[headerHop] = []string{token}
	response, err := f.transport.RoundTrip(sent)
	if err != nil {
		defer flight.end()
		return nil, f.classifyFailure(sent, p, connected, err)
	}
	flight.ReadCloser, response.Body = response.Body, flight
	if err := f.readReply(response, token); err != nil {
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

// readReply returns nil if a response is that of the owner to the hop, or if its host refuses the
// credentials. Any other answer of the host may be of the moment: a request that is tried until the
// owner has it must not end with that.
func (f *Forwarder) readReply(response *http.Response, hop string) error {
	reply, ok := f.codec.Open(KindReply, response.Header.Get(headerReply))
	switch delete(response.Header, headerReply); {
	case !ok || reply[0] != digest(hop):
		return fmt.Errorf("%w: who answered at its address, with status %d, is another",
			ErrOutcomeUnknown, response.StatusCode)
	case reply[1] == VerdictTaken, reply[1] == VerdictHost &&
		(response.StatusCode == http.StatusUnauthorized ||
			response.StatusCode == http.StatusForbidden):
		return nil
	case reply[1] == VerdictHost:
		return fmt.Errorf("%w: what stands before the owner answered with status %d",
			ErrOutcomeUnknown, response.StatusCode)
	case reply[1] == VerdictStale:
		return errStale
	}
	return errRefused
}

// classifyFailure says what it means that there is no response.
func (f *Forwarder) classifyFailure(sent *http.Request, p *proof, connected bool,
	err error) error {
	ctx := sent.Context()
	switch {
	case ctx.Err() != nil && (!connected || sent.Method == http.MethodGet):
		return context.Cause(ctx) // a GET does nothing that could be done twice
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, context.Cause(ctx))
	case connected:
		f.dropProof(p, nil)
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	err = fmt.Errorf("%w: %w", ErrOwnerGone, err)
	f.dropProof(p, err)
	return err
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
	header := w.Header()
	for key, values := range response.Header {
		header[key] = values
	}
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
