package elicitation

import (
	"crypto/sha256"
	"fmt"
)

// A Redactor makes the text of a question fit for logs and audit, and that of an
// error that may quote a question. It must be safe for concurrent use, return
// promptly and not use the router.
type Redactor func(message string) string

// HashMessages is a [Redactor] that gives the length of a text, in bytes, and the
// beginning of its SHA-256 digest: enough to see that two questions are the same.
// A digest does not hide a text that can be guessed.
func HashMessages(message string) string {
	sum := sha256.Sum256([]byte(message))
	return fmt.Sprintf("len=%d sha256=%x", len(message), sum[:8])
}

func (r *Router) redactMessage(message string) string {
	if r.opts.Redactor != nil {
		message = r.opts.Redactor(message)
	}
	return escapeForLog(message)
}
