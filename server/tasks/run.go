package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
)

// A run is one run of a task's handler in this process.
type run struct {
	tasks     *Tasks
	id        [32]byte
	owner     [32]byte // digest of the owner, as in the store
	name      string   // holder of the task, while this run holds it
	stop      context.CancelCauseFunc
	round     roundtrip.TaskRun
	takenOver bool        // the previous holder has ended
	spent     atomic.Bool // the handler's call has begun; calls that it makes are others

	mu   sync.Mutex
	task *store.Task
	rec  *record
	lost bool // this run no longer holds the task: given up, or taken over by another
	said time.Time
}

type runKey struct{}

// runTool handles each tools/call: it may begin a task, or be a task's run.
func (t *Tasks) runTool(ctx context.Context, tool *server.ToolRun, next server.ToolRunner) (
	protocol.Result, error) {
	if r, ok := ctx.Value(runKey{}).(*run); ok && tool.Request.InTask() &&
		r.spent.CompareAndSwap(false, true) {
		tool.Call.Task = &roundtrip.TaskCall{Run: &r.round}
		return next(ctx)
	}
	if tool.Task == server.TaskNever {
		return next(ctx)
	}
	ctx = context.WithValue(ctx, foregroundKey{}, &foreground{request: tool.Request})
	if tool.Request.Version.Era() != protocol.Modern {
		return next(ctx)
	}
	missing := tool.Call.Capabilities.Lacks(server.NeedsExtension(protocol.ExtensionTasks))
	switch {
	case missing.IsZero():
		tool.Call.Task = &roundtrip.TaskCall{Begin: func(ctx context.Context, flow [16]byte,
			journal []byte) (protocol.CallToolOutcome, error) {
			return t.begin(ctx, tool, flow, journal)
		}, Find: func(ctx context.Context, flow [16]byte) (*protocol.CreateTaskResult, error) {
			begun, err := t.begunBefore(ctx, digestFlow(flow), tool.Request.Principal)
			if errors.Is(err, store.ErrNoTask) {
				err = nil
			}
			return begun, err
		}}
	case tool.Task == server.TaskMust:
		return nil, protocol.MissingCapabilities(missing)
	}
	return next(ctx)
}

// begin stores a task and starts it. It returns the handle or, with Options.Inline, a quick result.
func (t *Tasks) begin(ctx context.Context, tool *server.ToolRun, flow [16]byte, journal []byte) (
	protocol.CallToolOutcome, error) {
	params, ok := tool.Request.Params.(*protocol.CallToolParams)
	if !ok {
		return nil, fmt.Errorf("not a call of a tool: %T", tool.Request.Params)
	}
	kept, err := paramsOf(params)
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	r := &record{ID: newID(), Owner: ownerOf(tool.Request.Principal), Tool: params.Name,
		Params: kept, Created: now, Updated: now, Status: statusWorking, Journal: journal,
		TTL:       t.timeToLive(params.Name, tool.Request.Principal),
		Unlimited: tool.Request.Access.Unlimited()}
	if access := tool.Request.Access; access != nil {
		r.Scopes = access.Scopes
	}
	task := &store.Task{ID: digestID(r.ID), Flow: digestFlow(flow),
		Owner: t.digestOwner(tool.Request.Principal)}
	times := t.times(r, false, true, now)
	t.claim(task, &times)
	if task.Record, err = t.seal(ctx, r, 1); errors.Is(err, errTooLarge) {
		return nil, protocol.Errorf(protocol.CodeInvalidParams,
			"invalid params: the call is too large for a task")
	} else if err != nil {
		return nil, err
	}
	// A client that disconnects must not leave a task claimed but not running.
	err = t.store.CreateTask(context.WithoutCancel(ctx), task, times,
		store.TaskRoom{Owner: t.opts.TasksPerPrincipal, All: t.opts.tasks})
	switch full, isFull := errors.AsType[*store.QuotaError](err); {
	case errors.Is(err, store.ErrTaskExists):
		begun, err := t.begunBefore(ctx, task.Flow, tool.Request.Principal)
		if errors.Is(err, store.ErrNoTask) { // the task is no longer kept
			return nil, errUnknown()
		}
		return begun, err
	case isFull:
		t.server.Report(ctx, event.QuotaExceeded{Where: event.Where{
			Version: tool.Request.Version, Method: protocol.MethodCallTool, Target: r.Tool},
			Resource: "tasks", Limit: full.Limit, RetryAfter: taskRetry})
		return nil, quota.Refuse(quota.Limit(full.Limit), taskRetry,
			"no room for another task: too many are unfinished, or stored results take too much "+
				"space; try again in %s", taskRetry)
	case err != nil:
		return nil, err
	}
	t.report(ctx, r, "begun", 0)
	handle, err := handleOf(r)
	if err != nil || t.opts.Inline == 0 || tool.Task == server.TaskMust {
		t.start(task, r, false)
		return handle, err
	}
	w, stop := t.watch(task.ID)
	defer stop()
	defer waiting.Begin(ctx)() // limits of the request do not apply to the run, which has its own
	t.start(task, r, false)
	return t.awaitInline(ctx, tool.Request.Principal, handle, w)
}

