package tasks

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// A record is the complete state of a task, stored sealed. Times are of the replicas' clocks.
type record struct {
	ID        string          `json:"id"`
	Owner     owner           `json:"owner"`
	Tool      string          `json:"tool"`
	Params    json.RawMessage `json:"params"` // of the call, without answers and state
	Scopes    []string        `json:"scopes"`
	Unlimited bool            `json:"unlimited"`

	Created time.Time     `json:"created"`
	Updated time.Time     `json:"updated"`
	TTL     time.Duration `json:"ttl"`
	Message string        `json:"message"`

	Status  string          `json:"status"`
	Result  json.RawMessage `json:"result,omitempty"` // of a completed task
	Failure *failure        `json:"failure,omitempty"`

	Journal   []byte     `json:"journal"`
	Asked     []asked    `json:"asked,omitempty"`   // and not answered yet
	Answers   []answered `json:"answers,omitempty"` // for the next run
	Used      []string   `json:"used,omitempty"`    // all wire keys so far
	WaitsFor  []string   `json:"waitsFor,omitempty"`
	Looks     int        `json:"looks,omitempty"` // checks in a row that found nothing
	Deaths    int        `json:"deaths,omitempty"`
	Attempts  int        `json:"attempts,omitempty"`  // runs in a row without the handler
	Cancelled bool       `json:"cancelled,omitempty"` // while the task ran
	Read      bool       `json:"read,omitempty"`      // the client was sent how it ended
	Queued    bool       `json:"queued,omitempty"`    // held, and its run has not begun

	how string // how it ended, unless its status says so; set only while it is stored
}

// An owner is a principal that survives JSON.
type owner struct {
	Local   bool   `json:"local,omitempty"`
	Issuer  []byte `json:"issuer,omitempty"`
	Subject []byte `json:"subject,omitempty"`
}

func ownerOf(p protocol.Principal) owner {
	return owner{p.IsLocal(), []byte(p.Issuer), []byte(p.Subject)}
}

func (o owner) principal() protocol.Principal {
	if o.Local {
		return protocol.LocalPrincipal()
	}
	return protocol.Principal{Issuer: string(o.Issuer), Subject: string(o.Subject)}
}

// The statuses of a record. A task with open questions shows as working while it waits otherwise.
const (
	statusWorking   = "working"
	statusAsks      = "input_required"
	statusCompleted = "completed"
	statusFailed    = "failed"
	statusCancelled = "cancelled"
)

