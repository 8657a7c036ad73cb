package tasks

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/limits/recent"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
)

const (
	// Poll intervals: while the handler runs, while a user is asked, and for long questions.
	pollWorking   = time.Second
	pollWaiting   = 5 * time.Second
	pollSlow      = 15 * time.Second
	pollSlowAfter = 10 * time.Minute
	// keepAfterEnd is the minimum time for which ended and expired tasks are kept.
	keepAfterEnd = 10 * time.Minute
	// A delivered result, which may have been lost, is kept for keepAfterRead. A task is known for
	// keepAtLeast, so that a copy of its request does not begin another task.
	keepAfterRead = 6 * time.Hour
	keepAtLeast   = 24 * time.Hour
	// maxDeaths is how often the process may end in a run; a longer journal resets the count.
	maxDeaths = 5
	// maxTasks limits unfinished tasks: with the longest records they fill 10 GB of the store.
	maxTasks = 10_000
	// maxRecord limits a record in JSON: arguments, answers, memos, result. Link to longer data.
	maxRecord    = 1 << 20
	maxQuestions = 256         // questions of a task in all
	cancelPoll   = time.Second // between checks for a cancellation on another replica
	maxLook      = time.Minute // between two checks of a waiting task
	maxPolls     = 10          // requests for one task in a second
	sweepBatch   = 100         // tasks taken over in one sweep
	queued       = 2           // times Options.Runs: tasks held by one process
	// stopGrace is how long a handler may run after its context ends; then the task goes on without
	// it. It is twice the time of roundtrip.CleanupContext.
	stopGrace = 10 * time.Second
)

// Options configure [New]. Zero numbers and durations select defaults; negative ones are errors.
type Options struct {
	Store store.TaskStore // keeps the tasks; nil: in memory
	// Keys seals stored data, with derived keys. Replicas with a Store share them. Nil: random.
	Keys *keys.Keyring
	// TTL limits a call of a tool, including waits for users; then the task fails. Nil or 0 means 7
	// days. A result is kept as long, or six hours after a poll, at least a day after the call.
	TTL func(tool string, p protocol.Principal) time.Duration
	// RunTimeout limits one run of a handler; 0 means 1 hour.
	RunTimeout time.Duration
	// Runs limits concurrent handlers in this process; others queue. 0 means 64. One principal may
	// have a quarter, the local caller all, anonymous callers together three quarters, or all if no
	// caller authenticates.
	Runs int
	// TasksPerPrincipal limits the unfinished tasks of one principal; 0 means 100. Together they
	// may have 10,000. Above that calls are refused as busy. Anonymous callers share one limit.
	TasksPerPrincipal int
	// Lease is how long a task belongs to its process; 0 means 30 s. It is renewed each Lease/3.
	Lease time.Duration
	// Sweep is how often to look for tasks without a process, plus up to half; 0 means 60 s.
	Sweep time.Duration
	// Inline is how long a request that begins a TaskCan task is held: if the task ends in that
	// time, the client gets the result instead of a handle. 0 means not at all.
	Inline time.Duration
	// Prepare is called before each run, to supply what a request would have brought: it returns
	// the context and the access of the run. A nil access means the original call's, without
	// Implies. After an error the run is retried later. Nil: no change. Calls overlap.
	Prepare func(ctx context.Context, info RunInfo) (context.Context, *server.Access, error)
	// Allowed reports, at each poll, update and cancel, whether a principal may still access its
	// tasks of a tool; if not, they do not exist for it. Nil means always. Calls overlap.
	Allowed func(ctx context.Context, p protocol.Principal, tool string) bool

	tasks int // for tests; 0: maxTasks
}

// A RunInfo describes a run of a task.
type RunInfo struct {
	Principal protocol.Principal
	Tool      string
	Scopes    []string // of the call that began the task
}

