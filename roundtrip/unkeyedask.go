package roundtrip

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	unkeyedPrefix    = "question-"
	concurrentPrefix = "concurrent-" + unkeyedPrefix
	// maxUnusedAnswers is how many answers a run with several goroutines may leave unused before it
	// asks: one, because a goroutine may decide otherwise with a later answer.
	maxUnusedAnswers = 1
)

// unkeyedTable has the unkeyed questions of one run. The run's mutex guards all but asking and run.
type unkeyedTable struct {
	run     *run
	asking  sync.Mutex        // held while a replayed run asks
	asked   []unkeyedQuestion // in order
	pending *unkeyedQuestion  // the one that the client will be asked
}

// An unkeyedQuestion has no key. It is of this run or, if read from a state, of an earlier run.
type unkeyedQuestion struct {
	content    questionContent
	number     int  // within the flow, from 1; 0: not asked, another is pending
	concurrent bool // asked outside the handler's goroutine
}

// questionContent identifies questions without keys.
type questionContent struct {
	kind   protocol.InputKind
	form   [32]byte
	prompt [16]byte
}

func (q Question) identifyContent() (questionContent, error) {
	mark, err := q.makeMark()
	return questionContent{q.request.Kind(), q.formDigest(), mark.PromptDigest}, err
}

func (q *unkeyedQuestion) formatKey() string {
	if q.concurrent {
		return concurrentPrefix + strconv.Itoa(q.number)
	}
	return unkeyedPrefix + strconv.Itoa(q.number)
}

// parseUnkeyed reads a question of a state; ok is false for one with an author's key.
func parseUnkeyed(key string, content questionContent,
	mark claims.Mark) (q unkeyedQuestion, ok bool) {
	content.prompt = mark.PromptDigest
	q.content = content
	digits, plain := strings.CutPrefix(key, unkeyedPrefix)
	if !plain {
		if digits, q.concurrent = strings.CutPrefix(key, concurrentPrefix); !q.concurrent {
			return q, false
		}
	}
	n, err := strconv.Atoi(digits)
	q.number = n
	return q, mark.Set && err == nil && n > 0 && q.formatKey() == key
}

func (r asker) unkeyedQuestions() (*unkeyedTable, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := r.versionedFlowLocked()
	if err != nil {
		return nil, err
	}
	if f.unkeyed == nil {
		f.unkeyed = &unkeyedTable{run: r.run}
	}
	return f.unkeyed, nil
}

// placeUnkeyed gives q the number of the matching question of an earlier run, or the next.
func (r asker) placeUnkeyed(u *unkeyedTable, q *unkeyedQuestion) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.activeFlowLocked(); err != nil {
		return err
	}
	before := u.asked
	u.asked = append(u.asked, *q)
	placed := &u.asked[len(u.asked)-1]
	same, fromElsewhere := 0, q.concurrent
	for i := range before {
		if before[i].content == q.content {
			same++
			fromElsewhere = fromElsewhere || before[i].concurrent
		}
	}
	if same > 0 && fromElsewhere {
		return r.failLocked(&journalError{unkeyedPrefix + strconv.Itoa(len(u.asked)),
			"several goroutines ask the same, and nothing tells their answers apart; name the " +
				"questions with WithKey, or ask them from the handler's own goroutine"})
	}
	if u.pending != nil {
		// The handler ignored the error: this question depends on a missing answer.
		return fmt.Errorf("%w: %s, and no other yet", ErrPending, u.pending.formatKey())
	}
	earlier := r.earlierUnkeyedLocked()
	if i := indexSame(earlier, q.content, same); i >= 0 {
		if same > 0 && !slices.Equal(before, earlier[:i]) {
			return r.endChangedLocked(earlier[i].formatKey())
		}
		*placed = earlier[i]
		q.number, q.concurrent = placed.number, placed.concurrent
		return nil
	}
	if !q.concurrent {
		// The handler's goroutine asks in one order: questions of earlier runs come first.
		for _, e := range earlier {
			if !e.concurrent && !slices.Contains(before, e) {
				return r.endChangedLocked(e.formatKey())
			}
		}
	}
	q.number = 1
	if len(earlier) > 0 {
		q.number = earlier[len(earlier)-1].number + 1
	}
	placed.number = q.number
	return nil
}

