package hophttp

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

const (
	// attemptTime bounds one attempt to deliver an answer, which owners only store. After a
	// partition a new connection works sooner than the old one.
	attemptTime       = 5 * time.Second
	maxAnswerResponse = 64 << 10 // bytes kept of an owner's response, enough for errors
)

// A Delivery is an answer on its way to the owner of its session.
type Delivery struct {
	forward   ForwardFunc
	request   *http.Request
	owner     Owner
	body      []byte
	uncertain bool            // the owner may have taken the answer
	response  *answerResponse // of the owner; nil if there is none
}

// A ForwardFunc sends a request to its owner once, as [Forwarder.Forward] does.
type ForwardFunc func(w http.ResponseWriter, r *http.Request, owner Owner, body []byte) (
	e event.RequestForwarded, broken bool)

// NewDelivery returns the delivery of the answer in r, which may end earlier.
func NewDelivery(forward ForwardFunc, r *http.Request, owner Owner, body []byte) *Delivery {
	return &Delivery{forward: forward, owner: owner, body: body,
		request: r.Clone(context.WithoutCancel(r.Context()))}
}

// Size returns the approximate number of bytes that the delivery keeps.
func (d *Delivery) Size() int {
	size := len(d.body) + len(d.request.RequestURI)
	for name, values := range d.request.Header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	return size
}

// WriteResponse writes the owner's response, if Send got one, and reports whether it did.
func (d *Delivery) WriteResponse(w http.ResponseWriter) bool {
	if d.response == nil {
		return false
	}
	maps.Copy(w.Header(), d.response.header)
	delete(w.Header(), "Content-Length") // the body may have been cut
	w.WriteHeader(d.response.status)
	_, _ = w.Write(d.response.body)
	return true
}

// Send sends the answer until the owner has taken or refused it, is certainly gone, or ctx ends.
// The first retry is immediate: the owner may be shutting down, and the client is still waiting.
func (d *Delivery) Send(ctx context.Context) error {
	for pause := time.Duration(0); ; pause = failureLife {
		again, err := d.sendProven(ctx)
		if !again || waiting.Sleep(ctx, pause) != nil {
			if err != nil && d.uncertain && d.response == nil &&
				failureOf(err).outcome != words.ForwardUnknown {
				err = newFailure(words.ForwardUnknown, err)
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
	d.uncertain = d.uncertain || failed.outcome == words.ForwardUnknown
	return !failed.dead, hop.Err
}

// An answerResponse keeps the response of an owner to an answer.
type answerResponse struct {
	header http.Header
	status int
	body   []byte
}

func (w *answerResponse) Header() http.Header { return w.header }

func (w *answerResponse) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
}

// Write drops bytes above maxAnswerResponse.
func (w *answerResponse) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.body = append(w.body, p[:min(len(p), maxAnswerResponse-len(w.body))]...)
	return len(p), nil
}
