package redisstore

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rondo-mcp/rondo/internal/state/sharedguard"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// A task is a hash with the fields flow, owner, number, holder, record, wakes and, once it is over,
// counted: its bytes in KEYS[2], which counts as for claims. KEYS[3] and KEYS[4] are sorted sets of
// tasks, by when they are due and by how long they must be kept. Beside them there is a key for
// each flow, and a set of tasks for each thing that some wait for. The names of these keys, which
// begin with KEYS[5], are made from what is in a hash, so a cluster learns of them late; it keeps
// all on one node.
const taskPrelude = prelude + `
local function isKept(id)
	return now < tonumber(redis.call('ZSCORE', KEYS[4], id) or 0)
end

-- setTimes has durations from now; a due below zero is never.
local function setTimes(id, due, keep)
	if tonumber(due) < 0 then
		redis.call('ZREM', KEYS[3], id)
	else
		redis.call('ZADD', KEYS[3], string.format('%.0f', now + due), id)
	end
	if keep then
		redis.call('ZADD', KEYS[4], string.format('%.0f', now + keep), id)
	end
end

local function eachWake(command, wakes, id)
	for digest in string.gmatch(wakes or '', string.rep('%x', 64)) do
		redis.call(command, KEYS[5] .. 'wake:' .. digest, id)
	end
end
`

var (
	// createScript has as ARGV: id, holder, record, wakes, due, keep, whether it is over, flow,
	// owner, and four bounds.
	createScript = redis.NewScript(taskPrelude + `
local id, record, over = ARGV[1], ARGV[3], ARGV[7] == '1'
local flow = KEYS[5] .. 'flow:' .. ARGV[8]
local has = redis.call('HMGET', KEYS[1], 'number', 'record')
if has[1] or redis.call('EXISTS', flow) == 1 then
	-- the client sends a script again whose reply was lost
	return {has[1] == '1' and has[2] == record and 'done' or 'exists'}
end
local bound = exceeded(ARGV[9], over and 0 or 1, 0, {ARGV[10], ARGV[11], ARGV[12], ARGV[13]})
if bound then
	return {'full', bound}
end
redis.call('SET', flow, id)
redis.call('HSET', KEYS[1], 'flow', ARGV[8], 'owner', ARGV[9], 'number', '1', 'holder', ARGV[2],
	'record', record, 'wakes', ARGV[4])
if over then
	redis.call('HSET', KEYS[1], 'counted', #record)
end
add(ARGV[9], over and 0 or 1, over and #record or 0)
eachWake('SADD', ARGV[4], id)
setTimes(id, ARGV[5], ARGV[6])
return {'done'}
`)
	// putTaskScript has as ARGV what createScript has up to the flow, and the number.
	putTaskScript = redis.NewScript(taskPrelude + `
local id, record = ARGV[1], ARGV[3]
local has = redis.call('HMGET', KEYS[1], 'number', 'record', 'wakes', 'counted', 'owner')
if not has[1] or not isKept(id) then
	return {'none'}
end
local next = string.format('%.0f', ARGV[8] + 1)
if has[1] == next and has[2] == record then
	return {'done'}
end
if has[1] ~= ARGV[8] or has[4] and ARGV[7] == '0' then
	return {'changed'}
end
redis.call('HSET', KEYS[1], 'number', next, 'holder', ARGV[2], 'record', record,
	'wakes', ARGV[4])
if ARGV[7] == '1' and not has[4] then -- a result is kept whether there is room for it or not
	redis.call('HSET', KEYS[1], 'counted', #record)
	add(has[5], -1, #record)
end
eachWake('SREM', has[3], id)
eachWake('SADD', ARGV[4], id)
setTimes(id, ARGV[5], ARGV[6])
return {'done'}
`)
	getScript = redis.NewScript(taskPrelude + `
if not isKept(ARGV[1]) then
	return {}
end
local has = redis.call('HMGET', KEYS[1], 'flow', 'owner', 'number', 'holder', 'record', 'wakes',
	'counted')
local due = redis.call('ZSCORE', KEYS[3], ARGV[1])
has[7] = has[7] and '1' or ''
has[8] = due and tonumber(due) <= now and '1' or ''
return has
`)
	renewTaskScript = redis.NewScript(taskPrelude + `
local has = redis.call('HMGET', KEYS[1], 'holder', 'counted')
if has[1] ~= ARGV[2] or ARGV[2] == '' or has[2] then
	return {'changed'}
end
setTimes(ARGV[1], ARGV[3])
return {'done'}
`)
	dueScript = redis.NewScript(taskPrelude + `
return redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, ARGV[1])
`)
	wakeScript = redis.NewScript(taskPrelude + `
local waked = {}
for _, id in ipairs(redis.call('SMEMBERS', KEYS[5] .. 'wake:' .. ARGV[1])) do
	local has = redis.call('HMGET', KEYS[5] .. id, 'holder', 'counted')
	if has[1] == '' and not has[2] then
		setTimes(id, 0)
		waked[#waked + 1] = #waked < tonumber(ARGV[2]) and id or nil
	end
end
return waked
`)
	dropScript = redis.NewScript(taskPrelude + `
local ids = redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', now, 'LIMIT', 0, 100)
for _, id in ipairs(ids) do
	local has = redis.call('HMGET', KEYS[5] .. id, 'flow', 'owner', 'wakes', 'counted')
	redis.call('DEL', KEYS[5] .. id)
	redis.call('ZREM', KEYS[3], id)
	redis.call('ZREM', KEYS[4], id)
	if has[1] then
		redis.call('DEL', KEYS[5] .. 'flow:' .. has[1])
		eachWake('SREM', has[3], id)
		add(has[2], has[4] and 0 or -1, 0 - (has[4] or 0))
	end
end
return #ids
`)
)

