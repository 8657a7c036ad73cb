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

// unkeyedQuestions are the questions that one run of a handler asks without [WithKey].
// Their keys are derived from their content, and from how often the run has asked the
// same, so that they do not depend on the order in which goroutines ask.
type unkeyedQuestions struct {
	askCounts  map[string]int    // by digest
	refusals   map[string]string // the action of a refusal, by digest
	usedKeys   []string          // in this run
	pendingKey string            // of the question that the client will be asked
	repeated   error             // set once the handler repeats a refused question
}

// maxUnusedAnswers is how many answers of this flow one run may leave unused: one, because
// a handler may decide otherwise with a later answer. A question whose wording changes
// adds one in every round.
const maxUnusedAnswers = 1

// askUnderKey asks under the key of [WithKey], or under a derived one.
func (run *handlerRun) askUnderKey(ctx context.Context, asked protocol.InputRequest,
	opts []roundtrip.QuestionOption) (json.RawMessage, error) {
	if key, ok := ctx.Value(questionKey{}).(string); ok {
		return roundtrip.AskRequest(ctx, key, asked, opts...)
	}
	digest, err := digestOf(asked)
	if err != nil {
		return nil, err
	}
	if run.call.replaysHandler() {
		// The call returns at once, and one question is asked in a round.
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
	return c.Version.Era() == protocol.Modern || c.adapter.opts.ReplayOnLegacy
}

// digestOf returns 128 bits of a digest of the question's content. Colliding questions
// would share an answer, and parts of the text may come from a client.
func digestOf(asked protocol.InputRequest) (string, error) {
	if visit, ok := asked.(*protocol.ElicitURL); ok && visit.ElicitationID != "" {
		c := *visit // the id is new in every run, and legacy only
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

// reserveKey returns the key of a question. Once a question of this run is pending it
// refuses all others: a handler that ignores the error would word them with an answer
// that it does not have.
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

// recordAnswer records that a question is pending, or how it was answered.
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

// concludeUnkeyed returns the result of a run that repeated a refused question, or whose
// question is pending; nil where the handler's own result counts.
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
		err := run.call.reportBug(ctx,
			fmt.Errorf("question %q is another one in every round; what it is made of must not "+
				"change, or be kept with roundtrip.Memo", u.pendingKey))
		// A second question under the same key ends the flow.
		_, _ = roundtrip.AskRequest(ctx, u.pendingKey, &protocol.ListRoots{})
		return nil, err
	}
	kept.Unkeyed = append(kept.Unkeyed, u.pendingKey)
	return roundtrip.InputRequired(roundtrip.WithState(kept)), nil
}
