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
	// pollWorking is when a client is to ask again while the handler runs, pollWaiting while a
	// person is asked, and pollSlow when that has taken longer than pollSlowAfter.
	pollWorking   = time.Second
	pollWaiting   = 5 * time.Second
	pollSlow      = 15 * time.Second
	pollSlowAfter = 10 * time.Minute
	// keepAfterEnd is how long a task is kept at least when it is over, and when it has expired.
	keepAfterEnd = 10 * time.Minute
	// A result that was sent, and may have been lost on its way, is kept for keepAfterRead. A task
	// is known for keepAtLeast: a copy of its request begins no other until then.
	keepAfterRead = 6 * time.Hour
	keepAtLeast   = 24 * time.Hour
	// maxDeaths is how often a run may end with its process before the task fails. A journal that
	// has grown sets the count to zero, and nothing else does.
	maxDeaths = 5
	// maxTasks is how many tasks may be unfinished in all: with the longest records they are 10 GB
	// of the store.
	maxTasks = 10_000
	// maxRecord is how long the record of a task may be, as JSON: arguments, answers, memos and
	// result together. Longer ones belong where a link leads.
	maxRecord = 1 << 20
	// maxQuestions is how many questions a task may ask in all.
	maxQuestions = 256
	// cancelPoll is how often a run looks whether its task was cancelled on another replica.
	cancelPoll = time.Second
	// maxLook is the longest time between two looks at what a task waits for.
	maxLook = time.Minute
	// maxPolls is how often one task may be asked for in a second.
	maxPolls = 10
	// sweepBatch is how many tasks one sweep takes over at most.
	sweepBatch = 100
	// queued times Options.Runs tasks are held by one process at most: others may have room.
	queued = 2
	// stopGrace is how long a handler whose context has ended may take to return. Then the task
	// goes on without it: what the handler still does is dropped. It is twice what
	// roundtrip.CleanupContext gives.
	stopGrace = 10 * time.Second
)

// Options configure [New]. Zero is the default of every number and duration; negative ones are
// errors.
type Options struct {
	// Store keeps the tasks. Nil: this process, with which they end.
	Store store.TaskStore
	// Keys seal what the store keeps. Required beside a Store, and shared by all replicas; its
	// keys are derived for this purpose. Nil: a random one.
	Keys *keys.Keyring
	// TTL is how long a call of a tool may take from its beginning, with the waiting for people;
	// then the task fails. Nil, and where it returns 0: 7 days. A result is kept as long, and six
	// hours once it was polled, a day after its beginning at least.
	TTL func(tool string, p protocol.Principal) time.Duration
	// RunTimeout is how long one run of a handler may take, 0: 1 hour.
	RunTimeout time.Duration
	// Runs is how many handlers may run at once in this process, 0: 64, and a quarter of them for
	// one principal. Further tasks wait for their turn. The local caller of a pipe may have all,
	// and anonymous callers together three quarters, or all where nobody authenticates.
	Runs int
	// TasksPerPrincipal is how many tasks of one principal may be unfinished, 0: 100; of all
	// together 10,000 may. A call that would begin another is refused as busy. Anonymous callers
	// together are one principal.
	TasksPerPrincipal int
	// Lease is how long a task belongs to the process that runs it, 0: 30 s. Then another takes
	// over. It is renewed each Lease/3.
	Lease time.Duration
	// Sweep is how often a process looks for tasks that nobody runs, 0: 60 s; it waits up to half
	// as long again.
	Sweep time.Duration
	// Inline is how long the request that begins a task of a tool that can be one is held before
	// it gets the handle: if the task is over by then, the client gets the result itself. 0: not
	// at all.
	Inline time.Duration
	// Prepare is called before each run, for what a request would have brought: it returns the
	// context of the run, and what the run may do. A nil access is that of the call that began
	// the task, without Implies. An error fails the run, which is tried again later. Nil: no
	// change. Calls overlap.
	Prepare func(ctx context.Context, info RunInfo) (context.Context, *server.Access, error)
	// Allowed is asked at each poll, update and cancel whether a principal may still have its
	// tasks of a tool; where it may not there is no such task. Nil: it may. Calls overlap.
	Allowed func(ctx context.Context, p protocol.Principal, tool string) bool

	tasks int // of tests alone; 0: maxTasks
}

