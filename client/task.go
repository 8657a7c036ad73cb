package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// ErrTaskCancelled is the error of a call whose task either side has cancelled.
var ErrTaskCancelled = errors.New("client: the task was cancelled")

const (
	// defaultTaskPoll is the default poll interval. minTaskPoll and maxTaskPoll bound the server's.
	defaultTaskPoll = time.Second
	minTaskPoll     = 100 * time.Millisecond
	maxTaskPoll     = time.Minute
	maxTaskFailures = 20 // consecutive; they take about a quarter of an hour
	maxTaskRepeats  = 60 // consecutive polls that show only answered questions
	// Every resendTaskAnswers-th such poll resends answers: a restored backup has lost them.
	resendTaskAnswers = 10
	maxTaskQuestions  = 1024            // per task
	taskCancelTime    = 2 * time.Second // for the task of an abandoned call
)

// A Task is the handle of a call that has become a task (the tasks extension): [Client.BeginTask]
// returns it, [Client.FollowTask] follows it.
//
// It can be stored as JSON and followed in another process. Protect it: it holds users' answers
// until they are sent, and on servers without authentication the id suffices to read and cancel the
// task. It holds no credentials. Printing and logging do not show these.
//
// While the Task is followed, its methods may be called from the keep function only.
type Task struct{ state *taskState }

type taskState struct {
	Format  int                        `json:"format"`
	Server  string                     `json:"server"`
	Tool    string                     `json:"tool"`
	ID      string                     `json:"id"`
	Created time.Time                  `json:"created"`
	Poll    int64                      `json:"pollMs"`
	Asked   []string                   `json:"asked"`             // wire keys of answered questions
	Answers map[string]json.RawMessage `json:"answers,omitempty"` // to questions still asked
}

const taskFormat = 1

// ID returns the id of the task, empty for a zero Task.
func (t Task) ID() string {
	if t.state == nil {
		return ""
	}
	return t.state.ID
}

// String names the tool, not the id, which may be a secret.
func (t Task) String() string {
	if t.state == nil {
		return "no task"
	}
	return fmt.Sprintf("task of tool %.64q", t.state.Tool)
}

// LogValue keeps the contents out of logs.
func (t Task) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalJSON returns everything that [Client.FollowTask] needs.
func (t Task) MarshalJSON() ([]byte, error) {
	if t.state == nil {
		return nil, errors.New("client: task: empty")
	}
	return jsonx.Encode(t.state)
}

// UnmarshalJSON reads MarshalJSON's text. Any other text is an error and changes nothing.
func (t *Task) UnmarshalJSON(data []byte) error {
	s := &taskState{}
	if err := jsonx.Decode(bytes.Clone(data), s); err != nil {
		return errPrefix.Errorf("task: %w", err)
	}
	if s.Format != taskFormat || s.ID == "" || s.Created.IsZero() {
		return errors.New("client: task: the text is not a stored task")
	}
	t.state = s
	return nil
}

// BeginTask calls a tool, answers its first questions, and returns a result, or a handle once the
// call has become a task. Unlike with [Client.CallTool], only [Client.CancelTask] cancels the task.
// [Options.Tasks] must be set. Errors are as in CallTool. p is not changed.
func (c *Client) BeginTask(ctx context.Context, p *protocol.CallToolParams) (
	*protocol.CallToolResult, *Task, error) {
	if !c.opts.Tasks {
		return nil, nil, errors.New("client: BeginTask: set Options.Tasks")
	}
	ctx, done := c.beginCall(ctx)
	defer done()
	result, err := c.driveCall(ctx, leg{method: protocol.MethodCallTool, target: p.Name, params: p})
	if err != nil {
		return nil, nil, preferClosed(ctx, err)
	}
	switch r := result.(type) {
	case *protocol.CallToolResult:
		return r, nil, nil
	case *protocol.CreateTaskResult:
		return nil, c.newTask(p.Name, r), nil
	}
	return nil, nil, unexpectedResult(protocol.MethodCallTool, result)
}

func (c *Client) newTask(tool string, handle *protocol.CreateTaskResult) *Task {
	return &Task{&taskState{Format: taskFormat, Server: c.serverName(), Tool: tool,
		ID: handle.Task.ID, Created: handle.Task.Created,
		Poll: handle.Task.PollAfter.Milliseconds()}}
}

// serverName names the server in handles. It is empty if the server has no address.
func (c *Client) serverName() string {
	if peer, ok := c.peer.(interface{ ServerURL() string }); ok {
		return peer.ServerURL()
	}
	return ""
}

