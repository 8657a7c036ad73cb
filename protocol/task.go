package protocol

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// ExtensionTasks is the name of the tasks extension in declared capabilities.
const ExtensionTasks = "io.modelcontextprotocol/tasks"

// A Task is work that outlives the request that began it (the tasks extension).
type Task struct {
	ID        string
	State     TaskState
	Message   string // progress for model and user; may be empty
	Created   time.Time
	Updated   time.Time
	TTL       time.Duration // from Created, milliseconds on the wire; 0 for no limit
	PollAfter time.Duration // poll interval, milliseconds on the wire; 0 if unset
}

// A TaskState is a [TaskWorking], [TaskInputRequired], [TaskCompleted], [TaskFailed] or
// [TaskCancelled].
type TaskState interface {
	// Status returns the wire's name of the state.
	Status() string
	appendDetails(w *objectWriter)
}

type (
	// TaskWorking means that the work is in progress.
	TaskWorking struct{}
	// TaskInputRequired means that the work waits for answers to all Requests.
	TaskInputRequired struct{ Requests InputRequests }
	// TaskCompleted means that the work ended with a result, never nil.
	TaskCompleted struct{ Result *CallToolResult }
	// TaskFailed means that the work ended with a JSON-RPC error, never nil.
	TaskFailed struct{ Error *Error }
	// TaskCancelled means that the client cancelled the work.
	TaskCancelled struct{}
)

const (
	taskWorking       = "working"
	taskInputRequired = "input_required"
	taskCompleted     = "completed"
	taskFailed        = "failed"
	taskCancelled     = "cancelled"
)

// Status returns "working".
func (TaskWorking) Status() string { return taskWorking }

// Status returns "input_required".
func (TaskInputRequired) Status() string { return taskInputRequired }

// Status returns "completed".
func (TaskCompleted) Status() string { return taskCompleted }

// Status returns "failed".
func (TaskFailed) Status() string { return taskFailed }

// Status returns "cancelled".
func (TaskCancelled) Status() string { return taskCancelled }

// IsOver reports whether the task has reached a final state.
func (t *Task) IsOver() bool {
	switch t.State.(type) {
	case TaskCompleted, TaskFailed, TaskCancelled:
		return true
	}
	return false
}

// CreateTaskResult answers tools/call with the handle of a new task, instead of the handler's
// result. Clients that have not declared the extension never get it.
type CreateTaskResult struct {
	Task Task // without the details of its state
	Meta Meta
}

func (*CreateTaskResult) isCallToolOutcome() {}

// GetTaskResult answers tasks/get.
type GetTaskResult struct {
	Task Task
	Meta Meta
}

// TaskParams are the parameters of tasks/get, tasks/update and tasks/cancel.
type TaskParams struct {
	TaskID         string
	InputResponses InputResponses // of tasks/update, otherwise nil
	RequestMeta

	update bool
}

func (p *TaskParams) checkComplete() error {
	if p.update && p.InputResponses == nil {
		return fmt.Errorf("inputResponses: must be present")
	}
	return requireText("taskId", p.TaskID)
}

func (p *TaskParams) codeMembers(w *objectWriter, m member) (err error) {
	if p.update && m.reads("inputResponses") {
		p.InputResponses, err = decodeInputResponses(m.value)
	}
	err = firstError(err, w.codeText(m, "taskId", &p.TaskID))
	if w != nil {
		(&Retry{InputResponses: p.InputResponses}).appendRetry(w)
	}
	return err
}

func (*CreateTaskResult) checkComplete() error { return nil }
func (*GetTaskResult) checkComplete() error    { return nil }

// codeMembers does not read the task, see [decodeTask].
func (r *CreateTaskResult) codeMembers(w *objectWriter, m member) (err error) {
	if w != nil {
		if w.version.Era() != Modern {
			return fmt.Errorf("revision %s has no tasks", w.version)
		}
		err = r.Task.appendTask(w, false)
	}
	return firstError(err, w.codeMeta(m, &r.Meta))
}

func (r *GetTaskResult) codeMembers(w *objectWriter, m member) (err error) {
	if w != nil {
		err = r.Task.appendTask(w, true)
	}
	return firstError(err, w.codeMeta(m, &r.Meta))
}

// EncodeTask encodes a task with the details of its state, for tasks/get and notifications/tasks.
func EncodeTask(t *Task) (json.RawMessage, error) {
	w := beginObject(make([]byte, 0, startBytes))
	w.keepError(t.appendTask(&w, true))
	return w.endObject()
}

// appendTask writes the task, with the details of its state or as a handle.
func (t *Task) appendTask(w *objectWriter, details bool) error {
	switch {
	case t.ID == "":
		return fmt.Errorf("taskId: must be present")
	case t.State == nil:
		return fmt.Errorf("status: must be present")
	}
	c := taskCodec{task: *t, status: t.State.Status()}
	err := c.codeMembers(w, member{})
	if details {
		t.State.appendDetails(w)
	}
	return err
}

func (TaskWorking) appendDetails(*objectWriter)   {}
func (TaskCancelled) appendDetails(*objectWriter) {}

