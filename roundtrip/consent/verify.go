package consent

import (
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// A Consent is an answer with its question. The person has agreed only if the decision of the
// answer is accepted and Invalid is false.
type Consent struct {
	// Question has the message and the form. If it was asked during the same request or on a page
	// it is the record of the answer, whose Time is that of the answer.
	Question, Answer Record
	// Invalid means that the answer does not fit the form, so that the handler did not get it.
	Invalid bool
}

// Verify returns the answers of records, in their order, each with its question. It takes all
// records of the flows in question, and with [Options].Chain all of the recorder, in any order.
// Duplicates do not count. An answer is recorded twice if the run that reads it is repeated, as
// when a call becomes a task. The error names the record that is wrong by its index: one that was
// changed or is signed by none of keys, an answer whose question is missing, or one of a chain that
// follows a missing one.
func Verify(keys []ed25519.PublicKey, records ...[]byte) ([]Consent, error) {
	opened, asked := make([]*Record, len(records)), map[string]*Record{}
	present := map[string]bool{} // by digest
	for i, line := range records {
		record, digest, err := openRecord(keys, line)
		if err != nil {
			return nil, fmt.Errorf("consent: records[%d]: %w", i, err)
		}
		if present[digest] {
			continue
		}
		opened[i], present[digest] = record, true
		if record.Type == Asked {
			asked[record.nameQuestion(record.Round)] = record
		}
	}
	var consents []Consent
	for i, record := range opened {
		if record == nil {
			continue
		}
		if record.Before != nil && !present[string(record.Before)] {
			return nil, fmt.Errorf("consent: records[%d]: the record before it is missing", i)
		}
		if record.Type != Answered {
			continue
		}
		question := record
		if record.Form == nil && record.Origin == "" {
			if question = asked[record.nameQuestion(record.Round-1)]; question == nil {
				return nil, fmt.Errorf("consent: records[%d]: its question is missing", i)
			}
		}
		consents = append(consents, Consent{Question: *question, Answer: *record})
	}
	for _, record := range opened {
		if record != nil && record.Type == Invalid {
			record.invalidate(consents)
		}
	}
	return consents, nil
}

// nameQuestion names a question that went out in a round.
func (r *Record) nameQuestion(round int) string {
	return fmt.Sprintf("%q %d", []string{r.Flow, r.Method, r.Target, r.Principal, r.Key, r.Digest},
		round)
}

// invalidate marks the answer that r is about: the last one under its key before it.
func (r *Record) invalidate(consents []Consent) {
	var last *Consent
	for i := range consents {
		a := &consents[i].Answer
		if a.Key == r.Key && a.Round == r.Round && !a.Time.After(r.Time) &&
			cmp.Or(a.Request, a.Flow) == cmp.Or(r.Request, r.Flow) &&
			(last == nil || !a.Time.Before(last.Answer.Time)) {
			last = &consents[i]
		}
	}
	if last != nil {
		last.Invalid = true
	}
}

// openRecord checks the signature of a record and decodes it. digest is what the next one of a
// chain has.
func openRecord(keys []ed25519.PublicKey, line []byte) (r *Record, digest string, err error) {
	var e envelope
	if err := json.Unmarshal(line, &e); err != nil {
		return nil, "", err
	}
	signature, err := base64.RawURLEncoding.Strict().DecodeString(e.Signature)
	if err != nil || e.Protected != header || !slices.ContainsFunc(keys,
		func(key ed25519.PublicKey) bool {
			return len(key) == ed25519.PublicKeySize &&
				ed25519.Verify(key, e.signedText(), signature)
		}) {
		return nil, "", errors.New("no record that one of the keys has signed")
	}
	payload, err := base64.RawURLEncoding.Strict().DecodeString(e.Payload)
	if err != nil {
		return nil, "", err
	}
	r = &Record{}
	sum := sha256.Sum256(e.signedText())
	return r, string(sum[:]), json.Unmarshal(payload, r)
}