// A RunInfo describes a run of a task.
type RunInfo struct {
	Principal protocol.Principal
	Tool      string
	// Scopes are those that the call which began the task had.
	Scopes []string
}

// Tasks are the tasks of a server. All methods may be called concurrently.
type Tasks struct {
	server *server.Server
	opts   Options
	store  store.TaskStore
	sealer *keys.Keyring
	index  []byte // the key of digests in the store
	decoy  *store.Task
	local  [32]byte // the owner that the local caller of a pipe is

	base   context.Context // of all runs
	stop   context.CancelCauseFunc
	slots  *quota.Pool[[32]byte] // for runs, by owner
	admits context.Context       // until this process is closing
	close  context.CancelFunc
	again  chan struct{} // there are tasks to take over, and room for them

	mu      sync.Mutex
	closing bool
	// Tasks were left to others: all, because this process is full, and those of some owners.
	behind  bool
	left    map[[32]byte]bool
	running map[[32]byte]*run
	readers map[[32]byte]*reader // of tasks of which somebody here wants to know
	polls   *recent.Map[[32]byte, *pollCount]
	seen    *recent.Map[[32]byte, seenTask] // whose runs have ended
	work    sync.WaitGroup
}

// New adds tasks to a server, and begins to run those of the store that nobody runs. It fails when
// the options contradict each other, when there is a Store without Keys that replicas share, when
// the store cannot be asked, and when the server has tasks already.
func New(srv *server.Server, opts *Options) (*Tasks, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
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

// addTo returns an error where the server has tasks already.
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

// readIndexKey reads the key of the digests that the store keeps, and makes it where there is
// none. It is in the store itself, sealed, so that it outlives the keys of the keyring.
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
		// With the newest key, for the time when the older ones are gone.
		if err = t.keepIndexKey(ctx, task, t.index); err == nil ||
			errors.Is(err, store.ErrTaskChanged) {
			return nil
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	return fmt.Errorf("%s: the store does not return what it was given", name)
}

// makeDecoy makes the record that is opened where there is none, so that an unknown id costs what a
// foreign one does.
func (t *Tasks) makeDecoy(ctx context.Context) (err error) {
	r := &record{ID: newID(), Journal: make([]byte, 512), Params: json.RawMessage(`{}`)}
	t.decoy = &store.Task{ID: digestID(r.ID), Number: 1}
	t.decoy.Record, err = t.seal(ctx, r, 1)
	return err
}

// keepForever is how long the key of the digests is kept.
const keepForever = 100 * 365 * 24 * time.Hour

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

// Shutdown gives the tasks that run here to other replicas: it refuses to run further ones, lets
// those that run go on until ctx ends, then ends their contexts and waits for the handlers. It
// returns the error of ctx where it came to that. Call it before the server is shut down or closed,
// which ends the contexts at once. Handlers that ignore their contexts are left behind after 20 s.
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
		return cmp.Or(err, errors.New("tasks: handlers ignore that their contexts have ended"))
	}
	return err
}

// beginClosing has no further task run here.
func (t *Tasks) beginClosing() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closing {
		t.closing = true
		t.close()
	}
}

// newID returns an id that cannot be guessed, 43 characters.
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

func errExpired() *protocol.Error {
	return protocol.Errorf(protocol.CodeInternalError, "expired: the time of the task is over; "+
		"start the call again")
}

// cleanMessage cuts a message for clients, and replaces control characters.
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

// paramsOf returns the parameters of a call as the record keeps them.
func paramsOf(p *protocol.CallToolParams) (json.RawMessage, error) {
	kept := *p
	kept.Retry = protocol.Retry{}
	kept.ProgressToken, kept.LogLevel = protocol.ID{}, ""
	return protocol.EncodeParams(&kept)
}