// awaitInline returns the result if the task ends soon, otherwise the handle. If the client
// disconnects first the task is cancelled: the client has no handle.
func (t *Tasks) awaitInline(ctx context.Context, p protocol.Principal,
	handle *protocol.CreateTaskResult, w *watcher) (protocol.CallToolOutcome, error) {
	id := digestID(handle.Task.ID)
	timer := time.NewTimer(t.opts.Inline)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return handle, nil
		case <-ctx.Done():
			_, _ = t.cancel(context.WithoutCancel(ctx), &server.ExtensionCall{
				Call:   server.Call{Principal: p},
				Params: &protocol.TaskParams{TaskID: handle.Task.ID}, Target: handle.Task.ID})
			t.cancelRun(id, errCancelled) // even if the store is unavailable
			return nil, context.Cause(ctx)
		case <-w.wake:
		}
		rec := t.take(w)[id]
		if rec == nil || rec.Status == statusWorking {
			continue // the handle is valid nevertheless
		}
		shown, err := rec.toTask(time.Now())
		if err != nil {
			return nil, err
		}
		if done, ok := shown.State.(protocol.TaskCompleted); ok {
			t.noteReadOf(context.WithoutCancel(ctx), id)
			return done.Result, nil
		}
		handle.Task = *shown
		return handle, nil
	}
}

const taskRetry = 30 * time.Second // for clients refused because of too many tasks

const defaultTTL = 7 * 24 * time.Hour

func (t *Tasks) timeToLive(tool string, p protocol.Principal) time.Duration {
	ttl := time.Duration(0)
	if t.opts.TTL != nil {
		ttl = t.opts.TTL(tool, p)
	}
	if ttl <= 0 {
		ttl = defaultTTL
	}
	return ttl.Truncate(time.Millisecond)
}

// begunBefore returns the handle of the flow's task, for a client that lost it.
func (t *Tasks) begunBefore(ctx context.Context, flow [32]byte, p protocol.Principal) (
	*protocol.CreateTaskResult, error) {
	task, err := t.store.GetFlow(ctx, flow)
	if err != nil {
		return nil, err
	}
	r, err := t.open(ctx, task)
	if err != nil {
		return nil, err
	}
	if r.Owner.principal() != p {
		return nil, errUnknown()
	}
	return handleOf(r)
}

func handleOf(r *record) (*protocol.CreateTaskResult, error) {
	shown, err := r.toTask(time.Now())
	if err != nil {
		return nil, err
	}
	return &protocol.CreateTaskResult{Task: *shown}, nil
}

