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
	// Key signs. It belongs to the host, and is the same on all replicas. Required.
	Key ed25519.PrivateKey
	// Sink stores a record. It is called on the goroutine of the request, which waits for it, and
	// may be called concurrently. The context may have ended. If a record is lost, [Verify] finds
	// no consent in its place. Required.
	Sink func(ctx context.Context, record []byte)
	// IncludeAnswers puts what people enter into the records, instead of a digest alone.
	IncludeAnswers bool
	// Chain puts the digest of each record into the next one, so that [Verify] finds records that
	// are missing before others. Nothing shows that the last ones are missing. Each recorder
	// begins a chain. The calls of Sink are one after another then, for all requests.
	Chain bool
}

// A Recorder is an [event.Observer] that signs a record of each question and each answer.
type Recorder struct {
	opts   Options
	mu     sync.Mutex // with Options.Chain held while a record is stored
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
		if e.Decision == event.Accepted && e.Kind == protocol.KindElicitForm {
			r.addAnswer(record, e.Content)
		}
		r.storeRecord(ctx, record)
	case event.AnswerInvalid:
		r.storeRecord(ctx, newRecord(Invalid, e.Where, e.Key, protocol.KindElicitForm, "", nil))
	}
}

// addAnswer adds what the person entered. An empty form may come without content.
func (r *Recorder) addAnswer(record *Record, sent any) {
	result, ok := sent.(*rpc.Answer)
	if !ok || result == nil {
		return
	}
	read, err := protocol.DecodeElicitResult(*result)
	if err != nil {
		return // and the funnel would not have accepted it
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

// newRecord returns a record with the question, unless that is nil.
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

// envelope is a signed record.
type envelope struct {
	Protected string `json:"protected"`
	Payload   string `json:"payload"`
	Signature string `json:"signature"`
}

// header is the protected header of all records, encoded.
var header = base64.RawURLEncoding.EncodeToString([]byte(
	`{"alg":"EdDSA","typ":"rondo-consent-1"}`))

// signedText returns what is signed, and whose digest is the next record's Before.
func (e *envelope) signedText() []byte { return []byte(e.Protected + "." + e.Payload) }

// storeRecord signs a record and passes it to the sink.
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
		panic(err) // of a form, which is JSON that was read before
	}
	signed := envelope{Protected: header, Payload: base64.RawURLEncoding.EncodeToString(payload)}
	signature := ed25519.Sign(r.opts.Key, signed.signedText())
	signed.Signature = base64.RawURLEncoding.EncodeToString(signature)
	line, _ := json.Marshal(signed) // strings alone
	if r.opts.Chain {
		digest := sha256.Sum256(signed.signedText())
		r.before = digest[:]
	}
	r.opts.Sink(ctx, line)
}
