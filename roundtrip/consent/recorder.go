package consent

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// Options configure a [Recorder].
type Options struct {
	Key ed25519.PrivateKey // signs records, the same on all replicas; required
	// Sink stores a record. The request waits for it, but its context may have ended. Calls may
	// overlap. [Verify] finds no consent for a lost record. Required.
	Sink           func(ctx context.Context, record []byte)
	IncludeAnswers bool // record the input, not only its digest
	// Chain links each record to the one before, so that [Verify] notices missing records, except
	// the last ones. Each recorder begins a chain. Calls of Sink then do not overlap.
	Chain bool
}

// A Recorder is an [event.Observer] that signs a record of each question and each answer.
type Recorder struct {
	opts   Options
	mu     sync.Mutex // held during Sink with Options.Chain
	before []byte
}

// NewRecorder returns a recorder. The options are copied.
func NewRecorder(opts *Options) (*Recorder, error) {
	switch {
	case opts == nil || len(opts.Key) != ed25519.PrivateKeySize:
		return nil, errors.New("consent: Options.Key: an Ed25519 key is required")
	case opts.Sink == nil:
		return nil, errors.New("consent: Options.Sink: required")
	}
	return &Recorder{opts: *opts}, nil
}

// Observe implements [event.Observer].
func (r *Recorder) Observe(ctx context.Context, e event.Event) {
	switch e := e.(type) {
	case event.InputRequested:
		for _, q := range e.Questions {
			record := newRecord(Asked, e.Where, q.Key, q.Kind, e.Way, q.Request)
			record.Digest = q.Digest.String()
			if e.Principal != nil {
				record.Principal = e.Principal.Key()
			}
			if e.Client != nil {
				record.Client = e.Client.Name
			}
			r.storeRecord(ctx, record)
		}
	case event.Answered:
		if e.Unsolicited {
			return
		}
		record := newRecord(Answered, e.Where, e.Key, e.Kind, e.Way, e.Asked)
		record.Digest, record.Principal = e.QuestionDigest.String(), e.Principal.Key()
		record.Decision, record.Waited = e.Decision, e.Waited
		if !e.Given.IsZero() {
			record.Time = e.Given.UTC()
		}
		if e.Decision == event.Accepted && e.Kind == protocol.KindElicitForm {
			r.addAnswer(record, e.Content)
		}
		r.storeRecord(ctx, record)
	case event.AnswerInvalid:
		r.storeRecord(ctx, newRecord(Invalid, e.Where, e.Key, protocol.KindElicitForm, "", nil))
	}
}

// addAnswer adds the user's input. An empty form may come without content.
func (r *Recorder) addAnswer(record *Record, sent any) {
	result, ok := sent.(*rpc.Answer)
	if !ok || result == nil {
		return
	}
	read, err := protocol.DecodeElicitResult(*result)
	if err != nil {
		return // the funnel rejects it
	}
	content := read.Content
	if content == nil {
		content = json.RawMessage("{}")
	}
	record.Nonce = make([]byte, 16)
	rand.Read(record.Nonce)
	record.AnswerDigest = digestAnswer(record.Salt(r.opts.Key), content)
	if r.opts.IncludeAnswers && json.Valid(content) {
		record.Answer = content
	}
}

func newRecord(kind string, w event.Where, key string, asked protocol.InputKind, way event.Way,
	q protocol.InputRequest) *Record {
	if asked == protocol.KindElicitForm && kind != Invalid {
		way = cmp.Or(way, words.WayForm)
	}
	r := &Record{Type: kind, Time: time.Now().UTC(), Flow: w.Flow, Request: w.Request,
		Round: w.Round, Method: w.Method, Target: w.Target, Key: key, Kind: asked, Way: way}
	switch q := q.(type) {
	case *protocol.ElicitForm:
		r.Message, r.Form = q.Message, q.Schema
	case *protocol.ElicitURL:
		r.Message = q.Message
		if u, err := url.Parse(q.URL); err == nil {
			r.Origin = u.Scheme + "://" + u.Host
		}
	}
	return r
}

type envelope struct {
	Protected string `json:"protected"`
	Payload   string `json:"payload"`
	Signature string `json:"signature"`
}

// header is the encoded protected header of all records.
var header = base64.RawURLEncoding.EncodeToString([]byte(
	`{"alg":"EdDSA","typ":"rondo-consent-1"}`))

// signedText returns the signed text, whose digest is the next record's Before.
func (e *envelope) signedText() []byte { return []byte(e.Protected + "." + e.Payload) }

func (r *Recorder) storeRecord(ctx context.Context, record *Record) {
	if record.Kind != protocol.KindElicitForm && record.Kind != protocol.KindElicitURL {
		return
	}
	if r.opts.Chain {
		r.mu.Lock()
		defer r.mu.Unlock()
		record.Before = r.before
	}
	payload, err := json.Marshal(record)
	if err != nil {
		panic(err) // impossible: the form was read from JSON
	}
	signed := envelope{Protected: header, Payload: base64.RawURLEncoding.EncodeToString(payload)}
	signature := ed25519.Sign(r.opts.Key, signed.signedText())
	signed.Signature = base64.RawURLEncoding.EncodeToString(signature)
	line, _ := json.Marshal(signed) // only strings
	if r.opts.Chain {
		digest := sha256.Sum256(signed.signedText())
		r.before = digest[:]
	}
	r.opts.Sink(ctx, line)
}