// start runs a claimed task. Without a free slot it waits, while its lease is renewed. takenOver
// means that another process held the task and has ended.
func (t *Tasks) start(task *store.Task, rec *record, takenOver bool) {
	if task.Holder == "" {
		return // this process has no room, or is closing
	}
	ctx, stop := context.WithCancelCause(t.base)
	r := &run{tasks: t, id: task.ID, owner: task.Owner, name: task.Holder, stop: stop, task: task,
		rec: rec, takenOver: takenOver}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.admits.Err() != nil {
		t.mu.Unlock() // giveBack asks the store, so not under the lock
		r.giveBack(ctx, 0)
		t.mu.Lock()
		stop(nil)
		return
	}
	if old := t.running[task.ID]; old != nil { // the old run has given up or lost the task
		old.stop(errLost)
	}
	t.running[task.ID] = r
	t.work.Go(func() {
		defer stop(nil)
		defer r.forget()
		r.execute(ctx)
	})
}

func (r *run) forget() {
	r.tasks.mu.Lock()
	defer r.tasks.mu.Unlock()
	if r.tasks.running[r.id] == r {
		delete(r.tasks.running, r.id)
		r.tasks.rememberLocked(r)
	}
	r.tasks.lookAgainLocked(r.owner)
}

// cancelRun stops the task's run in this process, if any.
func (t *Tasks) cancelRun(id [32]byte, cause error) {
	t.mu.Lock()
	r := t.running[id]
	t.mu.Unlock()
	if r != nil {
		r.stop(cause)
	}
}

// execute runs the handler and stores the outcome.
func (r *run) execute(ctx context.Context) {
	t := r.tasks
	done := make(chan struct{})
	var keeping sync.WaitGroup
	keeping.Go(func() { r.keepLease(ctx, done) })
	defer keeping.Wait()
	defer close(done)
	if !r.takeSlot(ctx) {
		return
	}
	defer t.slots.Give(r.owner, 1)
	shown := r.copyRecord()
	limit := min(t.opts.RunTimeout, time.Until(shown.expires()))
	t.report(ctx, &shown, "runs", time.Since(shown.Created))
	defer func() { t.report(ctx, &shown, "stops", time.Since(shown.Created)) }()
	timer := time.AfterFunc(limit, func() { r.stop(errRunTime) })
	defer timer.Stop()
	response, err := r.call(ctx)
	r.settle(ctx, response, err)
}

// takeSlot waits until the handler may run. Ending meanwhile is not a death.
func (r *run) takeSlot(ctx context.Context) bool {
	slots, owner := r.tasks.slots, r.owner
	if slots.Take(owner, 1) == quota.None {
		return true
	}
	if r.store(ctx, func(rec *record) { rec.Queued = true }, true, 0) != nil {
		return false
	}
	queued := r.copyRecord()
	began := time.Now()
	r.tasks.report(ctx, &queued, "queued", time.Since(queued.Created))
	admitted, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.tasks.admits, func() { cancel(errShutdown) })()
	err := slots.Await(admitted, owner, 1)
	r.tasks.report(ctx, &queued, "dequeued", time.Since(began))
	if err != nil {
		r.settleStopped(ctx, time.Now())
		return false
	}
	if r.store(ctx, func(rec *record) { rec.Queued = false }, true, 0) != nil {
		slots.Give(owner, 1)
		return false
	}
	return true
}

