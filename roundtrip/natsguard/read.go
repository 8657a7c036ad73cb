package natsguard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/internal/jsonx"
)

// item is a key as the bucket has it.
type item struct {
	value    []byte
	revision uint64
	gone     bool      // deleted or expired: only a marker is left
	stored   time.Time // by the clock of the server
}

// get reads a key. A key that is not there is nil.
//
// It asks the leader of the stream. The key-value interface lets any replica
// answer, and one that lags would hide what was stored a moment ago.
func (b *bucket) get(ctx context.Context, key string) (*item, error) {
	ctx, cancel := context.WithTimeout(ctx, b.attempt())
	defer cancel()
	request := `{"last_by_subj":"` + b.subject + key + `"}` // neither part needs escaping
	reply, err := b.js.Conn().RequestWithContext(ctx, b.read, []byte(request))
	if err != nil {
		return nil, err
	}
	var r readReply
	if err := jsonx.Decode(reply.Data, &r); err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	if r.Error != nil && r.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound {
		return nil, nil
	}
	if r.Error != nil {
		return nil, r.Error
	}
	if r.Message == nil || r.Message.Subject != b.subject+key {
		return nil, errors.New("read: the server sent something else")
	}
	header := nats.Header{}
	if len(r.Message.Header) > 0 {
		if header, err = nats.DecodeHeadersMsg(r.Message.Header); err != nil {
			return nil, fmt.Errorf("read: %w", err)
		}
	}
	gone := header.Get("KV-Operation") != "" || header.Get(jetstream.MarkerReasonHeader) != ""
	return &item{r.Message.Data, r.Message.Revision, gone, r.Message.Stored}, nil
}

// getSince reads a key as it was when, or after, something was written that got
// the revision given. From a server that has not seen that yet it is errBehind.
func (b *bucket) getSince(ctx context.Context, key string, revision uint64) (*item, error) {
	there, err := b.has(ctx, key, revision)
	if err != nil || !there {
		return nil, err
	}
	found, err := b.get(ctx, key)
	if err == nil && found == nil {
		return nil, errBehind // another server answered, or the key has gone
	}
	return found, err
}

// has says whether there is anything at a key, be it a marker. How far the
// server that answers has come, which a read of the key does not tell, is in the
// state of the stream together with the subjects. It matters because the server
// that acknowledged a write need not be the one that answers.
func (b *bucket) has(ctx context.Context, key string, revision uint64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, b.attempt())
	defer cancel()
	info, err := b.stream.Info(ctx, jetstream.WithSubjectFilter(b.subject+key))
	if err != nil {
		return false, err
	}
	if info.State.LastSeq < revision {
		return false, errBehind
	}
	return info.State.Subjects[b.subject+key] > 0, nil
}

// readReply is what the server answers to STREAM.MSG.GET.
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