// Tasks are the tasks of a server. All methods may be called concurrently.
type Tasks struct {
	server *server.Server
	opts   Options
	store  store.TaskStore
	sealer *keys.Keyring
	index  []byte // the key of digests in the store
	decoy  *store.Task
	local  [32]byte // owner of the tasks of a pipe's local caller

	base   context.Context // context of all runs
	stop   context.CancelCauseFunc
	slots  *quota.Pool[[32]byte] // for runs, by owner
	admits context.Context       // ends when this process is closing
	close  context.CancelFunc
	again  chan struct{} // there are tasks to take over, and room for them

	mu sync.Mutex
	// Tasks were left to other processes: all (this one is full), or those of some owners.
	behind  bool
	left    map[[32]byte]bool
	running map[[32]byte]*run
	readers map[[32]byte]*reader // readers of tasks that are watched here
	polls   *recent.Map[[32]byte, *pollCount]
	seen    *recent.Map[[32]byte, seenTask] // tasks whose runs have ended
	work    sync.WaitGroup
}

// New adds tasks to a server and begins to run stored tasks. It fails on contradictory options, a
// Store without shared Keys, an unreachable store, and a server that already has tasks.
func New(srv *server.Server, opts *Options) (*Tasks, error) {
	o := *cmp.Or(opts, &Options{})
	if err := o.check(); err != nil {
		return nil, err
	}
	o.RunTimeout = cmp.Or(o.RunTimeout, time.Hour)
	o.Runs = cmp.Or(o.Runs, 64)
	o.TasksPerPrincipal, o.tasks = cmp.Or(o.TasksPerPrincipal, 100), cmp.Or(o.tasks, maxTasks)
	o.Lease, o.Sweep = cmp.Or(o.Lease, 30*time.Second), cmp.Or(o.Sweep, time.Minute)
	t := &Tasks{server: srv, opts: o, store: o.Store, again: make(chan struct{}, 1),
		left: map[[32]byte]bool{}, running: map[[32]byte]*run{}, readers: map[[32]byte]*reader{},
		polls: recent.New[[32]byte, *pollCount](maxPolled, time.Second),
		seen:  recent.New[[32]byte, seenTask](maxSeen, 0)}
	if t.store == nil {
		t.store = store.NewMemoryTaskStore()
	}
	ring := o.Keys
	if ring == nil {
		ring = keys.EphemeralKeyring()
	}
	t.sealer = ring.Derive("rondo tasks 1")
	t.base, t.stop = context.WithCancelCause(context.Background())
	t.admits, t.close = context.WithCancel(t.base)
	if err := t.readIndexKey(t.base); err != nil {
		return nil, fmt.Errorf("tasks: %w", err)
	}
	t.local = t.digestOwner(protocol.LocalPrincipal())
	t.slots = quota.New(quota.Options[[32]byte]{Total: int64(o.Runs),
		Share: quota.ShareOf(int64(o.Runs)), Local: t.local})
	if err := t.makeDecoy(t.base); err != nil {
		return nil, fmt.Errorf("tasks: %w", err)
	}
	if err := addTo(srv, t.extension()); err != nil {
		return nil, err
	}
	t.work.Go(t.sweep)
	return t, nil
}

func addTo(srv *server.Server, e server.Extension) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("tasks: %v", v)
		}
	}()
	server.AddExtension(srv, e)
	return nil
}

func (o *Options) check() error {
	if o.Store != nil && (o.Keys == nil || o.Keys.Ephemeral()) {
		return errors.New("tasks: Keys: a store needs keys that outlive the process; set Keys, " +
			"for example with keys.KeyringFromEnv")
	}
	for name, n := range map[string]int64{"RunTimeout": int64(o.RunTimeout), "Runs": int64(o.Runs),
		"TasksPerPrincipal": int64(o.TasksPerPrincipal), "Lease": int64(o.Lease),
		"Sweep": int64(o.Sweep), "Inline": int64(o.Inline)} {
		if n < 0 {
			return fmt.Errorf("tasks: %s: must not be negative", name)
		}
	}
	return nil
}

