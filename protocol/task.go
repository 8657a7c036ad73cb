package protocol

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// ExtensionTasks is the name of the tasks extension among the extensions that clients and
// servers declare.
const ExtensionTasks = "io.modelcontextprotocol/tasks"

// A Task is work that outlives the request which began it (the tasks extension).
type Task struct {
	ID string
	// State is what the task has come to.
	State TaskState
	// Message tells model and person how the work goes; empty: nothing.
	Message   string
	Created   time.Time
	Updated   time.Time
	TTL       time.Duration // from Created, in milliseconds on the wire; 0: no limit
	PollAfter time.Duration // when to ask again, in milliseconds on the wire; 0: unsaid
}

// A TaskState is a [TaskWorking], [TaskInputRequired], [TaskCompleted], [TaskFailed] or
// [TaskCancelled].
type TaskState interface {
	// Status returns the word of the wire.
	Status() string
	appendDetails(w *objectWriter)
}

type (
	// TaskWorking means that the work goes on.
	TaskWorking struct{}
	// TaskInputRequired means that the work waits for answers to all of Requests.
	TaskInputRequired struct{ Requests InputRequests }
	// TaskCompleted means that the work ended with a result, which is never nil.
	TaskCompleted struct{ Result *CallToolResult }
	// TaskFailed means that the work ended with an error of JSON-RPC, which is never nil.
	TaskFailed struct{ Error *Error }
	// TaskCancelled means that the client ended the work.
	TaskCancelled struct{}
)

// The words of the wire for the states of a task.
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

// IsOver reports whether the task will not change any more.
func (t *Task) IsOver() bool {
	switch t.State.(type) {
	case TaskCompleted, TaskFailed, TaskCancelled:
		return true
	}
	return false
}

// CreateTaskResult answers tools/call with the handle of a task. Handlers do not return it: it
// takes the place of their result when a task begins. Clients that have not declared the
// extension never get one.
type CreateTaskResult struct {
	// Task is what a first tasks/get would say, without the details of its state.
	Task Task
	Meta Meta
}

// ResultType returns "task".
func (*CreateTaskResult) ResultType() string { return resultTask }

func (*CreateTaskResult) isResult()          {}
func (*CreateTaskResult) isCallToolOutcome() {}

// GetTaskResult answers tasks/get.
type GetTaskResult struct {
	Task Task
	Meta Meta
}

// ResultType returns "complete".
func (*GetTaskResult) ResultType() string { return resultComplete }

func (*GetTaskResult) isResult() {}

// TaskParams are the parameters of tasks/get, tasks/update and tasks/cancel.
type TaskParams struct {
	TaskID string
	// InputResponses are the answers of a tasks/update, nil for the other methods.
	InputResponses InputResponses
	RequestMeta

	update bool
}

func (p *TaskParams) readMember(key, value []byte) (err error) {
	switch string(key) {
	case "taskId":
		return textMember(&p.TaskID, key, value)
	case "inputResponses":
		if p.update {
			p.InputResponses, err = decodeInputResponses(value)
		}
	}
	return err
}

func (p *TaskParams) checkComplete() error {
	if p.update && p.InputResponses == nil {
		return fmt.Errorf("inputResponses: must be present")
	}
	return requireText("taskId", p.TaskID)
}

func (p *TaskParams) appendMembers(w *objectWriter) {
	w.addText("taskId", p.TaskID)
	if p.InputResponses != nil {
		(&Retry{InputResponses: p.InputResponses}).appendRetry(w)
	}
}

// EncodeTask returns the JSON text of a task with the details of its state, as tasks/get and
// notifications/tasks have it.
func EncodeTask(t *Task) (json.RawMessage, error) {
	w := beginObject(make([]byte, 0, startBytes))
	t.appendMembers(&w, true)
	return w.endObject()
}

// appendMembers writes the task, with the details of its state or as a handle.
func (t *Task) appendMembers(w *objectWriter, details bool) {
	if t.ID == "" {
		w.recordError("taskId", fmt.Errorf("must be present"))
	}
	if t.State == nil {
		w.recordError("status", fmt.Errorf("must be present"))
		return
	}
	w.addText("taskId", t.ID)
	w.addText("status", t.State.Status())
	w.addNonEmptyText("statusMessage", t.Message)
	w.addText("createdAt", spellTaskTime(t.Created))
	w.addText("lastUpdatedAt", spellTaskTime(t.Updated))
	if t.TTL > 0 {
		w.addInteger("ttlMs", max(t.TTL.Milliseconds(), 1))
	} else {
		w.addRaw("ttlMs", []byte("null"))
	}
	if t.PollAfter > 0 {
		w.addInteger("pollIntervalMs", max(t.PollAfter.Milliseconds(), 1))
	}
	if details {
		own := *w // on the heap, as the writers of other results need not be
		t.State.appendDetails(&own)
		*w = own
	}
}

