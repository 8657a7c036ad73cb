package gosdk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// unkeyedQuestions is what one run of a handler asks without keys. Push-style calls have
// none; they are made of what the questions say, and of how often the run has
// asked the same. That does not depend on the order in which goroutines ask.
type unkeyedQuestions struct {
	askCounts  map[string]int    // how often a question was asked, by digest
	refusals   map[string]string // actions, by digest
	usedKeys   []string          // keys
	pendingKey string            // the key that the client is being asked under
	repeated   error             // the handler asks again what was refused
}

// maxUnusedAnswers is how many answers a run may leave unused that the person has
// given in this flow: one, because a handler may change its mind. A question
// that reads differently every time leaves another one in every round.
const maxUnusedAnswers = 1

// askUnderKey asks under the key that the author has given, or one of the question's.
func (run *handlerRun) askUnderKey(ctx context.Context, asked protocol.InputRequest, opts []roundtrip.AskOption) (json.RawMessage, error) {
	if key, ok := ctx.Value(questionKey{}).(string); ok {
		return roundtrip.AskRequest(ctx, key, asked, opts...)
	}
	digest, err := digestOf(asked)
	if err != nil {
		return nil, err
	}
	if run.call.replaysHandler() {
		// Nobody waits here, and exactly one question goes out.
		run.askMu.Lock()
		defer run.askMu.Unlock()
	}
	key, err := run.reserveKey(digest)
	if err != nil {
		return nil, err
	}
	raw, err := roundtrip.AskRequest(ctx, key, asked, opts...)
	run.recordAnswer(digest, key, raw, err)
	return raw, err
}

// replaysHandler reports whether questions end the run instead of being waited for.
func (c *call) replaysHandler() bool {
	return c.Version.Era() == protocol.Modern || c.adapter.funnel.ReplayOnLegacy
}

// digestOf identifies what a question says, by 128 bits: who words the questions
// must not be able to make two of them the same.
func digestOf(asked protocol.InputRequest) (string, error) {
	if visit, ok := asked.(*protocol.ElicitURL); ok && visit.ElicitationID != "" {
		c := *visit // ids are new every time, and exist in older revisions only
		c.ElicitationID = ""
		asked = &c
	}
	text, err := protocol.AppendInputRequest(nil, protocol.Latest, asked)
	if err != nil {
		return "", fmt.Errorf("gosdk: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

// reserveKey returns the key of a question. While the client is being asked one,
// there are no others: a handler that goes on regardless would have them made
// of an answer that is not there.
func (run *handlerRun) reserveKey(digest string) (string, error) {
	run.mu.Lock()
	defer run.mu.Unlock()
	u := &run.unkeyed
	if u.askCounts == nil {
		u.askCounts, u.refusals = map[string]int{}, map[string]string{}
	}
	u.askCounts[digest]++
	key := "question-" + digest
	if n := u.askCounts[digest]; n > 1 {
		key = fmt.Sprint(key, "-", n)
	}
	u.usedKeys = append(u.usedKeys, key)
	switch {
	case u.repeated != nil:
		return "", u.repeated
	case u.refusals[digest] == "decline":
		u.repeated = &roundtrip.DeclinedError{Key: key}
	case u.refusals[digest] == "cancel":
		u.repeated = &roundtrip.CancelledError{Key: key}
	case u.pendingKey != "":
		return "", fmt.Errorf("%w: %s, and not %s yet", roundtrip.ErrPending, u.pendingKey, key)
	default:
		return key, nil
	}
	return "", u.repeated
}

// recordAnswer notes what came of a question.
func (run *handlerRun) recordAnswer(digest, key string, raw json.RawMessage, err error) {
	run.mu.Lock()
	defer run.mu.Unlock()
	if errors.Is(err, roundtrip.ErrPending) && run.unkeyed.pendingKey == "" {
		run.unkeyed.pendingKey = key
	}
	var answer struct {
		Action string `json:"action"`
	}
	if err == nil && json.Unmarshal(raw, &answer) == nil {
		run.unkeyed.refusals[digest] = answer.Action
	}
}

// concludeUnkeyed says what the run comes to when it has asked without keys; nothing
// where that is for the handler to say.
func (run *handlerRun) concludeUnkeyed(ctx context.Context) (protocol.Result, error) {
	run.mu.Lock()
	u := run.unkeyed
	run.mu.Unlock()
	if u.repeated != nil {
		return nil, u.repeated
	}
	if u.pendingKey == "" {
		return nil, nil
	}
	kept, _ := roundtrip.State[authorState](ctx)
	orphans := 0
	for _, key := range kept.Unkeyed {
		if !slices.Contains(u.usedKeys, key) {
			orphans++
		}
	}
	if orphans > maxUnusedAnswers {
		err := run.call.reportBug(ctx, fmt.Errorf("question %q is another one in every round; what it is made of must not change, or be kept with roundtrip.Memo", u.pendingKey))
		// Asking twice under one key ends the flow, whatever is pending.
		_, _ = roundtrip.AskRequest(ctx, u.pendingKey, &protocol.ListRoots{})
		return nil, err
	}
	kept.Unkeyed = append(kept.Unkeyed, u.pendingKey)
	return roundtrip.InputRequired(roundtrip.WithState(kept)), nil
}