// taskKeys returns the keys of the scripts, for one task or for none.
func (s *Store) taskKeys(id string) []string {
	p := s.opts.Prefix + kindTasks + ":"
	return []string{p + id, p + "usage", p + "due", p + "keep", p}
}

// taskArgs returns what a script stores of a task.
func taskArgs(task *store.Task, times store.TaskTimes) []any {
	due, over, wakes := times.Due.Milliseconds(), 0, []byte(nil)
	if task.Over {
		due, over = -1, 1
	}
	if times.Due < 0 {
		due = -1
	}
	for _, digest := range task.Wakes {
		wakes = hex.AppendEncode(wakes, digest[:])
	}
	return []any{hexOf(task.ID), task.Holder, task.Record, wakes, due, times.Keep.Milliseconds(),
		over}
}

func hexOf(digest [32]byte) string { return hex.EncodeToString(digest[:]) }

// runTask runs a script of the task store, which ends with ctx, and after five seconds.
func (s *Store) runTask(ctx context.Context, method string, script *redis.Script, id string,
	args ...any) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, sharedguard.Timeout)
	defer cancel()
	reply, err := script.Run(ctx, s.client, s.taskKeys(id), args...).StringSlice()
	if err == nil && len(reply) > 0 {
		switch reply[0] {
		case "none":
			err = store.ErrNoTask
		case "changed":
			err = store.ErrTaskChanged
		case "exists":
			err = store.ErrTaskExists
		case "full":
			err = &store.QuotaError{Resource: kindTasks, Limit: reply[1]}
		}
	}
	if err != nil {
		err = fmt.Errorf("redisstore: %s: %w", method, err)
	}
	return reply, err
}

// CreateTask implements [store.TaskStore]. Like all methods of it, it ends with ctx, and after
// five seconds. There is no room, either, while the tasks that are over take [Options].MaxBytes.
func (s *Store) CreateTask(ctx context.Context, task *store.Task, times store.TaskTimes,
	room store.TaskRoom) error {
	owner := sharedguard.OwnerOf("")
	if task.Owner != [32]byte{} {
		owner = hexOf(task.Owner)
	}
	share, all := s.shares.Of(owner)
	args := append(taskArgs(task, times), hexOf(task.Flow), owner,
		cmp.Or(room.Owner, math.MaxInt32), cmp.Or(room.All, math.MaxInt32), share.Bytes,
		all.Bytes)
	_, err := s.runTask(ctx, "create a task", createScript, hexOf(task.ID), args...)
	if err == nil {
		task.Number = 1
	}
	return err
}

