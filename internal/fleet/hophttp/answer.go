package hophttp

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/humantime"
	"github.com/rondo-mcp/rondo/internal/limits/recent"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// headerAttempt names the attempt to bring an answer to its owner: it is the same each time that
// the answer is sent.
const headerAttempt = "Rondo-Replica-Attempt"

const (
	// attemptTime is how long one sending of an answer may take. Owners only take it in; a
	// connection that a partition has cut comes back later than a new one.
	attemptTime = 5 * time.Second
	// maxAnswerResponse is how much of an owner's response to an answer is kept, in bytes:
	// more than an error needs.
	maxAnswerResponse = 64 << 10
	// maxAttempts is how many answers of a session are remembered that other replicas have
	// brought, and maxAttemptSessions of how many sessions: of those whose answers came last.
	// One session evicts its own. All together take some 20 MB.
	maxAttempts, maxAttemptSessions = 16, 4096
)

// A ForwardAnswer runs send, which brings an answer of size bytes to its owner and returns when
// the owner has it, or cannot get it, or ctx ends. When that is soon, ended is true and err is what
// send returned. Otherwise send goes on in the background, or err means that there is no room.
type ForwardAnswer func(r *http.Request, size int,
	send func(ctx context.Context) error) (ended bool, err error)

// forwardAnswer passes an answer on to its owner. The client does not wait for an owner that is
// stopped, or cut off: it gets 202, and the answer is sent until the owner has it.
func (h *wrapper) forwardAnswer(w http.ResponseWriter, r *http.Request, owner Owner,
	body []byte) {
	d := NewDelivery(h.forward, r, owner, body)
	ended, err := h.opts.ForwardAnswer(r, d.Size(), d.Send)
	switch {
	case ended && d.WriteResponse(w):
	case ended:
		writeFailure(w, nil, outcomeOf(r.Context(), err))
	case err == nil:
		w.WriteHeader(http.StatusAccepted)
	default:
		w.Header().Set("Retry-After", "2")
		writeError(w, http.StatusServiceUnavailable, nil, protocol.Errorf(
			protocol.CodeInternalError, "the replica that serves this session does not answer, "+
				"and too many answers wait for it"))
	}
}

// A Delivery is an answer on its way to the owner of its session.
type Delivery struct {
	forward   ForwardFunc
	request   *http.Request
	owner     Owner
	body      []byte
	uncertain bool            // the owner may have taken it
	response  *answerResponse // of the owner; nil: there is none
}

// A ForwardFunc sends a request to its owner once, as [Forwarder.Forward] does.
type ForwardFunc func(w http.ResponseWriter, r *http.Request, owner Owner, body []byte) (
	e event.RequestForwarded, broken bool)

// NewDelivery returns the delivery of the answer that r has brought. r may end before it does.
func NewDelivery(forward ForwardFunc, r *http.Request, owner Owner, body []byte) *Delivery {
	d := &Delivery{forward: forward, owner: owner, body: body,
		request: r.Clone(context.WithoutCancel(r.Context()))}
	d.request.Header[headerAttempt] = []string{rand.Text()}
	return d
}

// Size returns about how many bytes it keeps.
func (d *Delivery) Size() int {
	size := len(d.body) + len(d.request.RequestURI)
	for name, values := range d.request.Header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	return size
}

// WriteResponse writes what the owner has answered, when Send has returned. It reports false where
// the owner has not.
func (d *Delivery) WriteResponse(w http.ResponseWriter) bool {
	if d.response != nil {
		d.response.writeTo(w)
	}
	return d.response != nil
}

// Send sends the answer until the owner has taken or refused it, is gone for certain, or ctx
// ends. The second time follows at once: a connection that breaks may be the end of the owner, and
// the client can still be told.
func (d *Delivery) Send(ctx context.Context) error {
	for pause := time.Duration(0); ; pause = failureLife {
		again, err := d.sendProven(ctx)
		if !again || humantime.Sleep(ctx, pause) != nil {
			if err != nil && d.uncertain && d.response == nil &&
				failureOf(err).outcome != event.ForwardUnknown {
				err = newFailure(event.ForwardUnknown, err)
			}
			return err
		}
	}
}

