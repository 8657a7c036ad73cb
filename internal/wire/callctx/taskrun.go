package callctx

// This file has what packages roundtrip and server/tasks tell each other of a call, marks the
// context of requests that a server makes to itself, to run a task, and names tasks where their ids
// may not be shown.

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// A TaskCall is what a call of package roundtrip has to do with tasks: Run is set, or Begin and
// Find.
type TaskCall struct {
	// Begin keeps a task that begins here, with the journal for its first run, and returns the
	// outcome of the call: a handle for the client, or the [*protocol.CallToolResult] of a task
	// that was over soon. flow is the id of the flow: a call that is sent again has the same, and
	// must get the same handle. An error that is no [*protocol.Error] says that the task cannot be
	// kept now.
	Begin func(ctx context.Context, flow [16]byte, journal []byte) (
		protocol.CallToolOutcome, error)
	// Find returns the handle of the task that the flow has begun, nil if it has begun none. It
	// is called where a guard knows of a request only that it was served.
	Find func(ctx context.Context, flow [16]byte) (*protocol.CreateTaskResult, error)
	// Run means that the call is a run of a task that has begun.
	Run *TaskRun
}

// A TaskRun is one run of a task: a round whose journal is in a record of the host instead of a
// sealed state. The answers are the Responses of the call.
type TaskRun struct {
	// Journal is what Begin, Save or Next said last.
	Journal []byte
	// Waited is how long each of the Responses took to come.
	Waited []time.Duration
	// Save keeps a journal for the case that this run does not come to its end. The run continues
	// when it returns, and ends when it fails: then the host must drop the outcome of the run. One
	// call at a time.
	Save func(ctx context.Context, journal []byte) error
	// Fits reports whether the host can keep an encoded result. Functions of OnCommit do not run
	// for one that it cannot.
	Fits func(result []byte) bool

	// Next is set when the run ends with questions, or waits: the journal of the next run, which
	// comes with the answers.
	Next []byte
	// WaitsFor is set when the run waits for something that is no question: its keys. The next
	// run looks again, and the result of this one means nothing.
	WaitsFor []string
}

type taskRunKey struct{}

// WithTaskRun returns a context whose requests are runs of a task.
func WithTaskRun(ctx context.Context) context.Context {
	return context.WithValue(ctx, taskRunKey{}, true)
}

// IsTaskRun reports whether ctx is that of a run of a task.
func IsTaskRun(ctx context.Context) bool { return ctx.Value(taskRunKey{}) != nil }

// TaskDigest returns what a store knows a task by. The id is random, so its digest tells nothing.
func TaskDigest(id string) [32]byte { return sha256.Sum256([]byte("rondo task id 1\x00" + id)) }

// LogTarget returns the target of a request as logs may show it. Who has the id of a task of an
// anonymous caller has the task, so there are the first digits of its digest in place of it.
func LogTarget(method, target string) string {
	if !strings.HasPrefix(method, "tasks/") || target == "" {
		return target
	}
	digest := TaskDigest(target)
	return hex.EncodeToString(digest[:4])
}