// call sends the run's request to the server itself.
func (r *run) call(ctx context.Context) (*protocol.Response, error) {
	rec := r.copyRecord()
	decoded, err := protocol.DecodeParams(protocol.MethodCallTool, rec.Params)
	if err != nil {
		return nil, err
	}
	params := decoded.(*protocol.CallToolParams)
	params.ProgressToken, err = protocol.ParseID([]byte(`"task"`))
	if err != nil {
		return nil, err
	}
	r.round = roundtrip.TaskRun{Journal: rec.Journal, Save: r.save, Fits: r.fits}
	for _, a := range rec.Answers {
		params.InputResponses = append(params.InputResponses,
			protocol.KeyedResponse{Key: a.Key, Result: a.Result})
		r.round.Waited = append(r.round.Waited, a.Waited)
	}
	raw, err := protocol.EncodeParams(params)
	if err != nil {
		return nil, err
	}
	access := &server.Access{Scopes: rec.Scopes}
	if rec.Unlimited {
		access = server.UnlimitedAccess()
	}
	if prepare := r.tasks.opts.Prepare; prepare != nil {
		prepared, granted, err := callPrepare(ctx, prepare,
			RunInfo{Principal: rec.Owner.principal(), Tool: rec.Tool, Scopes: rec.Scopes})
		if err != nil {
			return nil, &prepareError{err}
		}
		if ctx = prepared; granted != nil {
			access = granted
		}
	}
	ctx = server.WithAccess(server.WithPrincipal(rpc.WithTaskRun(ctx), rec.Owner.principal()), access)
	ctx = context.WithValue(ctx, runKey{}, r)
	return r.tasks.server.Handle(ctx,
		&protocol.Request{Method: protocol.MethodCallTool, Params: raw,
			ID: params.ProgressToken}, r)
}

// callPrepare returns a panic as an error: it runs outside any request, which would recover it.
func callPrepare(ctx context.Context, prepare func(context.Context, RunInfo) (context.Context,
	*server.Access, error), info RunInfo) (_ context.Context, _ *server.Access, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return prepare(ctx, info)
}

// A prepareError means that Options.Prepare failed: the run is retried later.
type prepareError struct{ error }

const dueSlack = 10 * time.Millisecond // for stores with coarse clocks

const prepareRetry = 10 * time.Second // until the retry of a run that could not begin

// settle stores the outcome of a run.
func (r *run) settle(ctx context.Context, response *protocol.Response, err error) {
	now := time.Now()
	switch _, unprepared := errors.AsType[*prepareError](err); {
	case r.isLost():
	case unprepared:
		r.tasks.reportStore(ctx, "prepare", err)
		r.giveBack(ctx, prepareRetry)
	case (ctx.Err() != nil || isClosed(r.tasks.server.Done())) && !hasCompleted(response):
		r.settleStopped(ctx, now)
	case err != nil:
		r.tasks.reportStore(ctx, "run", err)
		r.finish(ctx, func(rec *record) {
			rec.fail(protocol.Errorf(protocol.CodeInternalError, "the task cannot be run"), now)
		})
	case response.Error != nil && !r.spent.Load() && response.Error.Code == protocol.CodeBusy:
		r.giveBack(ctx, prepareRetry) // middleware had no room for it
	case response.Error != nil && !r.spent.Load() && r.countAttempt():
		// The tool may be added later, or be known only to newer replicas.
		r.giveBack(ctx, prepareRetry)
	case response.Error != nil:
		r.finish(ctx, func(rec *record) { rec.fail(response.Error, now) })
	default:
		r.settleResult(ctx, response.Result, now)
	}
}

// countAttempt counts a run that could not begin, and reports whether to retry.
func (r *run) countAttempt() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rec.Attempts++
	return r.rec.Attempts < maxDeaths
}

// hasCompleted reports a success, which counts even if the run was stopped.
func hasCompleted(response *protocol.Response) bool {
	if response == nil || response.Error != nil {
		return false
	}
	result, err := protocol.DecodeResult(protocol.Latest, protocol.MethodCallTool, response.Result)
	done, ok := result.(*protocol.CallToolResult)
	return err == nil && ok && !done.IsError
}

// settleStopped stores the outcome of a run whose context has ended.
func (r *run) settleStopped(ctx context.Context, now time.Time) {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errCancelled):
		r.finish(ctx, func(rec *record) { rec.end(statusCancelled, now) })
	case errors.Is(cause, errRunTime):
		failed := protocol.Errorf(protocol.CodeInternalError,
			"the task was stopped: a run exceeded its time limit")
		r.finish(ctx, func(rec *record) { rec.fail(failed, now) })
	default:
		r.giveBack(ctx, 0)
	}
}

