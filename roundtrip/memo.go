package roundtrip

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/jsonx"
)

// Memo runs fn once in a flow and returns in later rounds what it returned
// then. The value is kept in the sealed state, as JSON, from the round on that
// asks next; the copy that the first round gets has been through JSON as well,
// so that all rounds see the same. An error of fn is returned and not kept. Keys
// are the flow's, apart from those of questions; using one twice in one run of
// the handler is an error.
//
// Memo saves repetition and no more: a response that is lost on its way, or a
// state that is presented again, runs fn again. What must not happen twice needs
// an [IdempotencyKey], or a [Guard]. Fn is not run once the round is pending:
// then Memo returns [ErrPending]. A question that is asked while fn runs ends
// the context of fn.
func Memo[T any](ctx context.Context, key string, fn func(context.Context) (T, error)) (T, error) {
	var none T
	r := roundFrom(ctx)
	if r == nil {
		return none, ErrNoRound
	}
	value, err := r.recall(key)
	if err != nil {
		return none, err
	}
	if value == nil {
		v, err := fn(ctx)
		if err != nil {
			r.forgetMemo(key)
			return none, err
		}
		if value, err = jsonx.Marshal(v); err != nil {
			return none, r.spoiled(key, "the value has no JSON: "+err.Error())
		}
		if err := r.remember(key, value); err != nil {
			return none, err
		}
	}
	var v T
	if err := jsonx.Unmarshal(value, &v); err != nil {
		return none, r.spoiled(key, fmt.Sprintf("what is kept is no %T any more; give the flow another FlowVersion", v))
	}
	return v, nil
}

// recall takes the key and returns what is kept under it, nil for nothing.
func (r *round) recall(key string) (json.RawMessage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := r.speaking()
	if err != nil {
		return nil, err
	}
	if f.noted[key] {
		return nil, r.breaks(&JournalError{key, "two memos are kept under it in one run of the handler"})
	}
	if f.noted == nil {
		f.noted = map[string]bool{}
	}
	f.noted[key] = true
	for _, m := range r.memos {
		if m.key == key {
			return m.value, nil
		}
	}
	if len(f.pending) > 0 {
		delete(f.noted, key)
		return nil, fmt.Errorf("%w: memo %q has to wait", ErrPending, key)
	}
	return nil, nil
}

func (r *round) forgetMemo(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.flow.noted, key)
}

func (r *round) remember(key string, value json.RawMessage) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.flowing(); err != nil {
		return err
	}
	// The states before share what they hold: grow a copy.
	r.memos = append(r.memos[:len(r.memos):len(r.memos)], memo{key, value})
	return nil
}

// spoiled ends the run for a memo that cannot be kept or read.
func (r *round) spoiled(key, problem string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.flowing(); err != nil {
		return err
	}
	return r.breaks(&JournalError{key, problem})
}

// IdempotencyKey returns a name for the effect called key in this flow, to hand
// to whoever brings the effect about. It is the same in all rounds of the flow
// and in all replays of them, on every replica, and is made from the random id
// of the flow, which clients never see; the server's own log has it. It is 43
// characters of base64url.
//
// The first leg of a flow that is sent twice begins two flows, with different
// keys: ask before an effect that must not be repeated.
func IdempotencyKey(ctx context.Context, key string) (string, error) {
	r := roundFrom(ctx)
	if r == nil {
		return "", ErrNoRound
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.flowing(); err != nil {
		return "", err
	}
	id := r.identity()
	mac := hmac.New(sha256.New, id[:])
	mac.Write([]byte("rondo idempotency key 1\x00" + key))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)), nil
}

// identity returns the id of the flow, which a first round makes up. The caller
// holds the mutex.
func (r *round) identity() [16]byte {
	if !r.identified {
		rand.Read(r.id[:])
		r.identified = true
	}
	return r.id
}
