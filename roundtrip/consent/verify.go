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

// A Consent is an answer with its question. The user has agreed only if Answer.Decision is accepted
// and Invalid is false.
type Consent struct {
	// Question has message and form: a copy of Answer's if asked in the same request or on a page.
	Question, Answer Record
	Invalid          bool // the answer does not fit the form; the handler did not get it
}

// Verify returns the answers of records, in their order, with their questions. Pass all records of
// the flows, and with [Options].Chain all records of the recorder, in any order. Duplicates are
// ignored; repeated runs repeat answers. The error has the index of the bad record: changed or
// signed with none of keys, an answer without its question, or a record after a gap in a chain.
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

func (r *Record) nameQuestion(round int) string {
	return fmt.Sprintf("%q %d", []string{r.Flow, r.Method, r.Target, r.Principal, r.Key, r.Digest},
		round)
}

// invalidate marks the answer that r reports: the last one before r under its key.
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

// openRecord verifies and decodes a record. The next record of a chain has the digest.
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
		return nil, "", errors.New("not a record signed with one of the keys")
	}
	payload, err := base64.RawURLEncoding.Strict().DecodeString(e.Payload)
	if err != nil {
		return nil, "", err
	}
	r = &Record{}
	sum := sha256.Sum256(e.signedText())
	return r, string(sum[:]), json.Unmarshal(payload, r)
}
