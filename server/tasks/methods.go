package tasks

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
)

func (t *Tasks) extension() server.Extension {
	return server.Extension{
		Name: protocol.ExtensionTasks,
		Methods: []server.ExtensionMethod{
			{Method: protocol.MethodGetTask, Target: "taskId", Handle: t.get},
			{Method: protocol.MethodUpdateTask, Target: "taskId", Handle: t.update},
			{Method: protocol.MethodCancelTask, Target: "taskId", Handle: t.cancel},
		},
		RunTool: t.runTool,
		Listen:  t.listen,
	}
}

const maxPolled = 10_000 // tasks whose polls are counted

type pollCount struct {
	second int64
	n      int
}

// countPoll refuses a client that polls or changes a task too often.
func (t *Tasks) countPoll(method string, call *server.ExtensionCall) error {
	id := t.digest(method, call.Target+"\x00"+string(quota.AppendPrincipal(nil, call.Principal)))
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now().Unix()
	c, ok := t.polls.Get(id)
	if !ok || c.second != now {
		c = &pollCount{second: now}
		t.polls.Put(id, c)
	}
	if c.n++; c.n > maxPolls {
		return quota.Refuse(quota.Share, time.Second,
			"the task is polled too often; see pollIntervalMs")
	}
	return nil
}

// errUnknown does not tell whether a task is unknown, gone or another caller's.
func errUnknown() error {
	return protocol.Errorf(protocol.CodeInvalidParams,
		"unknown task: it does not exist, or is no longer kept")
}

// find returns the task of a request, if its caller may access it. Unknown and foreign tasks cost
// the same: one read of the store and one opened record. An expired task fails in the store before
// anyone sees it: other replicas' clocks may differ.
func (t *Tasks) find(ctx context.Context, call *server.ExtensionCall) (
	*store.Task, *record, error) {
	id := call.Params.(*protocol.TaskParams).TaskID
	task, err := t.store.GetTask(ctx, digestID(id))
	if errors.Is(err, store.ErrNoTask) {
		_, _ = t.open(ctx, t.decoy)
		return nil, nil, errUnknown()
	}
	if err != nil {
		return nil, nil, t.reportStore(ctx, "get", err)
	}
	r, err := t.open(ctx, task)
	if err != nil {
		return nil, nil, t.reportStore(ctx, "open", err)
	}
	if r.ID != id || !t.mayHave(ctx, call, r) {
		return nil, nil, errUnknown()
	}
	switch err := t.expire(context.WithoutCancel(ctx), task, r); {
	case errors.Is(err, store.ErrTaskChanged):
		return t.find(ctx, call)
	case err != nil:
		return nil, nil, t.reportStore(ctx, "put", err)
	}
	return task, r, nil
}

func (t *Tasks) mayHave(ctx context.Context, call *server.ExtensionCall, r *record) bool {
	return r.Owner.principal() == call.Principal &&
		(t.opts.Allowed == nil || t.opts.Allowed(ctx, call.Principal, r.Tool))
}

// expire stores the failure of an expired task.
func (t *Tasks) expire(ctx context.Context, task *store.Task, r *record) error {
	now := time.Now()
	if !r.hasExpired(now) {
		return nil
	}
	task.Holder = ""
	r.expire(now)
	return t.put(ctx, task, r, t.times(r, false, false, now))
}

// reportStore reports a failed store. Clients must not get "unknown task": they would give up.
func (t *Tasks) reportStore(ctx context.Context, operation string, err error) error {
	t.server.Report(ctx, event.StoreFailed{Resource: "tasks", Operation: operation,
		Err: err})
	return protocol.Errorf(protocol.CodeInternalError,
		"the task store is unavailable; try again later")
}

func (t *Tasks) report(ctx context.Context, r *record, change string, lasted time.Duration) {
	t.server.Report(ctx, event.TaskChanged{Where: event.Where{Version: protocol.Latest,
		Method: protocol.MethodCallTool, Target: r.Tool}, Task: rpc.LogTarget(
		protocol.MethodGetTask, r.ID), Change: change, Deaths: r.Deaths, Lasted: lasted})
}

