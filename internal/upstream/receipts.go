package upstream

// This file finds out whether the answers to questions of an upstream arrive. SDKs do not
// report it; the HTTP client that sends an answer sees what the upstream says to it.

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// settleTimeout is how long the result of a call waits for what becomes of its answers, which
// the upstream had before it returned the result.
const settleTimeout = time.Second

// A Receipt is what is told of one answer: an [elicitation.Receipt].
type Receipt interface {
	Confirm()
	Fail(err error)
}

// A Book has the questions of one connection, or of one call, whose answers are on their way to
// the upstream. Its zero value is empty and ready, and so is nil, which stays empty. All methods
// may be called concurrently.
type Book struct {
	mu    sync.Mutex
	byKey map[string]*pendingAnswer
}

type pendingAnswer struct {
	receipt Receipt
	callID  string
	settled chan struct{} // closed when it is known whether the answer arrived
}

// Key returns the key of a question by the id of the upstream's request as JSON, which upstream and
// SDK may spell in different ways. "" stands for what is no id.
func Key(id []byte) string {
	var value any
	if len(id) == 0 || json.Unmarshal(id, &value) != nil || value == nil {
		return ""
	}
	return fmt.Sprintf("%T %v", value, value)
}

// Add expects the answer to a question of a call. Of two questions with one key nobody will know
// whether the first was answered.
func (b *Book) Add(callID, key string, r Receipt) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byKey == nil {
		b.byKey = make(map[string]*pendingAnswer)
	}
	if old := b.byKey[key]; old != nil {
		close(old.settled)
	}
	b.byKey[key] = &pendingAnswer{receipt: r, callID: callID, settled: make(chan struct{})}
}

// Settle reports whether the answer to a question arrived, nil: it did. Where none is expected it
// does nothing.
func (b *Book) Settle(key string, err error) {
	if b == nil {
		return
	}
	b.mu.Lock()
	answer := b.byKey[key]
	delete(b.byKey, key)
	b.mu.Unlock()
	if answer == nil {
		return
	}
	if err == nil {
		answer.receipt.Confirm()
	} else {
		answer.receipt.Fail(err)
	}
	close(answer.settled)
}

// Wait waits until it is known of all answers to the questions of a call whether they arrived,
// for a moment at most. So they are counted when the client has the result.
func (b *Book) Wait(callID string) {
	if b == nil {
		return
	}
	var answers []*pendingAnswer
	b.mu.Lock()
	for _, answer := range b.byKey {
		if answer.callID == callID {
			answers = append(answers, answer)
		}
	}
	b.mu.Unlock()
	limit := time.NewTimer(settleTimeout)
	defer limit.Stop()
	for _, answer := range answers {
		select {
		case <-answer.settled:
		case <-limit.C:
			return
		}
	}
}

// A StatusError is the HTTP status with which an upstream refused an answer.
type StatusError int

// Error implements error.
func (e StatusError) Error() string {
	return fmt.Sprintf("elicitation: the upstream refused the answer with status %d", int(e))
}