// indexSame returns the index of the first question with content after skip such ones, or -1.
func indexSame(list []unkeyedQuestion, content questionContent, skip int) int {
	for i := range list {
		if list[i].content != content {
			continue
		}
		if skip == 0 {
			return i
		}
		skip--
	}
	return -1
}

func (r *run) earlierUnkeyedLocked() []unkeyedQuestion {
	earlier := make([]unkeyedQuestion, 0, len(r.answers)+len(r.asked()))
	for _, a := range r.answers {
		if q, ok := parseUnkeyed(a.key, questionContent{kind: a.kind, form: a.digest}, a.mark); ok {
			earlier = append(earlier, q)
		}
	}
	asked := r.asked()
	for i := range asked {
		a := &asked[i]
		q, ok := parseUnkeyed(a.Key, questionContent{kind: a.Kind, form: a.Digest}, a.Mark)
		if ok && !slices.Contains(earlier, q) { // without an answer
			earlier = append(earlier, q)
		}
	}
	slices.SortFunc(earlier, func(a, b unkeyedQuestion) int { return a.number - b.number })
	return earlier
}

// endIfUnused ends a run that asks anew with too many unused answers: its questions change.
func (r *run) endIfUnused() {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.flow
	if f == nil || f.end != nil || f.unkeyed == nil || f.unkeyed.pending == nil {
		return
	}
	unused := 0
	for _, e := range r.earlierUnkeyedLocked() {
		asked := func(q unkeyedQuestion) bool { return q.content == e.content }
		if !slices.ContainsFunc(f.unkeyed.asked, asked) {
			unused++
		}
	}
	if unused > maxUnusedAnswers {
		f.end = changedEnding(f.unkeyed.pending.formatKey())
	}
}

// isSkippedLocked reports whether a answers an unkeyed question that this run has not asked.
func (r *run) isSkippedLocked(a *answer) bool {
	_, unkeyed := parseUnkeyed(a.key, questionContent{kind: a.kind, form: a.digest}, a.mark)
	return unkeyed && (r.flow == nil || !slices.Contains(r.flow.used, a.key))
}

// findSkippedRefusal returns a refusal of an unkeyed question that this run has not asked.
func (r *run) findSkippedRefusal() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.answers {
		if refused := a.asRefusal(); refused != nil && r.isSkippedLocked(a) {
			return refused
		}
	}
	return nil
}

// endChangedLocked ends the run because another question was asked instead of the answered one.
func (r *run) endChangedLocked(key string) error {
	end := changedEnding(key)
	if r.otherApp() != "" { // no mistake: another version asked
		end.bug, end.refusal.text = false, r.versionsText()
	}
	return r.endLocked(end)
}

func changedEnding(key string) *ending {
	err := &journalError{key, "when the handler ran again with the answer it asked another " +
		"question in this place; its text, URL and order must not change between rounds: keep " +
		"what is fresh in it with roundtrip.Nonce or roundtrip.Memo"}
	return &ending{err: err, how: words.EndFailed, bug: true, refusal: &refusal{
		code: protocol.CodeFlowEnded,
		text: fmt.Sprintf("The server asked something else when it ran again with the answer to "+
			"%q. That answer was not used, and nothing more is asked. This is a mistake in the "+
			"server: what is fresh in its question must be kept with roundtrip.Nonce or "+
			"roundtrip.Memo.", key),
	}}
}

func (r *run) endWithError(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, over := r.activeFlowLocked(); over != nil {
		return over
	}
	return r.failLocked(err)
}

const maxTargets = 1024 // resource names come from clients

// A targetSet has the tools, prompts and resources whose problem was logged, once each.
type targetSet struct {
	mu    sync.Mutex
	known map[string]struct{}
}

// addTarget reports whether the target is new and there is room.
func (s *targetSet) addTarget(method, target string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := method + " " + target
	if _, known := s.known[key]; known || len(s.known) >= maxTargets {
		return false
	}
	if s.known == nil {
		s.known = map[string]struct{}{}
	}
	s.known[key] = struct{}{}
	return true
}