// FollowTask waits until a task has a result, and answers its questions: handlers see each once,
// even if the server repeats it. Before an answer is sent, keep (unless nil) is called with the
// task, so that another process can continue from there; its error ends the call.
//
// Only [Client.CancelTask] cancels the task. The error is a [*protocol.Error] for a failed task and
// [ErrTaskCancelled] for a cancelled task. Other errors are as in [Client.CallTool]; a handle of
// another server is refused. Failed polls are repeated for about a quarter of an hour.
func (c *Client) FollowTask(ctx context.Context, t *Task, keep func(*Task) error) (
	*protocol.CallToolResult, error) {
	if err := c.checkTask(t); err != nil {
		return nil, err
	}
	ctx, done := c.beginCall(ctx)
	defer done()
	result, err := c.followTask(ctx, t, keep)
	return result, preferClosed(ctx, err)
}

func (c *Client) checkTask(t *Task) error {
	switch {
	case t == nil || t.state == nil:
		return errors.New("client: task: nil or empty")
	case !c.opts.Tasks:
		return errors.New("client: task: set Options.Tasks")
	case t.state.Server != c.serverName():
		return errPrefix.Errorf("task: it belongs to another server, %.128q", t.state.Server)
	}
	return nil
}

// CancelTask asks the server to cancel a task, which may still end with a result.
func (c *Client) CancelTask(ctx context.Context, t *Task) error {
	if err := c.checkTask(t); err != nil {
		return err
	}
	ctx, done := c.beginCall(ctx)
	defer done()
	_, err := c.sendTask(ctx, protocol.MethodCancelTask, t, nil)
	return preferClosed(ctx, err)
}

// driveTask follows a call's task, and cancels both together: nobody else has the handle.
func (c *Client) driveTask(ctx context.Context, tool string, handle *protocol.CreateTaskResult) (
	protocol.Result, error) {
	t := c.newTask(tool, handle)
	result, err := c.followTask(ctx, t, nil)
	if err == nil {
		return result, nil
	}
	if ended, ok := errors.AsType[*taskEndError](err); ok {
		return nil, ended.error
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), taskCancelTime)
	defer cancel()
	_, _ = c.sendTask(ctx, protocol.MethodCancelTask, t, nil) // best effort
	return nil, err
}

type taskEndError struct{ error }

func (e *taskEndError) Unwrap() error { return e.error }

type taskPoll struct {
	client   *Client
	task     *Task
	keep     func(*Task) error
	wake     chan struct{} // the server has announced a change
	heard    atomic.Bool   // the server announces changes
	polled   time.Time
	failures int  // consecutive failed polls
	repeats  int  // consecutive polls that showed answered questions only
	received bool // the server has acknowledged the answers
}

