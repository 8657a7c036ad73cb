package roundtriptest

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/testing/attack"
	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/tasks"
)

// Tasks make [Run] play flows as tasks, too, in processes that are killed. Each server of the
// subject is a process; they share the store of tasks. The zero value is ready.
//
//	kept := &roundtriptest.Tasks{}
//	subject := roundtriptest.Server(func() (*server.Server, error) {
//		srv, err := newServer()
//		if err == nil {
//			err = kept.AddTo(srv, nil) // where main calls tasks.New
//		}
//		return srv, err
//	})
//	subject.Tasks = kept
type Tasks struct {
	kept attack.Tasks
	keys sync.Once
	ring *keys.Keyring
	said reasons

	mu        sync.Mutex
	processes []*process
	store     *store.MemoryTaskStore // shared by the processes
	over      chan struct{}          // closed when their flow is over
}

// A process is a server's view of the store. After a kill, calls block until the flow is over.
type process struct {
	*store.MemoryTaskStore
	tasks *Tasks
	over  chan struct{}
	dead  atomic.Bool
	stop  func()
}

func (k *Tasks) addProcess() *process {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.store == nil {
		k.store, k.over = store.NewMemoryTaskStore(), make(chan struct{})
	}
	p := &process{MemoryTaskStore: k.store, tasks: k, over: k.over}
	k.processes = append(k.processes, p)
	return p
}

func (k *Tasks) reset() {
	k.mu.Lock()
	processes, over := k.processes, k.over
	k.processes, k.store, k.over = nil, nil, nil
	k.mu.Unlock()
	for _, p := range processes {
		p.dead.Store(true)
	}
	if over != nil {
		close(over)
	}
	for _, p := range processes {
		if p.stop != nil {
			p.stop()
		}
	}
}

// The method live waits for the end of the flow and returns an error, if the process was killed.
func (p *process) live() error {
	if !p.dead.Load() {
		return nil
	}
	<-p.over
	return store.ErrNoTask
}

// note counts a write, and reports whether it kills the process, whose lease then expires.
func (p *process) note(ctx context.Context, task *store.Task) (killed bool) {
	if task.ID == task.Flow || !p.tasks.kept.NoteWrite(task.Holder) { // equal ids are no task
		return false
	}
	p.dead.Store(true)
	_ = p.MemoryTaskStore.RenewTask(ctx, task.ID, task.Holder, 0)
	return true
}

// CreateTask implements [store.TaskStore]. A process that it kills has sent the handle.
func (p *process) CreateTask(ctx context.Context, task *store.Task, times store.TaskTimes,
	room store.TaskRoom) error {
	if err := p.live(); err != nil {
		return err
	}
	err := p.MemoryTaskStore.CreateTask(ctx, task, times, room)
	if err == nil && p.note(ctx, task) {
		task.Holder = "" // the task does not begin to run
	}
	return err
}

// PutTask implements [store.TaskStore].
func (p *process) PutTask(ctx context.Context, task *store.Task, times store.TaskTimes) error {
	if err := p.live(); err != nil {
		return err
	}
	err := p.MemoryTaskStore.PutTask(ctx, task, times)
	if err == nil && p.note(ctx, task) {
		return p.live()
	}
	return err
}

// RenewTask implements [store.TaskStore].
func (p *process) RenewTask(ctx context.Context, id [32]byte, holder string,
	due time.Duration) error {
	if err := p.live(); err != nil {
		return err
	}
	return p.MemoryTaskStore.RenewTask(ctx, id, holder, due)
}

// GetTask implements [store.TaskStore].
func (p *process) GetTask(ctx context.Context, id [32]byte) (*store.Task, error) {
	if err := p.live(); err != nil {
		return nil, err
	}
	return p.MemoryTaskStore.GetTask(ctx, id)
}

// DueTasks implements [store.TaskStore].
func (p *process) DueTasks(ctx context.Context, limit int) ([][32]byte, error) {
	if err := p.live(); err != nil {
		return nil, err
	}
	return p.MemoryTaskStore.DueTasks(ctx, limit)
}

// AddTo adds tasks to a server. opts may be nil; its Store, Keys, Sweep, Inline are not used.
func (k *Tasks) AddTo(srv *server.Server, opts *tasks.Options) error {
	k.keys.Do(func() { k.ring = newKeyring() })
	var o tasks.Options
	if opts != nil {
		o = *opts
	}
	p := k.addProcess()
	prepare := o.Prepare
	o.Store, o.Keys, o.Sweep, o.Inline = p, k.ring, 100*time.Millisecond, 0
	o.Prepare = func(ctx context.Context, info tasks.RunInfo) (
		context.Context, *server.Access, error) {
		ctx = waiting.WithoutWire(rpc.WithErrorSink(ctx, k.said.addError))
		if prepare == nil {
			return ctx, nil, nil
		}
		return prepare(ctx, info)
	}
	added, err := tasks.New(srv, &o)
	if err != nil {
		return err
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	p.stop = func() { _ = added.Shutdown(ended) } // at once, like a kill
	return nil
}

func newKeyring() *keys.Keyring {
	secret := make([]byte, 32)
	rand.Read(secret)
	key, _ := keys.NewKey("test", secret) // valid, and so is the ring
	ring, _ := keys.NewKeyring(key)
	return ring
}