// settleResult stores a result: the task is over, asks, or waits.
func (r *run) settleResult(ctx context.Context, raw []byte, now time.Time) {
	result, err := protocol.DecodeResult(protocol.Latest, protocol.MethodCallTool, raw)
	asks, more := result.(*protocol.InputRequiredResult)
	if _, done := result.(*protocol.CallToolResult); done && err == nil {
		r.finish(ctx, func(rec *record) {
			rec.end(statusCompleted, now)
			rec.Result = raw
		})
		return
	}
	if err != nil || !more {
		r.finish(ctx, func(rec *record) {
			rec.fail(protocol.Errorf(protocol.CodeInternalError, "the result cannot be kept"), now)
		})
		return
	}
	r.finish(ctx, func(rec *record) {
		rec.keepJournal(r.round.Next)
		rec.Answers, rec.Status, rec.WaitsFor = nil, statusWorking, r.round.WaitsFor
		rec.Message = cleanMessage(r.round.Message) // replaces the message of the finished run
		if len(asks.InputRequests) == 0 {           // it waits, or has only a state for its next round
			rec.Looks++
			return
		}
		rec.Looks = 0
		if len(rec.Used)+len(asks.InputRequests) > maxQuestions {
			rec.fail(protocol.Errorf(protocol.CodeFlowEnded,
				"gave up: the task has asked %d questions", len(rec.Used)), now)
		} else if err := rec.ask(asks.InputRequests, now); err != nil {
			rec.fail(protocol.Errorf(protocol.CodeInternalError, "%v", err), now)
		}
	})
}

// finish applies f to the latest record, which may be cancelled by now, and gives up the task.
func (r *run) finish(ctx context.Context, f func(*record)) {
	r.store(ctx, func(rec *record) {
		f(rec)
		if rec.Cancelled && !rec.isOver() {
			rec.end(statusCancelled, time.Now())
		}
	}, false, 0)
}

// giveBack releases the task, for another process or for later.
func (r *run) giveBack(ctx context.Context, after time.Duration) {
	r.store(ctx, func(rec *record) {
		if rec.Cancelled {
			rec.end(statusCancelled, time.Now())
		}
	}, false, after)
}

// store applies f to the record, stores it, and keeps or gives up the task. It retries until the
// lease ends and another process reruns the handler. A run that cannot keep its task is stopped.
func (r *run) store(ctx context.Context, f func(*record), keep bool, after time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.tasks.opts.Lease)
	defer cancel()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := r.storeOnceLocked(ctx, f, keep, after)
		if err == nil {
			return nil
		}
		if errors.Is(err, errLost) {
			r.lost = true
			r.stop(errLost)
			return err
		}
		if errors.Is(err, store.ErrTaskChanged) && ctx.Err() == nil {
			continue
		}
		if errors.Is(err, errTooLarge) {
			f = func(rec *record) {
				rec.fail(protocol.Errorf(protocol.CodeInternalError,
					"the task was stopped: its record is too large"), time.Now())
			}
			continue
		}
		r.mu.Unlock() // so that the lease can be renewed meanwhile
		r.tasks.reportStore(ctx, "put", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		r.mu.Lock()
		if ctx.Err() != nil {
			r.lost = true
			r.stop(errLost)
			return err
		}
	}
}

