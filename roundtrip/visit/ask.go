package visit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

const (
	// maxRecordBytes bounds a visit's JSON: sealed it stays below a keyring's 64 KiB.
	maxRecordBytes = 40 << 10
	// noteKey prefixes a flow's keys for visits; authors' keys have no such prefix.
	noteKey   = "\x00visit\x00"
	busyRetry = 5 * time.Second // while no link can be shown
)

const (
	rowAsked = "asked"
	rowOver  = "over"
)

// A record is a row: the subject of a visit, or its end. It contains its own place.
type record struct {
	Place     string          `json:"place"`
	Owner     string          `json:"owner"` // digest of the principal
	Ends      time.Time       `json:"ends"`
	Until     time.Time       `json:"until,omitzero"` // kept at least until then
	Given     time.Time       `json:"given,omitzero"` // when the visit was finished
	Withdrawn bool            `json:"withdrawn,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
}

// A ticket is the handler's view of a visit.
type ticket struct {
	id, owner string
	ends      time.Time
}

var errTaken = errors.New("visit: the row exists already")

// endCall returns an error for the client.
func endCall(text string) error {
	return protocol.Errorf(protocol.CodeFlowEnded, "%s; call again", text)
}

// Ask sends the user to the page and returns the answer that [Visit.Finish] got. It works in both
// styles, all revisions and in tasks, which [Options].Wake wakes. Key and message are as in
// [roundtrip.AskURL], whose errors it returns. The page gets about, from the first round, as JSON.
//
// The visit is stored before its link is shown, under an id that is the same in all rounds. A store
// that is full or down, an anonymous caller, and a visit longer than [Options].TTL cause a
// [*protocol.Error]. After a refusal at the client use another key to ask again. Calls may overlap.
func (p *Page[Q, A]) Ask(ctx context.Context, key, message string, about Q,
	opts ...roundtrip.QuestionOption) (answer A, err error) {
	t, err := p.begin(ctx, key, about)
	if err != nil {
		return answer, err
	}
	if err = roundtrip.AskURL(ctx, key, message, p.linkTo(t.id), opts...); err != nil {
		if isRefusal(err) { // otherwise the link expires
			_ = p.put(ctx, rowOver, t.id, &record{Owner: t.owner, Ends: t.ends, Withdrawn: true})
		}
		return answer, err
	}
	var end *record
	done := func(ctx context.Context) (bool, error) {
		found, err := p.get(ctx, rowOver, t.id)
		switch {
		case err == nil:
			end = found
			return true, nil
		case !time.Now().Before(t.ends):
			return false, endCall("the visit was not finished in time")
		}
		return false, nil // unknown while the store is down
	}
	if roundtrip.InTask(ctx) {
		err = roundtrip.AwaitEvent(ctx, t.id, done)
	} else {
		err = roundtrip.Await(ctx, key, done)
	}
	if err == nil && end == nil { // seen in an earlier round
		if end, err = p.get(ctx, rowOver, t.id); errors.Is(err, store.ErrStateGone) {
			err = endCall("the answer entered on the page has expired")
		} else if err != nil {
			err = refuseBusy(err)
		}
	}
	switch {
	case err != nil:
		return answer, err
	case end.Withdrawn:
		return answer, endCall("the visit was refused before")
	}
	return answer, json.Unmarshal(end.Data, &answer)
}

func isRefusal(err error) bool {
	_, declined := errors.AsType[*roundtrip.DeclinedError](err)
	_, cancelled := errors.AsType[*roundtrip.CancelledError](err)
	_, unseen := errors.AsType[*roundtrip.UnseenError](err)
	return declined || cancelled || unseen
}

// begin stores the row of a visit unless it exists.
func (p *Page[Q, A]) begin(ctx context.Context, key string, about Q) (*ticket, error) {
	id, err := roundtrip.IdempotencyKey(ctx, noteKey+key)
	if err != nil {
		return nil, err
	}
	began, err := roundtrip.Memo(ctx, noteKey+key, func(context.Context) (int64, error) {
		return time.Now().Unix(), nil
	})
	if err != nil {
		return nil, err
	}
	who := roundtrip.RoundOf(ctx).Principal()
	if who.Anonymous() {
		return nil, refuseAnonymous()
	}
	t := &ticket{id, quota.OwnerDigest(who), time.Unix(began, 0).Add(p.opts.TTL)}
	data, err := json.Marshal(about)
	if err != nil {
		return nil, fmt.Errorf("visit: %w", err)
	}
	if time.Now().Before(t.ends) {
		err = p.put(ctx, rowAsked, id, &record{Owner: t.owner, Ends: t.ends, Data: data})
	}
	if err != nil && !errors.Is(err, errTaken) {
		return nil, refuseBusy(err)
	}
	return t, nil
}

func refuseAnonymous() error {
	return endCall("this server does not know who you are, and its page must be visited by the " +
		"same person: authenticate first")
}

// refuseBusy returns the client's error if the store is full or down, and other errors unchanged.
func refuseBusy(err error) error {
	if full, ok := errors.AsType[*store.QuotaError](err); ok {
		return quota.Refuse(quota.Limit(full.Limit), max(full.RetryAfter, time.Second),
			"too many visits are kept for now; call again later")
	}
	if _, ok := errors.AsType[*storeError](err); ok {
		return quota.Refuse(quota.None, busyRetry, "the server cannot reach what it keeps of "+
			"visits; call again in %s", busyRetry)
	}
	return err
}

// A storeError means that the store failed.
type storeError struct{ error }

func (e *storeError) Unwrap() error { return e.error }

// placeOf returns the id of a row in the store, unique to the page.
func (p *Page[Q, A]) placeOf(row, id string) string {
	sum := sha256.Sum256([]byte("rondo visit 1\x00" + row + "\x00" + id + "\x00" + p.url.String()))
	return hex.EncodeToString(sum[:])
}

// put stores a row, or returns errTaken. Rows that record a visit's end outlast the visit.
func (p *Page[Q, A]) put(ctx context.Context, row, id string, r *record) error {
	r.Place = p.placeOf(row, id)
	if r.Until.Before(r.Ends) {
		r.Until = r.Ends
	}
	if end := time.Now().Add(p.opts.TTL); row == rowOver && end.After(r.Ends) {
		r.Until = end // not before the visit ends, with another clock or TTL
	}
	plain, err := json.Marshal(r)
	if err == nil && len(plain) > maxRecordBytes {
		err = fmt.Errorf("visit: the stored visit takes %d bytes, over the limit of %d", len(plain),
			maxRecordBytes)
	}
	if err != nil {
		return err
	}
	sealed, err := p.ring.Seal(ctx, plain)
	if err != nil {
		return err
	}
	err = p.opts.Store.Put(ctx, r.Place, r.Owner, []byte(sealed), r.Until)
	if err == nil {
		return nil
	}
	if row == rowTaken || row == rowUsed { // else an answer is lost with a request that is cut off
		var cancel func()
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), busyRetry)
		defer cancel()
	}
	kept, unknown := p.opts.Store.Get(ctx, r.Place)
	switch {
	case unknown != nil:
		return &storeError{err}
	case string(kept) != sealed:
		return errTaken
	}
	return nil // stored; only the acknowledgement was lost
}

// get reads a row, or fails with [store.ErrStateGone].
func (p *Page[Q, A]) get(ctx context.Context, row, id string) (*record, error) {
	place := p.placeOf(row, id)
	sealed, err := p.opts.Store.Get(ctx, place)
	if errors.Is(err, store.ErrStateGone) {
		return nil, err
	}
	r := &record{}
	if err == nil {
		var plain []byte
		if plain, err = p.ring.Open(ctx, string(sealed)); err == nil {
			err = json.Unmarshal(plain, r)
		}
		if err == nil && r.Place != place {
			err = errors.New("visit: the stored row does not match its id")
		}
	}
	if err != nil {
		return nil, &storeError{err}
	}
	return r, nil
}
