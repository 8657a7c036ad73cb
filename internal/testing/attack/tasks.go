package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"

	"github.com/rondo-mcp/rondo/protocol"
)

// A Tasks counts the writes of a task's processes, and ends one process. The zero value is ready.
type Tasks struct {
	mu      sync.Mutex
	effects *Effects
	writes  int             // writes until the process ends; 0: never; or EachRun
	life    context.Context // of the process; nil: no flow is playing
	kill    context.CancelFunc
	holder  string        // of the task's lease
	rests   int           // how often no process ran the task
	rested  chan struct{} // signalled for each rest
	// Reset ends all processes and clears the store.
	Reset func()
}

// EachRun, used as a number of writes, ends each process at its run's first write by the handler.
const EachRun = -1

// start resets the store for a flow whose process ends after a number of writes.
func (k *Tasks) start(effects *Effects, writes int) (life context.Context) {
	k.Reset()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.effects, k.writes = effects, writes
	k.life, k.kill = context.WithCancel(context.Background())
	k.rested, k.rests, k.holder = make(chan struct{}, 1), 0, ""
	return k.life
}

// NoteWrite counts a write of holder, or "" if the task rests. killed: the process ends.
func (k *Tasks) NoteWrite(holder string) (killed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.life == nil {
		return false
	}
	begins := holder != "" && holder != k.holder
	if begins {
		k.effects.startRound()
	}
	if k.holder = holder; holder == "" {
		k.rests++
		select {
		case k.rested <- struct{}{}:
		default:
		}
	}
	if k.writes > 0 {
		k.writes--
		killed = k.writes == 0
	} else if k.writes == EachRun {
		killed = holder != "" && !begins
	}
	if killed {
		k.kill()
		k.life, k.kill = context.WithCancel(context.Background()) // life of the next process
	}
	return killed
}

// ErrMustBeTask means that the tool refuses clients without tasks.
var ErrMustBeTask = errors.New("the tool must be a task: set Subject.Tasks")

// mustBeTask reports whether the server refuses a client without tasks.
func (o outcome) mustBeTask() bool {
	needed, ok := o.err.RequiredCapabilities()
	return ok && needed.Extensions[protocol.ExtensionTasks] != nil
}

// WasStopped reports whether the task failed because its processes ended.
func (p *Played) WasStopped() bool {
	return p.IsTask() && p.out.err != nil &&
		strings.Contains(p.out.err.Message, "times without getting further")
}

// IsTask reports whether the flow became a task.
func (p *Played) IsTask() bool { return p.task != "" }

// PlayTask plays the flow with a client that supports tasks. It kills the process after a number of
// writes to the store (0: never; or [EachRun]), and another process continues. The result reports
// whether it was killed. Questions are compared with modern's, unless modern is nil.
func (s *Target) PlayTask(flow Flow, modern *Played, writes int) (*Played, bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout())
	defer cancel()
	life := s.Tasks.start(s.Effects, writes)
	defer func() {
		s.Tasks.mu.Lock()
		s.Tasks.life = nil
		s.Tasks.mu.Unlock()
		s.Tasks.Reset()
	}()
	caps := *flow.clientCapabilities()
	extensions := map[string]json.RawMessage{protocol.ExtensionTasks: json.RawMessage("{}")}
	maps.Copy(extensions, caps.Extensions)
	caps.Extensions, flow.Capabilities = extensions, &caps
	player := &taskPlayer{target: s, flow: flow, life: life}
	defer player.close()
	if err := player.connect(); err != nil {
		return nil, false, err
	}
	p, err := s.playLegs(ctx, player.conn, flow, modern, maxLegs)
	if err == nil && p.IsTask() {
		err = player.follow(ctx, p)
	}
	if writes == EachRun && p != nil && p.WasStopped() { // whatever questions are missing
		return p, true, nil
	}
	if err != nil {
		return nil, life.Err() != nil, err
	}
	p.effects = s.Effects.findProblems(flow)
	return p, life.Err() != nil, nil
}

type taskPlayer struct {
	target *Target
	flow   Flow
	life   context.Context // of the connected process
	peer   protocol.Peer
	conn   *connection
}

func (c *taskPlayer) close() {
	if c.peer != nil {
		_ = c.peer.Close() // the connection is no longer needed
	}
}

func (c *taskPlayer) connect() (err error) {
	c.close()
	if c.peer, err = c.target.Connect(""); err == nil {
		c.conn = c.target.newConnection(c.peer, c.flow)
	}
	return err
}

func (c *taskPlayer) move() error {
	if c.life.Err() == nil {
		return nil
	}
	c.target.Tasks.mu.Lock()
	c.life = c.target.Tasks.life
	c.target.Tasks.mu.Unlock()
	return c.connect()
}

func (c *taskPlayer) follow(ctx context.Context, p *Played) error {
	k, rests := c.target.Tasks, 0
	for p.legs < maxLegs*maxLegs {
		moves := c.life.Err() != nil // if so, the next process continues at once
		if err := c.move(); err != nil {
			return err
		}
		k.mu.Lock()
		now := k.rests
		k.mu.Unlock()
		if now == rests && !moves {
			select {
			case <-k.rested:
			case <-c.life.Done():
			case <-ctx.Done():
				return errors.New("the task got stuck: no other process has got further with it. " +
					"Does Connect make a server of its own, which Tasks were added to?")
			}
			continue
		}
		rests = now
		p.legs++
		over, err := c.poll(ctx, p)
		if err != nil || over {
			return err
		}
	}
	return errors.New("the task does not end")
}

func (c *taskPlayer) poll(ctx context.Context, p *Played) (over bool, err error) {
	result, err := c.send(ctx, protocol.MethodGetTask, &protocol.TaskParams{TaskID: p.task})
	if err != nil {
		return false, err
	}
	got, ok := result.(*protocol.GetTaskResult)
	if !ok {
		return false, fmt.Errorf("tasks/get: unexpected result %T", result)
	}
	switch state := got.Task.State.(type) {
	case protocol.TaskWorking:
		return false, nil
	case protocol.TaskCompleted:
		p.out = outcome{result: state.Result}
	case protocol.TaskFailed:
		p.out = outcome{err: state.Error, reason: c.target.joinReasons()}
	case protocol.TaskInputRequired:
		p.out = outcome{asks: &protocol.InputRequiredResult{InputRequests: state.Requests}}
		next, err := p.answerRound()
		if err != nil {
			return false, err
		}
		_, err = c.send(ctx, protocol.MethodUpdateTask,
			&protocol.TaskParams{TaskID: p.task, InputResponses: next.responses})
		return false, err
	default:
		p.out = outcome{err: protocol.Errorf(protocol.CodeInternalError, "cancelled")}
	}
	return true, p.checkUnusedAnswers()
}

// send sends a request about the task. If the process was killed, the next one gets it.
func (c *taskPlayer) send(ctx context.Context, method string, params *protocol.TaskParams) (
	protocol.Result, error) {
	for {
		if err := c.move(); err != nil {
			return nil, err
		}
		params.RequestMeta = c.conn.requestMeta()
		once, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(c.life, cancel)
		result, err := c.conn.sendParams(once, method, params.TaskID, params)
		stop()
		cancel()
		if c.life.Err() == nil {
			return result, err
		}
	}
}

// handlerKey returns the handler's key for a task's question, without the repetition number.
func (p *Played) handlerKey(key string) string {
	if _, ok := p.answers[key]; ok {
		return key
	}
	if i := strings.LastIndexByte(key, '.'); i > 0 {
		if n, err := strconv.Atoi(key[i+1:]); err == nil && n > 1 {
			return key[:i]
		}
	}
	return key
}