func (t *Tasks) get(ctx context.Context, call *server.ExtensionCall) (protocol.Result, error) {
	if err := t.countPoll(protocol.MethodGetTask, call); err != nil {
		return nil, err
	}
	found, r, err := t.find(ctx, call)
	if err != nil {
		return nil, err
	}
	if found.Due { // its client waits, so do not wait for the next sweep
		t.takeOver(context.WithoutCancel(ctx), found.ID)
	}
	t.noteRead(ctx, found, r)
	task, err := t.show(r, call.Capabilities())
	if err != nil {
		return nil, err
	}
	return &protocol.GetTaskResult{Task: *task}, nil
}

// noteRead tries to shorten how long an ended task is kept, since its client knows the outcome.
func (t *Tasks) noteRead(ctx context.Context, task *store.Task, r *record) {
	now := time.Now()
	ttl := max(now.Add(keepAfterRead).Sub(r.Created).Truncate(time.Millisecond), keepAtLeast)
	if !r.isOver() || r.Read || r.TTL <= ttl {
		return
	}
	read := *r
	read.Read, read.TTL = true, ttl
	if t.put(context.WithoutCancel(ctx), task, &read, t.times(&read, false, false, now)) == nil {
		*r = read
	}
}

// show returns a task for a client with capabilities c, which must support the questions.
func (t *Tasks) show(r *record, c protocol.ClientCapabilities) (*protocol.Task, error) {
	task, err := r.toTask(time.Now())
	if err != nil {
		return nil, err
	}
	asks, ok := task.State.(protocol.TaskInputRequired)
	if !ok {
		return task, nil
	}
	var missing protocol.ClientCapabilities
	for _, q := range asks.Requests {
		missing = missing.Union(c.Missing(q.Request))
	}
	if !missing.IsZero() {
		return nil, protocol.MissingCapabilities(missing)
	}
	return task, nil
}

const maxConflicts = 10 // retries of a change after conflicts

// change applies f to a task, again after conflicts. f reports a change, and whether to run it now.
func (t *Tasks) change(ctx context.Context, call *server.ExtensionCall,
	f func(task *store.Task, r *record, now time.Time) (changed, due bool)) error {
	if err := t.countPoll(protocol.MethodUpdateTask, call); err != nil {
		return err
	}
	// A client that disconnects must not leave a task claimed but not running.
	ctx = context.WithoutCancel(ctx)
	for range maxConflicts {
		task, r, err := t.find(ctx, call)
		if err != nil {
			return err
		}
		now := time.Now()
		if r.isOver() || r.hasExpired(now) {
			return nil
		}
		changed, due := f(task, r, now)
		if !changed {
			return nil
		}
		times := t.times(r, task.Holder != "", due, now)
		claimed := due && task.Holder == ""
		if claimed {
			t.claim(task, &times)
		}
		switch err = t.put(ctx, task, r, times); {
		case err == nil:
			if claimed {
				t.start(task, r, false)
			}
			return nil
		case errors.Is(err, errTooLarge):
			return protocol.Errorf(protocol.CodeInvalidParams,
				"invalid params: the answers are too large for the task")
		case !errors.Is(err, store.ErrTaskChanged):
			return t.reportStore(ctx, "put", err)
		}
	}
	return quota.Refuse(quota.None, time.Second, "the task changes too fast; try again")
}

// times returns when a task is due and how long it is kept. A held task gets a full lease.
func (t *Tasks) times(r *record, held, due bool, now time.Time) store.TaskTimes {
	times := store.TaskTimes{Due: -1, Keep: r.expires().Sub(now) + keepAfterEnd}
	switch {
	case held:
		times.Due = t.opts.Lease
	case r.Looks > 0 && !r.isOver():
		times.Due = min(time.Second<<min(r.Looks-1, 10), maxLook)
	case due:
		times.Due = 0
	}
	return times
}