// readIndexKey reads or creates the key of digests. It is stored sealed, to outlive the keyring.
func (t *Tasks) readIndexKey(ctx context.Context) error {
	const name = "index key"
	place := sha256.Sum256([]byte("rondo task index key 1"))
	for range 3 {
		task, err := t.store.GetTask(ctx, place)
		if errors.Is(err, store.ErrNoTask) {
			key := make([]byte, 32)
			rand.Read(key)
			err = t.keepIndexKey(ctx, &store.Task{ID: place, Flow: place, Over: true}, key)
			if err == nil || errors.Is(err, store.ErrTaskExists) {
				continue
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		plain, err := t.sealer.Open(ctx, string(task.Record))
		head := sealHead(place, task.Number)
		if err == nil && (len(plain) <= len(head) || string(plain[:len(head)]) != string(head)) {
			err = errors.New("it belongs elsewhere")
		}
		if err != nil {
			return fmt.Errorf("%s: %w; give all replicas the same keys", name, err)
		}
		t.index = plain[len(head):]
		// Sealed again with the newest key, so that older ones can be removed.
		if err = t.keepIndexKey(ctx, task, t.index); err == nil ||
			errors.Is(err, store.ErrTaskChanged) {
			return nil
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	return fmt.Errorf("%s: the store does not return what it was given", name)
}

// makeDecoy makes the record opened for unknown ids, which thus cost as much as foreign ones.
func (t *Tasks) makeDecoy(ctx context.Context) (err error) {
	r := &record{ID: newID(), Journal: make([]byte, 512), Params: json.RawMessage(`{}`)}
	t.decoy = &store.Task{ID: digestID(r.ID), Number: 1}
	t.decoy.Record, err = t.seal(ctx, r, 1)
	return err
}

const keepForever = 100 * 365 * 24 * time.Hour // for the key of the digests

func (t *Tasks) keepIndexKey(ctx context.Context, task *store.Task, key []byte) error {
	sealed, err := t.sealer.Seal(ctx, append(sealHead(task.ID, task.Number+1), key...))
	if err != nil {
		return err
	}
	task.Record, task.Over = []byte(sealed), true
	times := store.TaskTimes{Due: -1, Keep: keepForever}
	if task.Number == 0 {
		return t.store.CreateTask(ctx, task, times, store.TaskRoom{})
	}
	return t.store.PutTask(ctx, task, times)
}

// Shutdown hands the running tasks to other replicas: it starts no more runs, lets current ones
// continue until ctx ends, then ends their contexts and waits for the handlers. It returns the
// error of ctx if that ended first. Call it before the server is shut down or closed, which ends
// the contexts at once. Handlers that ignore their contexts are abandoned after 20 s.
func (t *Tasks) Shutdown(ctx context.Context) error {
	t.beginClosing()
	done := make(chan struct{})
	go func() {
		t.work.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	t.stop(errShutdown)
	select {
	case <-done:
	case <-time.After(2 * stopGrace):
		return cmp.Or(err, errors.New("tasks: handlers ignored the end of their contexts"))
	}
	return err
}

func (t *Tasks) beginClosing() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.close()
}

// newID returns an unguessable id of 43 characters.
func newID() string {
	var random [32]byte
	rand.Read(random[:])
	return base64.RawURLEncoding.EncodeToString(random[:])
}

var (
	errShutdown  = errors.New("the server is closing")
	errLost      = errors.New("the task is run elsewhere")
	errCancelled = errors.New("the client cancelled the task")
	errRunTime   = errors.New("the run took too long")
	errTooLarge  = errors.New("the record of the task is too long")
)

// cleanMessage truncates a message and replaces control characters.
func cleanMessage(text string) string {
	const most = 512
	clean := []rune{}
	for _, r := range text {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			r = ' '
		}
		if clean = append(clean, r); len(clean) == most {
			break
		}
	}
	return string(clean)
}

// paramsOf returns a call's parameters as stored in the record.
func paramsOf(p *protocol.CallToolParams) (json.RawMessage, error) {
	kept := *p
	kept.Retry = protocol.Retry{}
	kept.ProgressToken, kept.LogLevel = protocol.ID{}, ""
	return protocol.EncodeParams(&kept)
}
