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

// Types of a [Record].
const (
	Asked    = "asked"    // a question went out
	Answered = "answered" // a question was answered
	Invalid  = "invalid"  // an accepted answer does not fit its form
)

// A Record is the payload of a signed record.
type Record struct {
	Type string    `json:"type"`
	Time time.Time `json:"time"`
	// The fields Flow to Target are as in [event.Where].
	Flow    string `json:"flow,omitempty"`
	Request string `json:"request,omitempty"`
	Round   int    `json:"round,omitempty"`
	Method  string `json:"method"`
	Target  string `json:"target"`
	// Key, Kind and Digest ([event.QuestionDigest]) identify the question.
	Key    string             `json:"key"`
	Kind   protocol.InputKind `json:"kind,omitempty"`
	Digest string             `json:"digest,omitempty"`
	// Principal is the [protocol.Principal.Key] of the user who was asked or answered.
	Principal string    `json:"principal,omitempty"`
	Client    string    `json:"client,omitempty"` // self-reported; in records of questions
	Way       event.Way `json:"way,omitempty"`    // of a form; empty for a visit
	// Message and Form are the question as sent; Origin is the beginning of the URL, whose rest may
	// be secret. An answer has them too if it came in the same request or from a page.
	Message string          `json:"message,omitempty"`
	Form    json.RawMessage `json:"form,omitempty"`
	Origin  string          `json:"origin,omitempty"`
	// Decision is how the user decided, Waited the time since the question, if known.
	Decision event.Decision `json:"decision,omitempty"`
	Waited   time.Duration  `json:"waited,omitempty"` // in nanoseconds
	// Nonce and AnswerDigest identify an accepted answer's input; see [Record.Matches]. Answer is
	// that input, with [Options].IncludeAnswers.
	Nonce        []byte          `json:"nonce,omitempty"`
	AnswerDigest []byte          `json:"answerDigest,omitempty"`
	Answer       json.RawMessage `json:"answer,omitempty"`
	// Before is the digest of the recorder's previous record; see [Options].Chain.
	Before []byte `json:"before,omitempty"`
}

// Salt returns the answer's salt, given the recorder's key. It allows guessing only this answer.
func (r *Record) Salt(key ed25519.PrivateKey) []byte {
	salt, err := hkdf.Key(sha256.New, key.Seed(), r.Nonce, "rondo consent answer 1", sha256.Size)
	if err != nil {
		panic(err) // impossible: the length is constant
	}
	return salt
}

// Matches reports whether content is the user's input, apart from member order and white space.
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