// storeOnceLocked tries once. After a conflict it reloads the record.
func (r *run) storeOnceLocked(ctx context.Context, f func(*record), keep bool,
	after time.Duration) error {
	if r.lost {
		return errLost
	}
	t, now := r.tasks, time.Now()
	task, rec := *r.task, *r.rec
	rec.Used = append([]string(nil), rec.Used...)
	if r.spent.Load() {
		rec.Attempts = 0
	}
	if rec.hasExpired(now) {
		rec.expire(now)
	} else {
		f(&rec)
	}
	goesOn := keep && !rec.isOver()
	if task.Holder = ""; goesOn {
		task.Holder = r.name
	}
	times := t.times(&rec, goesOn, rec.Status == statusWorking, now)
	if !goesOn && times.Due >= 0 {
		times.Due = max(times.Due, after)
	}
	err := t.put(ctx, &task, &rec, times)
	if err == nil {
		*r.task, *r.rec, r.lost = task, rec, !goesOn
		if !goesOn && times.Due >= 0 && t.admits.Err() == nil {
			time.AfterFunc(times.Due+dueSlack, func() { t.takeOver(t.base, task.ID) })
		}
		if keep && !goesOn {
			return errLost
		}
		return nil
	}
	if errors.Is(err, store.ErrNoTask) {
		return errLost
	}
	if !errors.Is(err, store.ErrTaskChanged) {
		return err
	}
	current, err := t.store.GetTask(ctx, r.id)
	if err != nil {
		return err
	}
	if current.Holder != r.name {
		return errLost
	}
	changed, err := t.open(ctx, current)
	if err != nil {
		return err
	}
	*r.task = *current
	if changed.Cancelled {
		r.rec.Cancelled = true
		r.stop(errCancelled)
	}
	return store.ErrTaskChanged
}

func (r *run) copyRecord() record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return *r.rec
}

func (r *run) isLost() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

// save stores the journal of a running task, for the next run.
func (r *run) save(ctx context.Context, journal []byte) error {
	return r.store(ctx, func(rec *record) { rec.keepJournal(journal) }, true, 0)
}

// The method fits reports whether the final record has room for a result.
func (r *run) fits(result []byte) bool {
	rec := r.copyRecord()
	rec.end(statusCompleted, time.Now())
	rec.Result = result
	text, err := json.Marshal(&rec)
	return err == nil && len(text)+metaBytes <= maxRecord
}

const metaBytes = 4 << 10 // more than the server adds to a result

// Notify implements [protocol.Back]: progress becomes the status message, the rest is dropped.
func (r *run) Notify(ctx context.Context, n *protocol.Notification) error {
	if n.Method != protocol.NotifyProgress {
		return nil
	}
	var p protocol.Progress
	if err := jsonx.Decode(n.Params, &p); err != nil {
		return err
	}
	switch {
	case p.Message != "":
	case p.Total != nil:
		p.Message = fmt.Sprintf("%g of %g", p.Progress, *p.Total)
	default:
		p.Message = fmt.Sprintf("%g", p.Progress)
	}
	r.say(ctx, p.Message)
	return nil
}

const sayEvery = time.Second // between stored status messages; those in between are not seen

func (r *run) say(ctx context.Context, text string) {
	r.mu.Lock()
	r.rec.Message = cleanMessage(text)
	now := time.Now()
	soon := now.Sub(r.said) < sayEvery
	if !soon {
		r.said = now
	}
	r.mu.Unlock()
	if !soon {
		_ = r.store(ctx, func(rec *record) { rec.touch(now) }, true, 0)
	}
}

// A foreground is a call that runs outside a task.
type foreground struct {
	request *server.Request
	steps   atomic.Int64
}

type foregroundKey struct{}

// StatusMessage reports progress to the client: in a task as its status message, cut at 512
// characters and stored about once a second, elsewhere as a progress notification, if the client
// asked for progress. It is for handlers of tools whose Task is set, which must not also call
// [server.Call.Progress]; elsewhere it does nothing. It never fails a run.
func StatusMessage(ctx context.Context, text string) {
	if r, ok := ctx.Value(runKey{}).(*run); ok {
		r.say(ctx, text)
		return
	}
	f, ok := ctx.Value(foregroundKey{}).(*foreground)
	if !ok || f.request.Meta.ProgressToken.IsZero() {
		return
	}
	params, err := jsonx.Encode(protocol.Progress{Token: f.request.Meta.ProgressToken,
		Progress: float64(f.steps.Add(1)), Message: cleanMessage(text)})
	if err == nil {
		_ = f.request.Notify(ctx,
			&protocol.Notification{Method: protocol.NotifyProgress, Params: params})
	}
}
