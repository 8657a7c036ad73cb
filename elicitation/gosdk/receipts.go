package gosdk

import (
	"net/http"

	"github.com/rondo-mcp/rondo/internal/upstream"
)

// reportAnswer reports whether the upstream took the answer to a question. An answer that the
// upstream refuses does not fail for the SDK, nor does it end the connection: that the session
// is gone the next call finds out. Where the gateway is not authorized the SDK may authorize and
// send the answer again.
func (t streamTagger) reportAnswer(id []byte, response *http.Response, err error) {
	key := upstream.Key(id)
	switch {
	case err != nil:
		t.answers.Settle(key, err)
	case response.StatusCode == http.StatusUnauthorized,
		response.StatusCode == http.StatusForbidden:
	case response.StatusCode < http.StatusMultipleChoices:
		t.answers.Settle(key, nil)
	default:
		t.answers.Settle(key, upstream.StatusError(response.StatusCode))
		response.Body.Close()
		response.StatusCode, response.Body = http.StatusAccepted, http.NoBody
	}
}
