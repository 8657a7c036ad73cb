package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rondo-mcp/rondo/protocol"
)

// Tasks count what processes write of the task of a flow, and end one of them. The zero value is
// ready.
type Tasks struct {
	mu      sync.Mutex
	effects *Effects
	writes  int           // until the process ends, 0: it does not
	killed  chan struct{} // closed when it has ended; nil: no flow is played
	holder  string        // who runs the task
	rests   int           // how often nobody ran it any more
	rested  chan struct{} // signalled then
	// Reset ends all processes, and forgets what they have kept.
	Reset func()
}

// start forgets what the last flow left. A process ends after the number of writes.
func (k *Tasks) start(effects *Effects, writes int) {
	k.Reset()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.effects, k.writes, k.killed = effects, writes, make(chan struct{})
	k.rested, k.rests, k.holder = make(chan struct{}, 1), 0, ""
}

// end ends what start began.
func (k *Tasks) end() {
	k.mu.Lock()
	k.killed = nil
	k.mu.Unlock()
	k.Reset()
}

// NoteWrite counts a write, after which holder runs the task, empty for nobody. It reports whether
// the process ends with it.
func (k *Tasks) NoteWrite(holder string) (killed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.killed == nil {
		return false
	}
	if holder != "" && holder != k.holder {
		k.effects.startRound() // a run begins
	}
	if k.holder = holder; holder == "" {
		k.rests++
		select {
		case k.rested <- struct{}{}:
		default:
		}
	}
	if k.writes == 0 {
		return false
	}
	if k.writes--; k.writes == 0 {
		close(k.killed)
		return true
	}
	return false
}

// ErrMustBeTask means that the tool serves no client that does not know of tasks.
var ErrMustBeTask = errors.New("the tool must be a task: set Subject.Tasks")

// mustBeTask reports whether the outcome is the refusal of a client that does not know of tasks.
func (o outcome) mustBeTask() bool {
	needed, ok := o.err.RequiredCapabilities()
	return ok && needed.Extensions[protocol.ExtensionTasks] != nil
}

// IsTask reports whether the flow has become a task.
func (p *Played) IsTask() bool { return p.task != "" }

// PlayTask plays the flow as a client that knows of tasks, and kills the process after a number of
// writes to the store, 0: never; another process goes on then. It reports whether it came to that.
// The questions are compared with those of modern, unless that is nil.
func (s *Target) PlayTask(flow Flow, modern *Played, writes int) (*Played, bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout())
	defer cancel()
	s.Tasks.start(s.Effects, writes)
	defer s.Tasks.end()
	killed := s.Tasks.killed
	caps := *flow.clientCapabilities()
	caps.Extensions = maps.Clone(caps.Extensions)
	if caps.Extensions == nil {
		caps.Extensions = map[string]json.RawMessage{}
	}
	caps.Extensions[protocol.ExtensionTasks] = json.RawMessage("{}")
	flow.Capabilities = &caps
	player := &taskPlayer{target: s, flow: flow, killed: killed}
	defer player.close()
	if err := player.connect(); err != nil {
		return nil, false, err
	}
	p, err := s.playLegs(ctx, player.conn, flow, maxLegs)
	if err == nil && p.IsTask() {
		err = player.follow(ctx, p)
	}
	if err != nil {
		return nil, isClosed(killed), err
	}
	p.effects = s.Effects.findProblems(flow)
	if modern != nil {
		err = p.matchQuestions(modern)
	}
	return p, isClosed(killed), err
}

// A taskPlayer follows a task from process to process.
type taskPlayer struct {
	target *Target
	flow   Flow
	killed chan struct{}
	moved  bool // to another process
	peer   protocol.Peer
	conn   *connection
}

func (c *taskPlayer) close() {
	if c.peer != nil {
		_ = c.peer.Close() // the connection is of no more use
	}
}

