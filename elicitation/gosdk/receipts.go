package gosdk

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/jsonx"
)

// receipts are the questions of one connection whose answers are on their way to the
// upstream, by the id of the upstream's request as JSON. The SDK does not report whether an
// answer arrived; the HTTP client that sends it sees it. A nil *receipts has none.
type receipts struct {
	mu   sync.Mutex
	byID map[string]*elicitation.Receipt
}

// add returns the receipt of a question, nil where there can be none.
func (r *receipts) add(id string) *elicitation.Receipt {
	if r == nil || id == "" {
		return nil
	}
	receipt := &elicitation.Receipt{}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID == nil {
		r.byID = make(map[string]*elicitation.Receipt)
	}
	r.byID[id] = receipt
	return receipt
}

// take removes and returns a receipt, nil if there is none.
func (r *receipts) take(id string) *elicitation.Receipt {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	receipt := r.byID[id]
	delete(r.byID, id)
	return receipt
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
		if receipt := t.receipts.take(id); receipt != nil {
			receipt.Fail(err)
		}
		return nil, err
	}
	switch status := response.StatusCode; {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return response, nil // the SDK may authorize and send it again
	case status < http.StatusMultipleChoices:
		if receipt := t.receipts.take(id); receipt != nil {
			receipt.Confirm()
		}
	default:
		if receipt := t.receipts.take(id); receipt != nil {
			receipt.Fail(statusError(status))
		}
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