// spellTaskTime spells a time in the one way that clients may compare as text.
func spellTaskTime(t time.Time) string {
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
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
	in.addText("resultType", resultComplete) // as the call itself would have been answered
	s.Result.appendMembers(&in, Latest)
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

// DecodeTask reads a task as [EncodeTask] writes it: the parameters of notifications/tasks, for
// example. What else the object has is passed over.
func DecodeTask(data []byte) (*Task, error) {
	if err := jsonx.Check(data); err != nil {
		return nil, fmt.Errorf("task: %w", err)
	}
	return decodeTask(data, true)
}

// decodeTask reads a task, with the details of its state or as a handle.
func decodeTask(data []byte, details bool) (*Task, error) {
	r := taskReader{}
	if err := readMembers(data, r.readMember); err != nil {
		return nil, fmt.Errorf("task: %w", err)
	}
	var err error
	switch {
	case r.task.ID == "":
		err = fmt.Errorf("taskId: must be present")
	case r.task.Created.IsZero() || r.task.Updated.IsZero():
		err = fmt.Errorf("createdAt and lastUpdatedAt: must be present")
	default:
		r.task.State, err = r.readState(details)
	}
	if err != nil {
		return nil, fmt.Errorf("task: %w", err)
	}
	return &r.task, nil
}

// A taskReader collects the members of a task, whose order on the wire is free.
type taskReader struct {
	task     Task
	status   string
	requests InputRequests
	result   []byte
	failure  []byte
}

func (r *taskReader) readMember(key, value []byte) (err error) {
	switch string(key) {
	case "taskId":
		return textMember(&r.task.ID, key, value)
	case "status":
		return textMember(&r.status, key, value)
	case "statusMessage":
		return textMember(&r.task.Message, key, value)
	case "createdAt":
		return timeMember(&r.task.Created, key, value)
	case "lastUpdatedAt":
		return timeMember(&r.task.Updated, key, value)
	case "ttlMs":
		return millisMember(&r.task.TTL, key, value)
	case "pollIntervalMs":
		return millisMember(&r.task.PollAfter, key, value)
	case "inputRequests":
		r.requests, err = decodeInputRequests(value)
	case "result":
		err = objectMember(&r.result, key, value)
	case "error":
		err = objectMember(&r.failure, key, value)
	}
	return err
}

// readState returns the state that the members say. Without details a completed task has an
// empty result and a failed one an empty error, which only tasks/get tells.
func (r *taskReader) readState(details bool) (TaskState, error) {
	switch r.status {
	case taskWorking:
		return TaskWorking{}, nil
	case taskCancelled:
		return TaskCancelled{}, nil
	case taskInputRequired:
		if details && len(r.requests) == 0 {
			return nil, fmt.Errorf("inputRequests: must be present")
		}
		return TaskInputRequired{r.requests}, nil
	case taskCompleted:
		if !details {
			return TaskCompleted{&CallToolResult{}}, nil
		}
		if r.result == nil {
			return nil, fmt.Errorf("result: must be present")
		}
		result, err := decodeCallTool(r.result, nil)
		if err != nil {
			return nil, fmt.Errorf("result: %w", err)
		}
		return TaskCompleted{result.(*CallToolResult)}, nil
	case taskFailed:
		if !details {
			return TaskFailed{&Error{}}, nil
		}
		if r.failure == nil {
			return nil, fmt.Errorf("error: must be present")
		}
		failure, err := decodeError(r.failure)
		return TaskFailed{failure}, err
	}
	return nil, fmt.Errorf("unknown status %s", quoteClipped(r.status))
}

func timeMember(dst *time.Time, key, value []byte) error {
	text, err := jsonx.Text(value)
	if err == nil {
		*dst, err = time.Parse(time.RFC3339, text)
	}
	if err != nil {
		return fmt.Errorf("%s: must be a time of RFC 3339", key)
	}
	return nil
}

// maxTaskMillis is how far the durations of a task are read: a hundred years.
const maxTaskMillis = 100 * 366 * 24 * int64(time.Hour/time.Millisecond)

func millisMember(dst *time.Duration, key, value []byte) error {
	var n int64
	if err := jsonx.Decode(value, &n); err != nil || n <= 0 {
		return fmt.Errorf("%s: must be a positive number of milliseconds", key)
	}
	*dst = time.Duration(min(n, maxTaskMillis)) * time.Millisecond
	return nil
}

func decodeCreateTask(data []byte) (Result, error) {
	task, err := decodeTask(data, false)
	if err != nil {
		return nil, err
	}
	r := &CreateTaskResult{Task: *task}
	return r, decodeMeta(data, &r.Meta)
}

func decodeGetTask(data []byte) (Result, error) {
	task, err := decodeTask(data, true)
	if err != nil {
		return nil, err
	}
	r := &GetTaskResult{Task: *task}
	return r, decodeMeta(data, &r.Meta)
}
