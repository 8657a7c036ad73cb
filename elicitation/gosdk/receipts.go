package gosdk

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
)

// settleTimeout is how long the result of a call waits for what becomes of its answers, which
// the upstream had before it returned the result.
const settleTimeout = time.Second

// receipts are the questions of one connection whose answers are on their way to the
// upstream, by the [answerKey] of the id of the upstream's request. The SDK does not report whether
// an answer arrived; the HTTP client that sends it sees it. A nil *receipts has none.
type receipts struct {
	mu   sync.Mutex
	byID map[string]*pendingAnswer
}

type pendingAnswer struct {
	receipt elicitation.Receipt
	callID  string
	settled chan struct{} // closed when it is known whether the answer arrived
}

// add returns the receipt of a question, nil where there can be none. id is an [answerKey].
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

// reportAnswer reports whether the upstream took the answer to a question. An answer that the
// upstream refuses does not fail for the SDK, nor does it end the connection: that the session
// is gone the next call finds out. Where the gateway is not authorized the SDK may authorize and
// send the answer again.
func (t streamTagger) reportAnswer(id []byte, response *http.Response, err error) {
	key := answerKey(id)
	switch {
	case err != nil:
		t.receipts.settle(key, err)
	case response.StatusCode == http.StatusUnauthorized,
		response.StatusCode == http.StatusForbidden:
	case response.StatusCode < http.StatusMultipleChoices:
		t.receipts.settle(key, nil)
	default:
		t.receipts.settle(key, statusError(response.StatusCode))
		response.Body.Close()
		response.StatusCode, response.Body = http.StatusAccepted, http.NoBody
	}
}

// A statusError is the status with which an upstream refused an answer.
type statusError int

// Error implements error.
func (e statusError) Error() string {
	return fmt.Sprintf("elicitation: the upstream refused the answer with status %d", int(e))
}

// answerKey returns the key of a question by its id, which upstream and SDK may spell in
// different ways.
func answerKey(id []byte) string {
	var value any
	if len(id) == 0 || json.Unmarshal(id, &value) != nil {
		return ""
	}
	return fmt.Sprintf("%T %v", value, value)
}
