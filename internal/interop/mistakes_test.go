package interop_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
)

// A mistake is something that the author of a handler did, or the implementation under it, and that
// arrives at our client.
type mistake struct {
	name    string
	request request
	answers answers
	asked   int    // how often each question is put
	want    string // the text, or what kind of error in the words of kindOf
}

// endure has our client call a server that makes mistakes: it must not crash, hang or take them for
// an answer.
func endure(t *testing.T, handler func() http.Handler, mistakes []mistake) {
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			endpoint, said := listen(t, handler())
			who := newPerson(t, m.answers)
			opts := &client.Options{Timeout: patience}
			if m.want == "timeout" {
				opts.Timeout = silence
			}
			c := newRondo(t, over(t, endpoint), who, false, opts)
			got, err := c.do(within(t, patience), m.request)
			if err != nil {
				got = kindOf(err)
			}
			if got != m.want {
				t.Errorf("got %q, %v, want %q", got, err, m.want)
			}
			who.wantAsked(m.asked)
			conform(t, modern, wiretest.Client, said(), "")
		})
	}
}

// silence is how long our client waits for a server that never answers.
const silence = 2 * time.Second

// kindOf names the kind of an error of our client.
func kindOf(err error) string {
	if e, ok := protocol.AsError(err); ok {
		return fmt.Sprint("server error ", e.Code)
	}
	if _, ok := errors.AsType[*client.ResponseError](err); ok {
		return "unusable response"
	}
	if errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "Options.Timeout") {
		return "timeout"
	}
	if _, ok := errors.AsType[*client.TransportError](err); ok {
		return "no response"
	}
	if _, ok := errors.AsType[*client.QuestionError](err); ok {
		return "question refused"
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "hangs"
	}
	return err.Error()
}