func (s TaskInputRequired) appendDetails(w *objectWriter) {
	if len(s.Requests) == 0 {
		w.recordError("inputRequests", fmt.Errorf("must be present"))
		return
	}
	w.addInputRequests(Latest, s.Requests)
}

func (s TaskCompleted) appendDetails(w *objectWriter) {
	if s.Result == nil {
		w.recordError("result", fmt.Errorf("must be present"))
		return
	}
	w.addKey("result")
	in := beginObject(w.dst)
	in.addText("resultType", resultComplete) // as in the response to the call
	in.keepError(s.Result.codeMembers(&in, member{}))
	var err error
	if w.dst, err = in.endObject(); err != nil {
		w.recordError("result", err)
	}
}

func (s TaskFailed) appendDetails(w *objectWriter) {
	if s.Error == nil {
		w.recordError("error", fmt.Errorf("must be present"))
		return
	}
	w.addKey("error")
	w.dst = appendError(w.dst, s.Error)
}

// DecodeTask reads a task with the details of its state, for example the parameters of
// notifications/tasks. It ignores other members.
func DecodeTask(data []byte) (*Task, error) {
	if err := jsonx.Check(data); err != nil {
		return nil, fmt.Errorf("task: %w", err)
	}
	return decodeTask(data, true)
}

func decodeTask(data []byte, details bool) (*Task, error) {
	c := taskCodec{details: details}
	if err := readObject(data, &c, nil); err != nil {
		return nil, fmt.Errorf("task: %w", err)
	}
	return &c.task, nil
}

// A taskCodec holds a task's members, in any order, until the state can be read.
type taskCodec struct {
	task     Task
	details  bool
	status   string
	requests InputRequests
	result   json.RawMessage
	failure  json.RawMessage
}

func (c *taskCodec) checkComplete() (err error) {
	switch {
	case c.task.ID == "":
		return fmt.Errorf("taskId: must be present")
	case c.task.Created.IsZero() || c.task.Updated.IsZero():
		return fmt.Errorf("createdAt and lastUpdatedAt: must be present")
	}
	c.task.State, err = c.readState()
	return err
}

func (c *taskCodec) codeMembers(w *objectWriter, m member) (err error) {
	if m.reads("inputRequests") {
		c.requests, err = decodeInputRequests(m.value)
	}
	return firstError(err,
		w.codeText(m, "taskId", &c.task.ID),
		w.codeText(m, "status", &c.status),
		w.codeNonEmptyText(m, "statusMessage", &c.task.Message),
		w.codeTime(m, "createdAt", &c.task.Created),
		w.codeTime(m, "lastUpdatedAt", &c.task.Updated),
		w.codeMillis(m, "ttlMs", &c.task.TTL, true),
		w.codeMillis(m, "pollIntervalMs", &c.task.PollAfter, false),
		w.codeObject(m, "result", &c.result),
		w.codeObject(m, "error", &c.failure))
}

// readState returns the state. Without details, a completed task has an empty result and a failed
// task an empty error; only tasks/get has the details.
func (c *taskCodec) readState() (TaskState, error) {
	switch c.status {
	case taskWorking:
		return TaskWorking{}, nil
	case taskCancelled:
		return TaskCancelled{}, nil
	case taskInputRequired:
		return TaskInputRequired{c.requests}, c.requireDetails("inputRequests", len(c.requests))
	case taskCompleted:
		result := &CallToolResult{}
		err := c.requireDetails("result", len(c.result))
		if c.details && err == nil {
			err = nameMember([]byte("result"), readObject(c.result, result, nil))
		}
		return TaskCompleted{result}, err
	case taskFailed:
		failure := &Error{}
		err := c.requireDetails("error", len(c.failure))
		if c.details && err == nil {
			failure, err = decodeError(c.failure)
		}
		return TaskFailed{failure}, err
	}
	return nil, fmt.Errorf("unknown status %s", quoteClipped(c.status))
}

func (c *taskCodec) requireDetails(name string, length int) error {
	if c.details && length == 0 {
		return fmt.Errorf("%s: must be present", name)
	}
	return nil
}

// codeTime codes a time in a fixed width, so that clients may compare it as text.
func (w *objectWriter) codeTime(m member, name string, p *time.Time) error {
	var err error
	text := ""
	if w != nil {
		text = p.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	if err = w.codeText(m, name, &text); err == nil && m.reads(name) {
		*p, err = time.Parse(time.RFC3339, text)
	}
	if err != nil {
		return fmt.Errorf("%s: must be a time of RFC 3339", name)
	}
	return nil
}

const maxTaskMillis = 100 * 366 * 24 * int64(time.Hour/time.Millisecond) // a hundred years

// codeMillis codes a duration in milliseconds. An unset duration is written as null or left out.
func (w *objectWriter) codeMillis(m member, name string, p *time.Duration, null bool) error {
	switch {
	case m.reads(name):
		var n int64
		if err := jsonx.Decode(m.value, &n); err != nil || n <= 0 {
			return fmt.Errorf("%s: must be a positive number of milliseconds", name)
		}
		*p = time.Duration(min(n, maxTaskMillis)) * time.Millisecond
	case w != nil && *p > 0:
		w.addInteger(name, max(p.Milliseconds(), 1))
	case w != nil && null:
		w.addRaw(name, []byte("null"))
	}
	return nil
}