func (c *Client) followTask(ctx context.Context, t *Task, keep func(*Task) error) (
	*protocol.CallToolResult, error) {
	p := &taskPoll{client: c, task: t, keep: keep, wake: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(ctx)
	var listening sync.WaitGroup
	defer listening.Wait()
	defer cancel()
	for polls := 0; ; polls++ {
		if polls == 1 { // short tasks need no subscription
			listening.Go(func() { p.listen(ctx) })
		}
		if err := p.pause(ctx); err != nil {
			return nil, err
		}
		task, err := p.get(ctx)
		if err != nil {
			return nil, err
		}
		if task == nil {
			continue
		}
		switch state := task.State.(type) {
		case protocol.TaskCompleted:
			return state.Result, nil
		case protocol.TaskFailed:
			return nil, &taskEndError{state.Error}
		case protocol.TaskCancelled:
			return nil, &taskEndError{ErrTaskCancelled}
		case protocol.TaskInputRequired:
			err = p.answer(ctx, state.Requests)
		}
		if err != nil {
			return nil, err
		}
	}
}

// pause waits until the next poll is due. Even announced changes come at least minTaskPoll apart.
func (p *taskPoll) pause(ctx context.Context) error {
	wait := cmp.Or(time.Duration(p.task.state.Poll)*time.Millisecond, defaultTaskPoll)
	wait = min(max(wait, minTaskPoll)<<min(p.failures, 10), maxTaskPoll)
	if p.heard.Load() && p.failures == 0 {
		wait = max(wait, maxTaskPoll/2) // an announcement may be lost
	}
	timer := time.NewTimer(wait + rand.N(wait/8+1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
	case <-p.wake:
		timer.Reset(minTaskPoll - time.Since(p.polled))
		<-timer.C
	}
	p.polled = time.Now()
	return nil
}

// listen subscribes to changes. Not every server announces them.
func (p *taskPoll) listen(ctx context.Context) {
	id := p.task.state.ID
	_ = p.client.Listen(ctx, protocol.SubscriptionFilter{TaskIDs: []string{id}},
		func(_ context.Context, e ListenEvent) {
			switch e := e.(type) {
			case Acknowledged:
				p.heard.Store(slices.Contains(e.Filter.TaskIDs, id))
			case TaskChanged:
				select {
				case p.wake <- struct{}{}:
				default:
				}
			}
		})
	p.heard.Store(false)
}

// get polls the task. It returns nil after a temporary failure.
func (p *taskPoll) get(ctx context.Context) (*protocol.Task, error) {
	result, err := p.client.sendTask(ctx, protocol.MethodGetTask, p.task, nil)
	if err != nil {
		return nil, p.tolerate(ctx, err)
	}
	p.failures = 0
	got, ok := result.(*protocol.GetTaskResult)
	state := p.task.state
	switch {
	case !ok:
		return nil, unexpectedResult(protocol.MethodGetTask, result)
	case got.Task.ID != state.ID:
		err = errors.New("it is another task")
	case !got.Task.Created.Equal(state.Created):
		err = errors.New("its createdAt has changed")
	default:
		state.Poll = got.Task.PollAfter.Milliseconds()
		return &got.Task, nil
	}
	return nil, &ResponseError{protocol.MethodGetTask, err}
}

func (p *taskPoll) tolerate(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	said, answered := protocol.AsError(err)
	_, lost := errors.AsType[*TransportError](err)
	passing := lost || answered && (said.Code == protocol.CodeInternalError ||
		said.Code == protocol.CodeBusy)
	if p.failures++; !passing || p.failures > maxTaskFailures {
		return err
	}
	return nil
}

// answer calls the handlers for new questions, and sends the answers to all open questions.
func (p *taskPoll) answer(ctx context.Context, requests protocol.InputRequests) error {
	state := p.task.state
	var fresh protocol.InputRequests
	for _, q := range requests {
		if !slices.Contains(state.Asked, q.Key) {
			fresh = append(fresh, q)
		}
	}
	if p.repeats++; len(fresh) > 0 {
		p.repeats, p.received = 0, false
	}
	switch {
	case p.repeats > maxTaskRepeats:
		return &ResponseError{protocol.MethodGetTask,
			errors.New("the server keeps repeating answered questions")}
	case len(state.Asked)+len(fresh) > maxTaskQuestions:
		return &ResponseError{protocol.MethodGetTask, errors.New("the task asks too much")}
	}
	if err := p.ask(ctx, fresh); err != nil {
		return err
	}
	responses := collectResponses(requests, state.Answers)
	if len(responses) == 0 || p.received && p.repeats%resendTaskAnswers != 0 {
		return nil
	}
	if _, err := p.client.sendTask(ctx, protocol.MethodUpdateTask, p.task, responses); err != nil {
		return p.tolerate(ctx, err)
	}
	p.failures, p.received = 0, true
	return nil
}

func (p *taskPoll) ask(ctx context.Context, fresh protocol.InputRequests) error {
	if len(fresh) == 0 {
		return nil
	}
	state := p.task.state
	origin := QuestionOrigin{Method: protocol.MethodCallTool, Target: state.Tool,
		Round: len(state.Asked) + 1}
	answers, err := p.client.questions.answerQuestions(ctx, origin, fresh)
	if err != nil {
		return err
	}
	state.Answers = map[string]json.RawMessage{}
	for _, a := range answers {
		state.Asked = append(state.Asked, a.Key)
		state.Answers[a.Key] = a.Result
	}
	if p.keep == nil {
		return nil
	}
	return p.keep(p.task)
}

func (c *Client) sendTask(ctx context.Context, method string, t *Task,
	responses protocol.InputResponses) (protocol.Result, error) {
	params := &protocol.TaskParams{TaskID: t.state.ID, InputResponses: responses}
	l := leg{method: method, target: t.state.ID, params: params}
	return c.sendWithBusyRetry(ctx, c.newCall(l), l)
}

func checkHandle(result protocol.Result, declared *protocol.ClientCapabilities) error {
	if _, handle := result.(*protocol.CreateTaskResult); !handle ||
		declared != nil && declared.Extensions[protocol.ExtensionTasks] != nil {
		return nil
	}
	return &ResponseError{protocol.MethodCallTool,
		errors.New("a task, which this client has not declared to be able to handle")}
}