// claim makes a run of this process the holder of a task, if there is room; else others may take
// it. Each run has a unique name, so that an expired run loses to the next one in its own process.
func (t *Tasks) claim(task *store.Task, times *store.TaskTimes) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hasRoomLocked(task.Owner) {
		task.Holder, times.Due = rand.Text(), t.opts.Lease
	}
}

// put seals and stores a task, and wakes local watchers.
func (t *Tasks) put(ctx context.Context, task *store.Task, r *record,
	times store.TaskTimes) (err error) {
	ends := r.isOver() && !task.Over
	task.Over, task.Wakes = r.isOver(), nil
	for _, key := range r.WaitsFor {
		task.Wakes = append(task.Wakes, t.digestWake(key))
	}
	if task.Record, err = t.seal(ctx, r, task.Number+1); err != nil {
		return err
	}
	if err = t.store.PutTask(ctx, task, times); err == nil {
		t.announce(task.ID)
		if ends {
			t.report(ctx, r, cmp.Or(r.how, r.Status), time.Since(r.Created))
		}
	}
	return err
}

func (t *Tasks) digestWake(key string) [32]byte { return t.digest("wake", key) }

// digestOwner returns the owner's key in the store: zero for anonymous callers.
func (t *Tasks) digestOwner(p protocol.Principal) (none [32]byte) {
	if p.Anonymous() {
		return none
	}
	return t.digest("owner", string(quota.AppendPrincipal(nil, p)))
}

func (t *Tasks) digest(purpose, text string) [32]byte {
	mac := hmac.New(sha256.New, t.index)
	mac.Write([]byte(purpose + "\x00" + text))
	return [32]byte(mac.Sum(nil))
}

// update answers tasks/update. Answers to questions that are not outstanding are ignored, as the
// extension requires, and reported to the observer.
func (t *Tasks) update(ctx context.Context, call *server.ExtensionCall) (protocol.Result, error) {
	responses := call.Params.(*protocol.TaskParams).InputResponses
	err := t.change(ctx, call, func(task *store.Task, r *record, now time.Time) (bool, bool) {
		unused := r.answer(responses, now)
		t.reportUnused(ctx, call, r, unused)
		return len(unused) < len(responses), r.Status == statusWorking && len(r.Answers) > 0
	})
	if err != nil {
		return nil, err
	}
	return &protocol.EmptyResult{}, nil
}

func (t *Tasks) reportUnused(ctx context.Context, call *server.ExtensionCall, r *record,
	keys []string) {
	if len(keys) == 0 {
		return
	}
	dropped := event.AnswersDropped{Where: event.Where{Version: call.Version,
		Method: protocol.MethodUpdateTask, Target: r.Tool}}
	for _, key := range keys[:min(len(keys), maxQuestions)] {
		dropped.Dropped = append(dropped.Dropped,
			event.Dropped{Key: key, Reason: words.DropUnsolicited})
	}
	t.server.Report(ctx, dropped)
}

// cancel answers tasks/cancel. Runs are stopped at once here, within a second on other replicas.
func (t *Tasks) cancel(ctx context.Context, call *server.ExtensionCall) (protocol.Result, error) {
	err := t.change(ctx, call, func(task *store.Task, r *record, now time.Time) (bool, bool) {
		return r.cancel(task, now), false
	})
	if err != nil {
		return nil, err
	}
	t.cancelRun(digestID(call.Target), errCancelled)
	return &protocol.EmptyResult{}, nil
}

// Wake re-checks, at once and on any replica, all tasks of any principal that wait under key in
// [roundtrip.AwaitEvent] or [roundtrip.Await]. Use a key of the event, such as an order number.
func (t *Tasks) Wake(ctx context.Context, key string) error {
	ids, err := t.store.WakeTasks(ctx, t.digestWake(key), sweepBatch)
	if err != nil {
		return err
	}
	for _, id := range ids {
		t.takeOver(ctx, id)
	}
	if len(ids) == sweepBatch { // there may be more, and they are due
		signal(t.again)
	}
	return nil
}
