package gosdk

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/jsonx"
)

// settleTimeout is how long the result of a call waits for what becomes of its answers, which
// the upstream had before it returned the result.
const settleTimeout = time.Second

// receipts are the questions of one connection whose answers are on their way to the
// upstream, by the id of the upstream's request as JSON. The SDK does not report whether an
// answer arrived; the HTTP client that sends it sees it. A nil *receipts has none.
type receipts struct {
	mu   sync.Mutex
	byID map[string]*pendingAnswer
}

type pendingAnswer struct {
	receipt elicitation.Receipt
	callID  string
	settled chan struct{} // closed when it is known whether the answer arrived
}

// add returns the receipt of a question, nil where there can be none.
func (r *receipts) add(callID, id string) *elicitation.Receipt {
	if r == nil || id == "" {
		return nil
	}
	answer := &pendingAnswer{callID: callID, settled: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID == nil {
		r.byID = make(map[string]*pendingAnswer)
	}
	if old := r.byID[id]; old != nil {
		close(old.settled) // the upstream uses the id again: nobody will know
	}
	r.byID[id] = answer
	return &answer.receipt
}

// settle reports whether the answer to a question arrived, nil: it did.
func (r *receipts) settle(id string, err error) {
	if r == nil {
		return
	}
	r.mu.Lock()
	answer := r.byID[id]
	delete(r.byID, id)
	r.mu.Unlock()
	if answer == nil {
		return
	}
	if err == nil {
		answer.receipt.Confirm()
	} else {
		answer.receipt.Fail(err)
	}
	close(answer.settled)
}

// wait waits until it is known of all answers to the questions of a call whether they arrived,
// for a moment at most. So they are counted when the client has the result.
func (r *receipts) wait(callID string) {
	if r == nil {
		return
	}
	var answers []*pendingAnswer
	r.mu.Lock()
	for _, answer := range r.byID {
		if answer.callID == callID {
			answers = append(answers, answer)
		}
	}
	r.mu.Unlock()
	limit := time.NewTimer(settleTimeout)
	defer limit.Stop()
	for _, answer := range answers {
		select {
		case <-answer.settled:
		case <-limit.C:
			return
		}
	}
}

// sendAnswer sends what may be the answer to a question, and reports whether the upstream took
// it. An answer that the upstream refuses does not fail for the SDK, which would end the
// connection, and with it the calls of all who share it. That the session is gone or that
// the gateway is not authorized does.
func (t streamTagger) sendAnswer(base http.RoundTripper, r *http.Request) (*http.Response, error) {
	id := answeredID(r)
	response, err := base.RoundTrip(r)
	if id == "" {
		return response, err
	}
	if err != nil {
		t.receipts.settle(id, err)
		return nil, err
	}
	switch status := response.StatusCode; {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return response, nil // the SDK may authorize and send it again
	case status < http.StatusMultipleChoices:
		t.receipts.settle(id, nil)
	default:
		t.receipts.settle(id, statusError(status))
		if status != http.StatusNotFound {
			response.Body.Close()
			response.StatusCode, response.Body = http.StatusAccepted, http.NoBody
		}
	}
	return response, nil
}

// A statusError is the status with which an upstream refused an answer.
type statusError int

// Error implements error.
func (e statusError) Error() string {
	return fmt.Sprintf("elicitation: the upstream refused the answer with status %d", int(e))
}

// answeredID returns the id of the JSON-RPC response in the body of a POST, "" if it is
// something else.
func answeredID(r *http.Request) string {
	if r.Method != http.MethodPost || r.GetBody == nil {
		return ""
	}
	body, err := r.GetBody()
	if err != nil {
		return ""
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		return ""
	}
	id, isRequest := "", false
	err = jsonx.CheckMembers(data, func(key, value []byte) error {
		switch string(key) {
		case "id":
			id = string(bytes.TrimSpace(value))
		case "method":
			isRequest = true
		}
		return nil
	})
	if err != nil || isRequest {
		return ""
	}
	return id
}
