package consent

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"time"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// The types of a [Record].
const (
	Asked    = "asked"    // a question went out
	Answered = "answered" // a question was answered
	Invalid  = "invalid"  // an accepted answer does not fit its form
)

// A Record is the payload of a signed record.
type Record struct {
	Type string    `json:"type"`
	Time time.Time `json:"time"`
	// Flow, Request, Round, Method and Target are those of [event.Where].
	Flow    string `json:"flow,omitempty"`
	Request string `json:"request,omitempty"`
	Round   int    `json:"round,omitempty"`
	Method  string `json:"method"`
	Target  string `json:"target"`
	// Key is the key of the question, Kind its kind, and Digest its [event.QuestionDigest].
	Key    string             `json:"key"`
	Kind   protocol.InputKind `json:"kind,omitempty"`
	Digest string             `json:"digest,omitempty"`
	// Principal is the [protocol.Principal.Key] of who was asked, or has answered.
	Principal string `json:"principal,omitempty"`
	// Client is the name that the client gives itself. It is in records of questions.
	Client string `json:"client,omitempty"`
	// Way is that of a form, empty for a visit.
	Way event.Way `json:"way,omitempty"`
	// Message and Form are the question as it was sent, and Origin is the beginning of the URL to
	// visit. The rest of the URL may be a secret. An answer has them if the record of the question
	// cannot be found by flow and round: it was asked during the same request or on a page.
	Message string          `json:"message,omitempty"`
	Form    json.RawMessage `json:"form,omitempty"`
	Origin  string          `json:"origin,omitempty"`
	// Decision is that of an answer. Waited is the time from the question to it, as far as it is
	// known.
	Decision event.Decision `json:"decision,omitempty"`
	Waited   time.Duration  `json:"waited,omitempty"` // in nanoseconds
	// Nonce and AnswerDigest stand for what the person entered; see [Record.Matches]. They are in
	// records of accepted answers, and Answer with [Options].IncludeAnswers.
	Nonce        []byte          `json:"nonce,omitempty"`
	AnswerDigest []byte          `json:"answerDigest,omitempty"`
	Answer       json.RawMessage `json:"answer,omitempty"`
	// Before is the digest of the record before of the same recorder; see [Options].Chain.
	Before []byte `json:"before,omitempty"`
}

// Salt returns the salt of the answer. Who knows it can guess this answer and no other. The key is
// that of the recorder.
func (r *Record) Salt(key ed25519.PrivateKey) []byte {
	salt, err := hkdf.Key(sha256.New, key.Seed(), r.Nonce, "rondo consent answer 1", sha256.Size)
	if err != nil {
		panic(err) // of a length that is a constant
	}
	return salt
}

// Matches reports whether content is what the person entered. The order of members and white space
// do not count.
func (r *Record) Matches(salt, content []byte) bool {
	return r.AnswerDigest != nil && hmac.Equal(digestAnswer(salt, content), r.AnswerDigest)
}

func digestAnswer(salt, content []byte) []byte {
	canonical, err := jsonx.AppendCanonical(nil, content)
	if err != nil {
		canonical = content
	}
	mac := hmac.New(sha256.New, salt)
	mac.Write(canonical)
	return mac.Sum(nil)
}