func (d *Delivery) sendProven(ctx context.Context) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	response := &answerResponse{header: http.Header{}}
	hop, _ := d.forward(response, d.request.WithContext(ctx), d.owner, d.body)
	switch status := hop.Status; {
	case status == http.StatusServiceUnavailable, status == http.StatusTooManyRequests:
		return true, fmt.Errorf("the owner answered with status %d", status)
	case status >= http.StatusMultipleChoices:
		d.response = response
		return false, fmt.Errorf("the owner answered with status %d", status)
	case status != 0:
		d.response = response
		return false, nil
	}
	failed := failureOf(hop.Err)
	d.uncertain = d.uncertain || failed.outcome == event.ForwardUnknown
	return !failed.dead, hop.Err
}

// An answerResponse keeps the response of an owner to an answer.
type answerResponse struct {
	header http.Header
	status int
	body   []byte
}

// Header implements [http.ResponseWriter].
func (w *answerResponse) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *answerResponse) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
}

// Write implements [http.ResponseWriter]. It drops what is too long.
func (w *answerResponse) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.body = append(w.body, p[:min(len(p), maxAnswerResponse-len(w.body))]...)
	return len(p), nil
}

func (w *answerResponse) writeTo(to http.ResponseWriter) {
	for key, values := range w.header {
		to.Header()[key] = values
	}
	delete(to.Header(), "Content-Length") // the body may have been cut
	to.WriteHeader(w.status)
	_, _ = to.Write(w.body)
}

// sessionAttempts are the answers to the questions of a session, by the attempt of another replica
// to bring them.
type sessionAttempts = recent.Map[string, *takenAnswer]

// A takenAnswer is an answer that another replica has brought.
type takenAnswer struct {
	done   chan struct{} // closed when it has been served
	status int           // 0: it was not taken
}

// takeAttempt removes the name of an attempt from a request and returns it, "": there is none, or
// a client made it up.
func takeAttempt(r *http.Request, received *Received) string {
	attempt := r.Header.Get(headerAttempt)
	delete(r.Header, headerAttempt)
	if received == nil || len(attempt) > 64 {
		return ""
	}
	return attempt
}

// serveOnce serves a request, or an answer of another replica. When an answer has been taken, a
// repetition of its attempt gets the same status, and is not served.
func (h *wrapper) serveOnce(w http.ResponseWriter, r *http.Request, session, attempt string) {
	if attempt == "" {
		h.next.ServeHTTP(w, r)
		return
	}
	for {
		h.mu.Lock()
		attempts, _ := h.attempts.Get(session)
		if attempts == nil {
			attempts = recent.New[string, *takenAnswer](maxAttempts, 0)
		}
		h.attempts.Put(session, attempts) // it is the newest
		first, known := attempts.Get(attempt)
		if !known {
			first = &takenAnswer{done: make(chan struct{})}
			attempts.Put(attempt, first)
		}
		h.mu.Unlock()
		if !known {
			h.serveFirst(w, r, attempts, attempt, first)
			return
		}
		select {
		case <-first.done:
		case <-r.Context().Done():
			return
		}
		if first.status != 0 {
			w.WriteHeader(first.status)
			return
		}
	}
}

// serveFirst serves an answer and notes whether it was taken.
func (h *wrapper) serveFirst(w http.ResponseWriter, r *http.Request, attempts *sessionAttempts,
	attempt string, a *takenAnswer) {
	watched := &statusWriter{ResponseWriter: w}
	defer func() {
		if watched.status >= http.StatusOK && watched.status < http.StatusMultipleChoices {
			a.status = watched.status
		} else {
			h.mu.Lock()
			if kept, _ := attempts.Get(attempt); kept == a { // not one that took its place
				attempts.Delete(attempt)
			}
			h.mu.Unlock()
		}
		close(a.done)
	}()
	h.next.ServeHTTP(watched, r)
}

// A statusWriter notes the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements [http.ResponseWriter].
func (w *statusWriter) WriteHeader(status int) {
	if w.status < http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status < http.StatusOK {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap serves [http.ResponseController].
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
