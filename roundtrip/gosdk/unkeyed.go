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

// unkeyed is what one run of a handler asks without keys. Push-style calls have
// none; they are made of what the questions say, and of how often the run has
// asked the same. That does not depend on the order in which goroutines ask.
type unkeyed struct {
	times   map[string]int    // how often a question was asked, by digest
	refused map[string]string // actions, by digest
	used    []string          // keys
	pending string            // the key that the client is being asked under
	nags    error             // the handler asks again what was refused
}

// maxOrphans is how many answers a run may leave unused that the person has
// given in this flow: one, because a handler may change its mind. A question
// that reads differently every time leaves another one in every round.
const maxOrphans = 1

// put asks under the key that the author has given, or one of the question's.
func (l *leg) put(ctx context.Context, asked protocol.InputRequest, opts []roundtrip.AskOption) (json.RawMessage, error) {
	if key, ok := ctx.Value(questionKey{}).(string); ok {
		return roundtrip.AskRequest(ctx, key, asked, opts...)
	}
	digest, err := digestOf(asked)
	if err != nil {
		return nil, err
	}
	if l.call.replays() {
		// Nobody waits here, and exactly one question goes out.
		l.turn.Lock()
		defer l.turn.Unlock()
	}
	key, err := l.begin(digest)
	if err != nil {
		return nil, err
	}
	raw, err := roundtrip.AskRequest(ctx, key, asked, opts...)
	l.done(digest, key, raw, err)
	return raw, err
}

// replays reports whether questions end the run instead of being waited for.
func (c *call) replays() bool {
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

// begin returns the key of a question. While the client is being asked one,
// there are no others: a handler that goes on regardless would have them made
// of an answer that is not there.
func (l *leg) begin(digest string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := &l.unkeyed
	if u.times == nil {
		u.times, u.refused = map[string]int{}, map[string]string{}
	}
	u.times[digest]++
	key := "question-" + digest
	if n := u.times[digest]; n > 1 {
		key = fmt.Sprint(key, "-", n)
	}
	u.used = append(u.used, key)
	switch {
	case u.nags != nil:
		return "", u.nags
	case u.refused[digest] == "decline":
		u.nags = &roundtrip.DeclinedError{Key: key}
	case u.refused[digest] == "cancel":
		u.nags = &roundtrip.CancelledError{Key: key}
	case u.pending != "":
		return "", fmt.Errorf("%w: %s, and not %s yet", roundtrip.ErrPending, u.pending, key)
	default:
		return key, nil
	}
	return "", u.nags
}

// done notes what came of a question.
func (l *leg) done(digest, key string, raw json.RawMessage, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(err, roundtrip.ErrPending) && l.unkeyed.pending == "" {
		l.unkeyed.pending = key
	}
	var answer struct {
		Action string `json:"action"`
	}
	if err == nil && json.Unmarshal(raw, &answer) == nil {
		l.unkeyed.refused[digest] = answer.Action
	}
}

// settle says what the run comes to when it has asked without keys; nothing
// where that is for the handler to say.
func (l *leg) settle(ctx context.Context) (protocol.Result, error) {
	l.mu.Lock()
	u := l.unkeyed
	l.mu.Unlock()
	if u.nags != nil {
		return nil, u.nags
	}
	if u.pending == "" {
		return nil, nil
	}
	kept, _ := roundtrip.State[keptState](ctx)
	orphans := 0
	for _, key := range kept.Unkeyed {
		if !slices.Contains(u.used, key) {
			orphans++
		}
	}
	if orphans > maxOrphans {
		err := l.call.bug(ctx, fmt.Errorf("question %q is another one in every round; what it is made of must not change, or be kept with roundtrip.Memo", u.pending))
		// Asking twice under one key ends the flow, whatever is pending.
		_, _ = roundtrip.AskRequest(ctx, u.pending, &protocol.ListRoots{})
		return nil, err
	}
	kept.Unkeyed = append(kept.Unkeyed, u.pending)
	return roundtrip.InputRequired(roundtrip.WithState(kept)), nil
}
