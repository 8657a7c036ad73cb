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

// maxPolled is of how many tasks the polls are counted.
const maxPolled = 10_000

type pollCount struct {
	second int64
	n      int
}

// countPoll refuses a client that polls, or changes a task, in a loop.
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
			"the task is asked for too often; see pollIntervalMs")
	}
	return nil
}

// errUnknown is the answer for a task that is unknown, gone or foreign: which, no client learns.
func errUnknown() error {
	return protocol.Errorf(protocol.CodeInvalidParams,
		"unknown task: it does not exist, or is not kept any longer")
}

// find returns the task that a request names, if its caller may have it. Unknown and foreign tasks
// cost the same: one read of the store, and one record that is opened. A task whose time is over
// has failed in the store before anybody hears of it: other replicas may have other clocks.
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

// expire ends a task whose time is over, in the store.
func (t *Tasks) expire(ctx context.Context, task *store.Task, r *record) error {
	now := time.Now()
	if !r.hasExpired(now) {
		return nil
	}
	task.Holder = ""
	r.expire(now)
	return t.put(ctx, task, r, t.times(r, false, false, now))
}

// reportStore tells the observer that the store failed, and returns what the client gets: never
// that the task is unknown, since it would give up.
func (t *Tasks) reportStore(ctx context.Context, operation string, err error) error {
	t.server.Report(ctx, event.StoreFailed{Resource: "tasks", Operation: operation,
		Err: err})
	return protocol.Errorf(protocol.CodeInternalError,
		"the server cannot reach what it keeps of tasks; ask again later")
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
	if found.Due { // its client waits, so it does not wait for the next sweep
		t.takeOver(context.WithoutCancel(ctx), found.ID)
	}
	t.noteRead(ctx, found, r)
	task, err := t.show(r, call.Capabilities())
	if err != nil {
		return nil, err
	}
	return &protocol.GetTaskResult{Task: *task}, nil
}

// noteRead has a task that is over kept for a shorter time, since its client is sent how it ended.
// Where that fails it is kept as long as before.
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

// show returns a task as a client with capabilities c is to see it. Questions do not reach a client
// that has not declared to be able to answer them.
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

// maxConflicts is how often a change is tried again because the task has changed meanwhile.
const maxConflicts = 10

// change applies f to the task that a request names until the store has taken it. f returns
// whether there is anything to store, and whether the task is to be run now.
func (t *Tasks) change(ctx context.Context, call *server.ExtensionCall,
	f func(task *store.Task, r *record, now time.Time) (changed, due bool)) error {
	if err := t.countPoll(protocol.MethodUpdateTask, call); err != nil {
		return err
	}
	// A client that goes away must not leave a task that is claimed and does not run.
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
			return protocol.Errorf(protocol.CodeInvalidParams, "invalid params: the answers are "+
				"longer than the task may keep")
		case !errors.Is(err, store.ErrTaskChanged):
			return t.reportStore(ctx, "put", err)
		}
	}
	return quota.Refuse(quota.None, time.Second, "the task changes too fast; try again")
}

// times returns when a task is due, and how long it is kept. The lease of a task that somebody
// runs is left as long as a new one.
func (t *Tasks) times(r *record, held, due bool, now time.Time) store.TaskTimes {
	times := store.TaskTimes{Due: -1, Keep: r.expires().Sub(now) + keepAfterEnd}
	switch {
	case held:
		times.Due = t.opts.Lease
	case r.Looks > 0 && !r.isOver():
		times.Due = lookAfter(r.Looks)
	case due:
		times.Due = 0
	}
	return times
}

// lookAfter is the time to the next look at what a task waits for.
func lookAfter(looks int) time.Duration {
	return min(time.Second<<min(max(looks-1, 0), 10), maxLook)
}

// claim makes a run of this process the holder of a task, if it has room; else the task is due for
// whoever has. Each run has a name of its own: one whose lease has run out loses to the next, also
// in its own process.
func (t *Tasks) claim(task *store.Task, times *store.TaskTimes) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hasRoomLocked(task.Owner) {
		task.Holder, times.Due = rand.Text(), t.opts.Lease
	}
}

// put seals and stores a task, and tells those who wait for a change here.
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

// digestOwner returns what the store knows a principal by: zero for anonymous callers.
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

// update answers tasks/update. An answer counts if its question is outstanding; others are passed
// over, as the extension wants it, and the observer is told.
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

// cancel answers tasks/cancel. A task that nobody runs is over at once; a run learns of it, here
// at once and elsewhere within a second.
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

// Wake has the tasks looked at again, at once and on any replica, that wait in
// [roundtrip.AwaitEvent] or [roundtrip.Await] under key, whoever's they are. Use a key that says
// what is waited for, such as the number of the order.
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