type failure struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// The type asked is a question: Wire is its key for the client, Key for handler and journal.
type asked struct {
	Wire   string          `json:"wire"`
	Key    string          `json:"key"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
	At     time.Time       `json:"at"`
}

// The type answered is an answer that no completed run has used.
type answered struct {
	Key    string          `json:"key"`
	Result json.RawMessage `json:"result"`
	Waited time.Duration   `json:"waited"`
}

func (r *record) isOver() bool {
	return r.Status == statusCompleted || r.Status == statusFailed || r.Status == statusCancelled
}

// The method expires returns when an unfinished task fails, or a finished one may be dropped.
func (r *record) expires() time.Time { return r.Created.Add(r.TTL) }

func (r *record) hasExpired(now time.Time) bool { return !r.isOver() && !now.Before(r.expires()) }

// touch records a change that clients see. Times only grow.
func (r *record) touch(now time.Time) {
	now = now.UTC().Truncate(time.Millisecond)
	if !now.After(r.Updated) {
		now = r.Updated.Add(time.Millisecond)
	}
	r.Updated = now
}

// keepJournal replaces the journal. Only a longer one counts as progress.
func (r *record) keepJournal(journal []byte) {
	if len(journal) > len(r.Journal) {
		r.Deaths = 0
	}
	r.Journal = journal
}

// end sets the final status, and keeps the task for a while.
func (r *record) end(status string, now time.Time) {
	r.Status, r.Asked, r.Answers, r.WaitsFor = status, nil, nil, nil
	r.Journal, r.Params, r.Used, r.Message = nil, nil, nil, ""
	r.touch(now)
	if least := now.Add(keepAfterEnd).Sub(r.Created); r.TTL < least {
		r.TTL = least.Truncate(time.Millisecond)
	}
}

// cancel ends a task without a run, and marks one with a run. It reports whether r changed.
func (r *record) cancel(task *store.Task, now time.Time) bool {
	if task.Holder == "" || task.Due {
		task.Holder = ""
		r.end(statusCancelled, now)
		return true
	}
	changed := !r.Cancelled
	r.Cancelled = true
	return changed
}

func (r *record) fail(e *protocol.Error, now time.Time) {
	r.end(statusFailed, now)
	r.Failure = &failure{e.Code, e.Message, e.Data}
	r.Message = cleanMessage(e.Message)
}

func (r *record) expire(now time.Time) {
	r.fail(protocol.Errorf(protocol.CodeInternalError,
		"expired: the task took too long; start the call again"), now)
	r.Message, r.how = "expired", "expired"
}

// toTask returns the task as clients see it.
func (r *record) toTask(now time.Time) (*protocol.Task, error) {
	t := &protocol.Task{ID: r.ID, Message: r.Message, Created: r.Created, Updated: r.Updated,
		TTL: r.TTL, State: protocol.TaskWorking{}, PollAfter: pollWorking}
	var err error
	switch r.Status {
	case statusAsks:
		t.PollAfter = pollWaiting
		if now.Sub(r.Updated) > pollSlowAfter {
			t.PollAfter = pollSlow
		}
		var requests protocol.InputRequests
		requests, err = r.requests()
		t.State = protocol.TaskInputRequired{Requests: requests}
	case statusCompleted:
		t.PollAfter = 0
		var result protocol.Result
		result, err = protocol.DecodeResult(protocol.Latest, protocol.MethodCallTool, r.Result)
		done, _ := result.(*protocol.CallToolResult)
		t.State = protocol.TaskCompleted{Result: done}
	case statusFailed:
		t.PollAfter = 0
		t.State = protocol.TaskFailed{Error: &protocol.Error{Code: r.Failure.Code,
			Message: r.Failure.Message, Data: r.Failure.Data}}
	case statusCancelled:
		t.PollAfter = 0
		t.State = protocol.TaskCancelled{}
	}
	return t, err
}

func (r *record) requests() (protocol.InputRequests, error) {
	list := make(protocol.InputRequests, len(r.Asked))
	for i, q := range r.Asked {
		request, err := protocol.DecodeInputRequest(q.Method, q.Params)
		if err != nil {
			return nil, fmt.Errorf("question %q: %w", q.Key, err)
		}
		list[i] = protocol.KeyedRequest{Key: q.Wire, Request: request}
	}
	return list, nil
}

// ask replaces the outstanding questions, each under a new wire key.
func (r *record) ask(requests protocol.InputRequests, now time.Time) error {
	taken := make(map[string]bool, len(r.Used)+len(requests))
	for _, key := range r.Used {
		taken[key] = true
	}
	own := map[string]bool{} // the author's own keys, which are no repetitions
	for _, q := range requests {
		own[q.Key] = true
	}
	r.Asked = nil
	for _, q := range requests {
		wire := q.Key
		for n := 2; taken[wire] || wire != q.Key && own[wire]; n++ {
			wire = q.Key + "." + strconv.Itoa(n)
		}
		taken[wire] = true
		r.Used = append(r.Used, wire)
		request, err := protocol.AppendInputRequest(nil, protocol.Latest, q.Request)
		if err != nil {
			return fmt.Errorf("question %q: %w", q.Key, err)
		}
		one := asked{Wire: wire, Key: q.Key, At: now}
		if err := jsonx.Decode(request, &one); err != nil { // method and params
			return err
		}
		r.Asked = append(r.Asked, one)
	}
	r.Status = statusAsks
	r.touch(now)
	return nil
}

// answer stores the answers to outstanding questions and returns the keys of the other answers.
func (r *record) answer(responses protocol.InputResponses, now time.Time) (unused []string) {
	for _, response := range responses {
		i := slices.IndexFunc(r.Asked, func(q asked) bool { return q.Wire == response.Key })
		if i < 0 {
			unused = append(unused, response.Key)
			continue
		}
		q := r.Asked[i]
		r.Answers = append(r.Answers, answered{q.Key, response.Result, max(now.Sub(q.At), 0)})
		r.Asked = append(r.Asked[:i:i], r.Asked[i+1:]...)
	}
	if len(unused) < len(responses) {
		r.touch(now)
	}
	if len(r.Asked) == 0 && r.Status == statusAsks {
		r.Status = statusWorking
	}
	return unused
}

// sealPurpose, the id and the number are sealed first, so that a record is valid only in its place.
const sealPurpose = "rondo task record 1\x00"

func sealHead(id [32]byte, number int64) []byte {
	head := append([]byte(sealPurpose), id[:]...)
	return binary.BigEndian.AppendUint64(head, uint64(number))
}

// seal returns the sealed record of the task with that number.
func (t *Tasks) seal(ctx context.Context, r *record, number int64) ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if len(text) > maxRecord {
		return nil, errTooLarge
	}
	sealed, err := t.sealer.Seal(ctx, append(sealHead(digestID(r.ID), number), text...))
	if err != nil {
		return nil, fmt.Errorf("sealing: %w", err)
	}
	return []byte(sealed), nil
}

func (t *Tasks) open(ctx context.Context, task *store.Task) (*record, error) {
	plain, err := t.sealer.Open(ctx, string(task.Record))
	if err != nil {
		return nil, fmt.Errorf("opening the record of a task: %w", err)
	}
	head := sealHead(task.ID, task.Number)
	if len(plain) < len(head) || string(plain[:len(head)]) != string(head) {
		return nil, fmt.Errorf("opening the record of a task: it belongs elsewhere")
	}
	r := &record{}
	if err := json.Unmarshal(plain[len(head):], r); err != nil {
		return nil, fmt.Errorf("opening the record of a task: %w", err)
	}
	return r, nil
}

func digestID(id string) [32]byte { return rpc.TaskDigest(id) }

func digestFlow(flow [16]byte) [32]byte {
	return sha256.Sum256(append([]byte("rondo task flow 1\x00"), flow[:]...))
}
