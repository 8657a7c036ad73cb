package roundtrip

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
)

// BeginTask is the point where a call becomes a task (the tasks extension): earlier questions are
// asked in the foreground, later ones when the client polls, by whichever process runs then.
//
//	confirmed, err := roundtrip.Ask[Confirmation](ctx, "confirm", "Rebuild the index?")
//	if err != nil {
//		return nil, err
//	}
//	if err := roundtrip.BeginTask(ctx); err != nil {
//		return nil, err
//	}
//
// If the client supports tasks, BeginTask returns [ErrPending] and the handler's context ends; the
// client gets a handle, and the handler runs again from its start, where BeginTask returns nil. For
// other clients, in sessions, and on a second call it returns nil at once. Calls may overlap.
func BeginTask(ctx context.Context) error {
	r := runFrom(ctx)
	if r == nil {
		return noRound(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.call.Task == nil || r.call.Task.Begin == nil {
		return nil
	}
	f, err := r.versionedFlowLocked()
	if err != nil {
		return err
	}
	f.begins = true
	r.ctx.Cancel(ErrPending)
	return fmt.Errorf("%w: a task begins", ErrPending)
}

// InTask reports whether the handler of ctx runs in a task.
func InTask(ctx context.Context) bool {
	r := runFrom(ctx)
	return r != nil && r.taskRun() != nil
}

// AwaitEvent waits for something other than an answer or a visit, such as an approval elsewhere or
// a job. key names it within the flow. done reports whether it has happened, as in [Await].
//
// In a task the run ends, and the handler runs again after a while, or when the host is notified.
// Elsewhere the request is held, as by Await, and refused after the timeout.
func AwaitEvent(ctx context.Context, key string, done func(context.Context) (bool, error)) error {
	r := askerFrom(ctx)
	if r.run == nil {
		return ErrNoRound
	}
	finished, err := r.beginAwait(key, done == nil)
	if err != nil || finished {
		return err
	}
	if over, err := r.lookAtVisit(ctx, key, done, true); over {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrNoRound
	}
	r.startFlowLocked()
	if r.taskRun() != nil {
		return r.waitLocked(key)
	}
	err = fmt.Errorf("timed out waiting for %q", key)
	return r.endLocked(&ending{err: err, how: words.EndFailed, refusal: &refusal{
		code: protocol.CodeFlowEnded, text: err.Error() + "; call again later"}})
}

func (p *questioner) taskRun() *TaskRun {
	if p.call.Task == nil {
		return nil
	}
	return p.call.Task.Run
}

func (r *run) waitLocked(key string) error {
	if r.flow.end != nil {
		return r.flow.end.err
	}
	r.flow.waitsFor = append(r.flow.waitsFor, key)
	r.ctx.Cancel(ErrPending)
	return fmt.Errorf("%w: %w: %s", ErrPending, ErrNotFinished, key)
}

const maxTaskRounds = 256 // it has days, where a flow has minutes

func (r *run) maxRounds() int {
	if r.taskRun() != nil {
		return maxTaskRounds
	}
	return r.funnel.opts.Limits.Rounds
}

// taskMode is the mode of a task's runs: the host gets and keeps questions and journal.
type taskMode struct{ returnMode }

func (taskMode) visitLimit(asker, *questioner) time.Duration { return 0 }

func (e *exchange) openJournal(ctx context.Context) (*run, error) {
	task := e.call.Task.Run
	r := e.openRun(&e.first, e.call.Responses, protocol.RequestState{})
	r.opened = time.Now()
	c, err := e.decodeClaims(task.Journal)
	if err != nil {
		return nil, e.reportRejection(ctx, err)
	}
	if c.Principal.Issuer != credentialIssuer && c.Principal != e.call.Principal {
		return nil, e.reportRejection(ctx, r.rejectPrincipal(c))
	}
	if reason := r.checkBinding(c); reason != "" {
		return nil, e.reportRejection(ctx, &rejection{reason: reason})
	}
	r.locateEvents(c)
	r.resumeFlow(ctx, c, 0)
	r.took = make([]pushTime, len(r.responses))
	for i := range min(len(r.took), len(task.Waited)) {
		r.took[i].waited = task.Waited[i]
	}
	return r, nil
}

// suspendTask ends a run where its task begins, or waits for something other than a question.
func (r responder) suspendTask(ctx context.Context, d *draft) (protocol.Result, error) {
	if err := r.ensureArgumentsDigest(); err != nil {
		return nil, protocol.Errorf(protocol.CodeInvalidParams, "%s", err)
	}
	var next claims.Claims
	r.fillNextClaims(&next, d, time.Now())
	r.nameSpan(ctx, &next)
	journal := next.AppendTo(make([]byte, 0, next.EncodedSize()))
	if task := r.taskRun(); task != nil {
		task.Next, task.WaitsFor = journal, r.waitKeys()
		return &protocol.InputRequiredResult{RequestState: protocol.StateText("waits")}, nil
	}
	outcome, err := r.call.Task.Begin(ctx, next.Flow, journal)
	if err != nil {
		r.giveClaimUp() // nothing has begun: the round may be retried
		if wire, ok := protocol.AsError(err); ok {
			return nil, wire
		}
		return nil, r.reportUnserved(ctx, &storeError{resourceTasks, "create", err})
	}
	return outcome, nil
}

// waitKeys returns the keys that the run waits for, including repeated visits of guard style.
func (r *run) waitKeys() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := slices.Clone(r.flow.waitsFor)
	for _, v := range r.flow.unfinished {
		if !slices.Contains(keys, v.key) {
			keys = append(keys, v.key)
		}
	}
	return keys
}

func (r *run) saveJournal(ctx context.Context) error {
	task := r.taskRun()
	if task == nil {
		return nil
	}
	r.saving.Lock()
	defer r.saving.Unlock()
	r.mu.Lock()
	c := *r.prior
	if c.Version != r.version { // left by another version, so dropped with its answers
		c.Version, c.Asked, c.Answers, c.State = r.version, nil, nil, nil
	}
	c.Memos = r.memos
	r.mu.Unlock()
	if err := task.Save(ctx, c.AppendTo(make([]byte, 0, c.EncodedSize()))); err != nil {
		return r.endWithError(&storeError{resourceTasks, "save", err})
	}
	return nil
}

// committedKey is the memo key for begun OnCommit functions; no author's key has its prefix.
const committedKey = "\x00committed"

// beginCommits reports whether OnCommit functions may run: once in a task, even if a run repeats.
func (r responder) beginCommits(ctx context.Context, result protocol.Result) bool {
	task := r.taskRun()
	if task == nil {
		return true
	}
	data, err := protocol.EncodeResult(protocol.Latest, r.call.Method, result)
	if err != nil || !task.Fits(data) {
		return false
	}
	r.mu.Lock()
	begun := r.findMemoLocked(committedKey) != nil
	if !begun {
		r.addMemoLocked(committedKey, json.RawMessage("true"))
	}
	r.mu.Unlock()
	return !begun && r.saveJournal(ctx) == nil
}