func (c *taskPlayer) connect() (err error) {
	c.close()
	if c.peer, err = c.target.Connect(""); err == nil {
		c.conn = c.target.newConnection(c.peer, c.flow)
	}
	return err
}

// move connects to another process if this one was killed.
func (c *taskPlayer) move() error {
	if c.moved || !isClosed(c.killed) {
		return nil
	}
	c.moved = true
	return c.connect()
}

// follow plays the task to its end.
func (c *taskPlayer) follow(ctx context.Context, p *Played) error {
	k, rests := c.target.Tasks, 0
	for p.legs < maxLegs*maxLegs {
		if err := c.move(); err != nil {
			return err
		}
		killed := c.killed
		if c.moved {
			killed = nil
		}
		k.mu.Lock()
		now := k.rests
		k.mu.Unlock()
		if now == rests {
			select {
			case <-k.rested:
			case <-killed:
			case <-ctx.Done():
				return errors.New("the task got stuck: no other process has gone on with it. " +
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

// poll asks for the task once, and answers what it asks.
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
		p.out = outcome{err: state.Error, reason: joinReasons(c.target.TakeReasons)}
	case protocol.TaskInputRequired:
		p.out = outcome{asks: &protocol.InputRequiredResult{InputRequests: state.Requests}}
		next, err := p.answerQuestions(p.left)
		if err != nil {
			return false, err
		}
		_, err = c.send(ctx, protocol.MethodUpdateTask,
			&protocol.TaskParams{TaskID: p.task, InputResponses: next.responses})
		return false, err
	default:
		p.out = outcome{err: protocol.Errorf(protocol.CodeInternalError, "cancelled")}
	}
	return true, p.checkUnusedAnswers(p.left)
}

// send sends a request about the task, and again to another process where the first was killed.
func (c *taskPlayer) send(ctx context.Context, method string, params *protocol.TaskParams) (
	protocol.Result, error) {
	for {
		if err := c.move(); err != nil {
			return nil, err
		}
		params.RequestMeta = c.conn.requestMeta()
		raw, err := protocol.EncodeParams(params)
		if err != nil {
			return nil, err
		}
		once, cancel := context.WithCancel(ctx)
		sent, killed := make(chan struct{}), c.killed
		if c.moved {
			killed = nil // another process
		}
		go func() {
			select {
			case <-killed:
				cancel()
			case <-sent:
			}
		}()
		resp, err := c.conn.sendRequest(once, method, params.TaskID, raw)
		close(sent)
		cancel()
		switch {
		case !c.moved && isClosed(c.killed):
		case err != nil:
			return nil, fmt.Errorf("%s: %w", method, err)
		case resp.Error != nil:
			return nil, fmt.Errorf("%s: %w", method, resp.Error)
		default:
			return protocol.DecodeResult(protocol.V20260728, method, resp.Result)
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// matchQuestions compares the questions of a task with those of the foreground.
func (p *Played) matchQuestions(modern *Played) error {
	expected := slices.Clone(modern.asked)
	for _, a := range p.asked {
		i := slices.IndexFunc(expected, func(e askedQuestion) bool { return e.key == a.key })
		if i < 0 {
			return fmt.Errorf("a task asks what a call in the foreground does not, or not as "+
				"often: %q: %s", a.key, a.description)
		}
		if e := expected[i]; e.description != a.description {
			p.reworded = append(p.reworded, rewording{a.key, e.description, a.description})
		}
		expected = slices.Delete(expected, i, i+1)
	}
	p.unasked = expected
	return nil
}

// handlerKey returns the key that the handler gave a question of a task: one that was asked again
// has a number behind it.
func handlerKey(key string, answers map[string]Answer) string {
	if _, ok := answers[key]; ok {
		return key
	}
	if i := strings.LastIndexByte(key, '.'); i > 0 {
		if n, err := strconv.Atoi(key[i+1:]); err == nil && n > 1 {
			return key[:i]
		}
	}
	return key
}
