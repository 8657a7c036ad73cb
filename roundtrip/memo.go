package roundtrip

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// Memo runs fn once in a flow and returns the same value in later rounds. The value travels in the
// sealed state, as JSON, from the next round that asks; the first round also gets a copy decoded
// from JSON. An error of fn is returned and not kept. Keys of memos are separate from those of
// questions; using a memo's key twice in one run is an error.
//
// Memo only saves repetition: after a lost response or a replayed state fn runs again. Effects that
// must not happen twice need an [IdempotencyKey] or a [store.Guard]. While the round is pending
// Memo returns [ErrPending] without running fn. If fn itself asks, Memo also returns ErrPending and
// keeps nothing, so that a value computed despite a refusal is not kept.
func Memo[T any](ctx context.Context, key string, fn func(context.Context) (T, error)) (T, error) {
	var none T
	r := runFrom(ctx)
	if r == nil {
		return none, noRound(ctx)
	}
	value, err := r.recallMemo(key)
	if err != nil {
		return none, err
	}
	if value == nil {
		if value, err = computeMemo(ctx, r, key, fn); err != nil {
			return none, err
		}
	}
	var v T
	if err := jsonx.Unmarshal(value, &v); err != nil {
		return none, r.endWithError(&journalError{key,
			fmt.Sprintf("the stored value does not decode as %T; change the FlowVersion", v)})
	}
	return v, nil
}

// computeMemo calls fn and keeps its value. A failure or panic frees the key.
func computeMemo[T any](ctx context.Context, r *run, key string,
	fn func(context.Context) (T, error)) (value json.RawMessage, err error) {
	kept := false
	defer func() {
		if !kept {
			r.forgetMemo(key)
		}
	}()
	v, err := fn(ctx)
	if err != nil {
		return nil, err
	}
	if value, err = jsonx.Marshal(v); err != nil {
		return nil, r.endWithError(&journalError{key, "the value has no JSON: " + err.Error()})
	}
	if err = r.keepMemo(key, value); err == nil {
		err = r.saveJournal(ctx)
	}
	kept = err == nil
	return value, err
}

// recallMemo reserves the key and returns the value under it, or nil.
func (r *run) recallMemo(key string) (json.RawMessage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := r.versionedFlowLocked()
	if err != nil {
		return nil, err
	}
	if f.noted[key] {
		return nil, r.failLocked(&journalError{key,
			"two memos are kept under it in one run of the handler"})
	}
	if f.noted == nil {
		f.noted = map[string]bool{}
	}
	f.noted[key] = true
	if value := r.findMemoLocked(key); value != nil {
		return value, nil
	}
	if f.asksClient() {
		delete(f.noted, key)
		return nil, fmt.Errorf("%w: memo %q has to wait", ErrPending, key)
	}
	r.acted = true // under this lock: the claim may be released by the time that fn runs
	return nil, nil
}

func (r *run) forgetMemo(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.flow.noted, key)
}

func (r *run) keepMemo(key string, value json.RawMessage) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := r.activeFlowLocked()
	switch {
	case err != nil:
		return err
	case f.asksClient():
		return fmt.Errorf("%w: memo %q has to wait", ErrPending, key)
	}
	r.addMemoLocked(key, value)
	return nil
}

func (r *run) findMemoLocked(key string) json.RawMessage {
	for _, m := range r.memos {
		if m.Key == key {
			return m.Value
		}
	}
	return nil
}

// addMemoLocked copies, because earlier states share the array.
func (r *run) addMemoLocked(key string, value json.RawMessage) {
	r.memos = append(r.memos[:len(r.memos):len(r.memos)], claims.Memo{Key: key, Value: value})
}

// IdempotencyKey returns a name (43 characters of base64url) for the effect called key in this
// flow, to pass to the system that performs it. It is the same in all rounds and replays, on every
// replica, derived from the flow's random id, which clients never see; the server's own log has it.
//
// key must include everything about the effect that depends on answers, such as the amount. Without
// a [store.Guard] a client can replay an earlier state with other answers; under an equal key a
// bank would take the second, larger order for a repetition of the first, already paid one.
//
// Two copies of the first leg begin two flows, with different keys: ask before such an effect.
func IdempotencyKey(ctx context.Context, key string) (string, error) {
	r := runFrom(ctx)
	if r == nil {
		return "", noRound(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.activeFlowLocked(); err != nil {
		return "", err
	}
	id := r.flowIDLocked()
	mac := hmac.New(sha256.New, id[:])
	mac.Write([]byte("rondo idempotency key 1\x00" + key))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)), nil
}

func (r *run) flowIDLocked() [16]byte {
	if !r.identified {
		rand.Read(r.id[:])
		r.identified = true
	}
	return r.id
}

const nonceBytes = 24 // too long to guess

// Nonce returns 32 random characters of base64url, the same in all rounds of a flow, for questions
// with fresh parts, such as the state of an OAuth request in the URL of a visit:
//
//	nonce, err := roundtrip.Nonce(ctx, "login")
//	if err != nil {
//		return err
//	}
//	err = roundtrip.AskURL(ctx, "login", "Sign in", loginURL+"?state="+nonce)
//
// Random bytes drawn in the handler would change the question in each run, and no answer would
// match. Nonce is a [Memo] under a key made of name: using a name twice in one run of the handler
// is an error. The nonce travels in the sealed state, readable only to servers with the key.
func Nonce(ctx context.Context, name string) (string, error) {
	return Memo(ctx, "nonce "+name, func(context.Context) (string, error) {
		var random [nonceBytes]byte
		rand.Read(random[:])
		return base64.RawURLEncoding.EncodeToString(random[:]), nil
	})
}
