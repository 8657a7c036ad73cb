package redisstore

import "github.com/redis/go-redis/v9"

// Redis runs scripts one after the other, which makes them atomic. They use its clock.
//
// A claim is a hash with the fields kind, print, holder, lease and outcome, and an expiry. Usage is
// counted in one hash, KEYS[2], with the fields owner:e for entries and owner:b for bytes, and *
// for all owners. KEYS[3] is a sorted set of counted entries by expiry: "key owner bytes". So the
// count follows expiry in Redis.
const prelude = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function add(owner, entries, bytes)
	for _, account in ipairs({owner, '*'}) do
		for field, n in pairs({[account .. ':e'] = entries, [account .. ':b'] = bytes}) do
			if redis.call('HINCRBY', KEYS[2], field, n) <= 0 then
				redis.call('HDEL', KEYS[2], field)
			end
		end
	end
end

local function sweep()
	for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, 100)) do
		local owner, bytes = string.match(member, '^%x+ (%x*) (%d+)$')
		redis.call('ZREM', KEYS[3], member)
		add(owner, -1, -tonumber(bytes))
	end
end

-- exceeded returns which bound entries and bytes would pass, false for none. The bounds are those
-- of the owner and of all, for entries and for bytes.
local function exceeded(owner, entries, bytes, bounds)
	local function passes(account, entriesBound, bytesBound)
		local has = redis.call('HMGET', KEYS[2], account .. ':e', account .. ':b')
		return (has[1] or 0) + entries > tonumber(entriesBound) or
			(has[2] or 0) + bytes > tonumber(bytesBound)
	end
	if passes(owner, bounds[1], bounds[3]) then
		return 'principal'
	end
	return passes('*', bounds[2], bounds[4]) and 'server'
end

local function forgetAt(keep, last)
	return string.format('%.0f', math.max(now + keep, tonumber(last)) + 600000)
end

local function isHeld(holder)
	local has = redis.call('HMGET', KEYS[1], 'kind', 'holder')
	return has[1] == '1' and has[2] == holder
end
`

// ARGV of claimScript: key, owner, print, holder, how long to keep the claim and until when, how
// long a state can last, four bounds.
var claimScript = redis.NewScript(prelude + `
local key, owner, print, holder = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local birth = redis.call('GET', KEYS[4])
if not birth then
	redis.call('SET', KEYS[4], string.format('%.0f', now))
	return {'lost'}
end
local has = redis.call('HMGET', KEYS[1], 'kind', 'print', 'holder', 'lease', 'outcome')
local lease = string.format('%.0f', now + 120000)
if has[1] == '4' and has[2] == print then
	redis.call('HSET', KEYS[1], 'kind', '1', 'holder', holder, 'lease', lease)
	return {'claimed'}
end
if has[1] then
	local running = now < tonumber(has[4] or 0) and '1' or '0'
	return {'found', has[1], has[2] or '', has[3] or '', running, has[5] or ''}
end
if now + ARGV[5] < birth + ARGV[7] then
	return {'young'}
end
sweep()
local bound = exceeded(owner, 1, 0, {ARGV[8], ARGV[9], ARGV[10], ARGV[11]})
if bound then
	return {'full', bound}
end
local last = forgetAt(ARGV[5], ARGV[6])
redis.call('HSET', KEYS[1], 'kind', '1', 'print', print, 'holder', holder, 'lease', lease)
redis.call('PEXPIREAT', KEYS[1], last)
redis.call('ZADD', KEYS[3], last, key .. ' ' .. owner .. ' 0')
add(owner, 1, 0)
return {'claimed'}
`)

var birthScript = redis.NewScript(prelude + `
redis.call('SET', KEYS[4], string.format('%.0f', now), 'NX')
return 1
`)

var renewScript = redis.NewScript(prelude + `
if not isHeld(ARGV[1]) then
	return 0
end
redis.call('HSET', KEYS[1], 'lease', string.format('%.0f', now + 120000))
return 1
`)

var releaseScript = redis.NewScript(prelude + `
if isHeld(ARGV[1]) then
	redis.call('HSET', KEYS[1], 'kind', '4')
end
return 1
`)

// ARGV of commitScript: holder, key, owner, outcome or nothing, four bounds.
var commitScript = redis.NewScript(prelude + `
local holder, key, owner, outcome = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if not isHeld(holder) then
	local has = redis.call('HMGET', KEYS[1], 'kind', 'holder')
	return (has[2] == holder and (has[1] == '2' or has[1] == '3')) and 1 or 0
end
if outcome == '' or exceeded(owner, 0, #outcome, {ARGV[5], ARGV[6], ARGV[7], ARGV[8]}) then
	redis.call('HSET', KEYS[1], 'kind', '3')
	return 1
end
redis.call('HSET', KEYS[1], 'kind', '2', 'outcome', outcome)
local member = key .. ' ' .. owner .. ' '
local last = redis.call('ZSCORE', KEYS[3], member .. '0')
if last then
	redis.call('ZREM', KEYS[3], member .. '0')
	redis.call('ZADD', KEYS[3], last, member .. #outcome)
	add(owner, 0, #outcome)
end
return 1
`)

// ARGV of putScript: key, owner, state, how long to keep it and until when, four bounds.
var putScript = redis.NewScript(prelude + `
local key, owner, state = ARGV[1], ARGV[2], ARGV[3]
local has = redis.call('GET', KEYS[1])
if has then -- the client sends a script again whose reply was lost
	return {has == state and 'put' or 'taken'}
end
sweep()
local bound = exceeded(owner, 1, #state, {ARGV[6], ARGV[7], ARGV[8], ARGV[9]})
if bound then
	return {'full', bound}
end
local last = forgetAt(ARGV[4], ARGV[5])
redis.call('SET', KEYS[1], state, 'PXAT', last)
redis.call('ZADD', KEYS[3], last, key .. ' ' .. owner .. ' ' .. #state)
add(owner, 1, #state)
return {'put'}
`)