// PutTask implements [store.TaskStore].
func (s *Store) PutTask(ctx context.Context, task *store.Task, times store.TaskTimes) error {
	_, err := s.runTask(ctx, "put a task", putTaskScript, hexOf(task.ID),
		append(taskArgs(task, times), task.Number)...)
	if err == nil {
		task.Number++
	}
	return err
}

// GetFlow implements [store.TaskStore].
func (s *Store) GetFlow(ctx context.Context, flow [32]byte) (*store.Task, error) {
	ctx, cancel := context.WithTimeout(ctx, sharedguard.Timeout)
	defer cancel()
	id, err := s.client.Get(ctx, s.taskKeys("flow:" + hexOf(flow))[0]).Result()
	if errors.Is(err, redis.Nil) {
		err = store.ErrNoTask
	}
	if err != nil {
		return nil, fmt.Errorf("redisstore: get the task of a flow: %w", err)
	}
	return s.getTask(ctx, id)
}

// GetTask implements [store.TaskStore].
func (s *Store) GetTask(ctx context.Context, id [32]byte) (*store.Task, error) {
	return s.getTask(ctx, hexOf(id))
}

func (s *Store) getTask(ctx context.Context, id string) (*store.Task, error) {
	has, err := s.runTask(ctx, "get a task", getScript, id, id)
	switch {
	case err != nil:
		return nil, err
	case len(has) == 0:
		return nil, store.ErrNoTask
	case len(has) != 8 || len(has[0]) != 64:
		return nil, errReply
	}
	digests, err := readDigests(id, has[0], has[5])
	if err != nil {
		return nil, err
	}
	t := &store.Task{ID: digests[0], Flow: digests[1], Wakes: digests[2:], Holder: has[3],
		Record: []byte(has[4]), Over: has[6] != "", Due: has[7] != ""}
	if len(t.Wakes) == 0 {
		t.Wakes = nil
	}
	if has[1] != sharedguard.OwnerOf("") {
		if digests, err = readDigests(has[1]); err != nil {
			return nil, err
		}
		t.Owner = digests[0]
	}
	if t.Number, err = strconv.ParseInt(has[2], 10, 64); err != nil {
		return nil, errReply
	}
	return t, nil
}

// readDigests reads texts that are one digest or more, or none, each.
func readDigests(texts ...string) (digests [][32]byte, err error) {
	for _, text := range texts {
		raw, err := hex.DecodeString(text)
		if err != nil || len(raw)%32 != 0 {
			return nil, errReply
		}
		for d := range slices.Chunk(raw, 32) {
			digests = append(digests, [32]byte(d))
		}
	}
	return digests, nil
}

// RenewTask implements [store.TaskStore].
func (s *Store) RenewTask(ctx context.Context, id [32]byte, holder string,
	due time.Duration) error {
	_, err := s.runTask(ctx, "renew a task", renewTaskScript, hexOf(id), hexOf(id), holder,
		due.Milliseconds())
	return err
}

// DueTasks implements [store.TaskStore].
func (s *Store) DueTasks(ctx context.Context, limit int) ([][32]byte, error) {
	ids, err := s.runTask(ctx, "list tasks", dueScript, "", limit)
	if err != nil {
		return nil, err
	}
	return readDigests(ids...)
}

// WakeTasks implements [store.TaskStore].
func (s *Store) WakeTasks(ctx context.Context, digest [32]byte, limit int) ([][32]byte, error) {
	ids, err := s.runTask(ctx, "wake tasks", wakeScript, "", hexOf(digest), limit)
	if err != nil {
		return nil, err
	}
	return readDigests(ids...)
}

// maxDropBatches is how many batches of tasks one call of [Store.DropTasks] drops at most.
const maxDropBatches = 100

// DropTasks implements [store.TaskStore]. It drops at most 10,000 tasks, the oldest, a hundred at
// once.
func (s *Store) DropTasks(ctx context.Context) error {
	for range maxDropBatches {
		n, err := s.dropSome(ctx)
		if err != nil || n < 100 {
			return err
		}
	}
	return nil
}

func (s *Store) dropSome(ctx context.Context) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, sharedguard.Timeout)
	defer cancel()
	if n, err = dropScript.Run(ctx, s.client, s.taskKeys("")).Int(); err != nil {
		err = fmt.Errorf("redisstore: drop tasks: %w", err)
	}
	return n, err
}
