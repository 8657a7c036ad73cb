package natskv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/internal/jsonx"
)

// headerOperation is the header with which nats.go marks a key as removed.
const headerOperation = "KV-Operation"

// An Entry is a key as one server has it.
type Entry struct {
	Value []byte
	// Revision is the sequence number of the entry in the stream. 0: the server
	// has nothing for the key, not even a marker.
	Revision uint64
	// Gone is set if the key has no value: nothing was stored, or it was removed
	// or has expired.
	Gone bool
	// Stored is when the entry was stored, by the clock of the server.
	Stored time.Time
}

// Get makes one attempt at reading a key. That an entry is gone is certain only
// if the server that answers leads the stream, which Get cannot know; Find can.
func (b *Bucket) Get(ctx context.Context, key string) (Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, b.AttemptTimeout())
	defer cancel()
	request := `{"last_by_subj":"` + b.subject + key + `"}` // neither part needs escaping
	reply, err := b.js.Conn().RequestWithContext(ctx, b.readSubject, []byte(request))
	if err != nil {
		return Entry{}, err
	}
	found, err := decodeEntry(reply.Data, b.subject+key)
	if err != nil {
		return Entry{}, fmt.Errorf("read: %w", err)
	}
	return found, nil
}

// readReply is the answer of a server to STREAM.MSG.GET.
type readReply struct {
	Error   *jetstream.APIError `json:"error"`
	Message *struct {
		Subject  string    `json:"subject"`
		Revision uint64    `json:"seq"`
		Header   []byte    `json:"hdrs"`
		Data     []byte    `json:"data"`
		Stored   time.Time `json:"time"`
	} `json:"message"`
}

func decodeEntry(reply []byte, subject string) (Entry, error) {
	var r readReply
	if err := jsonx.Decode(reply, &r); err != nil {
		return Entry{}, err
	}
	if r.Error != nil && r.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound {
		return Entry{Gone: true}, nil
	}
	if r.Error != nil {
		return Entry{}, r.Error
	}
	m := r.Message
	if m == nil || m.Subject != subject || m.Revision == 0 {
		return Entry{}, errors.New("the answer of the server is not about the key")
	}
	header := nats.Header{}
	if len(m.Header) > 0 {
		var err error
		if header, err = nats.DecodeHeadersMsg(m.Header); err != nil {
			return Entry{}, err
		}
	}
	gone := header.Get(headerOperation) != "" || header.Get(jetstream.MarkerReasonHeader) != ""
	return Entry{Value: m.Data, Revision: m.Revision, Gone: gone, Stored: m.Stored}, nil
}

// Find reads a key and retries until ctx ends. It returns an entry that is gone
// only if that is certain.
//
// For that it calls mark, which must write to the bucket, retry until its context
// ends and return the revision of the write. Only the true leader acknowledges a
// write, and it has seen everything that was acknowledged before. A server that
// has seen the mark has therefore seen the key, if the key was there before Find
// was called.
//
// A key must not be stored again after it was removed: Find may return its former
// marker.
func (b *Bucket) Find(
	ctx context.Context, key string, mark func(context.Context) (revision uint64, err error),
) (found Entry, err error) {
	err = b.Retry(ctx, func() (err error) {
		found, err = b.Get(ctx, key)
		return err
	})
	if err != nil || !found.Gone {
		return found, err
	}
	revision, err := mark(ctx)
	if err != nil {
		return Entry{}, err
	}
	err = b.Retry(ctx, func() (err error) {
		found, err = b.getSince(ctx, key, revision)
		return err
	})
	return found, err
}

// getSince makes one attempt at reading a key from a server that has seen the
// revision given. From another it returns ErrBehind.
func (b *Bucket) getSince(ctx context.Context, key string, revision uint64) (Entry, error) {
	stored, err := b.hasKeySince(ctx, key, revision)
	if err != nil || !stored {
		return Entry{Gone: true}, err
	}
	found, err := b.Get(ctx, key)
	if err == nil && found.Revision == 0 {
		return Entry{}, ErrBehind // another server answered, or a marker has expired
	}
	return found, err
}

// hasKeySince reports whether a server that has seen the revision given has
// anything at a key, be it a marker. Sequence and subjects come in one answer of
// one server, the state of the stream. Two requests could be answered by two
// servers, and the answer to Get does not say how far its server has come.
func (b *Bucket) hasKeySince(ctx context.Context, key string, revision uint64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, b.AttemptTimeout())
	defer cancel()
	subject := b.subject + key
	info, err := b.stream.Info(ctx, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return false, err
	}
	if info.State.LastSeq < revision {
		return false, ErrBehind
	}
	return info.State.Subjects[subject] > 0, nil
}
