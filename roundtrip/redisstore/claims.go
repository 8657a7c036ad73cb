package redisstore

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/state/sharedguard"
)

type claims Store

var (
	errLost = errors.New("no marker: Redis has lost its claims, or is new; older states " +
		"are refused until they expire")
	errYoung = errors.New("the state may be older than Redis's data: Redis was recently empty")
	errReply = errors.New("unexpected reply of a script")
)

// Claim implements [sharedguard.Backend].
func (b *claims) Claim(
	ctx context.Context, c *sharedguard.Claim,
) (*sharedguard.Found, error) {
	s := (*Store)(b)
	args := append([]any{c.Key, c.Owner, c.Print[:], c.Holder[:], c.Keep.Milliseconds(),
		c.Until.UnixMilli(), s.longest.Milliseconds()}, s.bounds(c.Owner)...)
	reply, err := claimScript.Run(ctx, s.client, s.keys(kindGuard, c.Key), args...).StringSlice()
	if err != nil {
		return nil, err
	}
	switch {
	case len(reply) == 1 && reply[0] == "claimed":
		return nil, nil
	case len(reply) == 1 && reply[0] == "lost":
		return nil, errLost
	case len(reply) == 1 && reply[0] == "young":
		return nil, errYoung
	case len(reply) == 2 && reply[0] == "full":
		return nil, s.shares.Refuse(kindGuard, c.Owner, quota.Limit(reply[1]))
	case len(reply) != 6 || reply[0] != "found":
		return nil, errReply
	}
	kind, err := strconv.Atoi(reply[1])
	if err != nil || len(reply[2]) != len(c.Print) || len(reply[3]) != len(c.Holder) {
		return nil, errReply
	}
	return &sharedguard.Found{Kind: kind, Print: []byte(reply[2]), Holder: []byte(reply[3]),
		Running: reply[4] == "1", Sealed: []byte(reply[5])}, nil
}

// Renew implements [sharedguard.Backend].
func (b *claims) Renew(ctx context.Context, c *sharedguard.Claim) (held bool, err error) {
	return b.run(ctx, renewScript, c, c.Holder[:])
}

// Commit implements [sharedguard.Backend].
func (b *claims) Commit(
	ctx context.Context, c *sharedguard.Claim, sealed []byte,
) (held bool, err error) {
	s := (*Store)(b)
	return b.run(ctx, commitScript, c,
		append([]any{c.Holder[:], c.Key, c.Owner, sealed}, s.bounds(c.Owner)...)...)
}

// Release implements [sharedguard.Backend].
func (b *claims) Release(ctx context.Context, c *sharedguard.Claim) error {
	_, err := b.run(ctx, releaseScript, c, c.Holder[:])
	return err
}

func (b *claims) run(
	ctx context.Context, script *redis.Script, c *sharedguard.Claim, args ...any,
) (bool, error) {
	n, err := script.Run(ctx, b.client, (*Store)(b).keys(kindGuard, c.Key), args...).Int()
	return n == 1, err
}

// IsFinal implements [sharedguard.Backend]: errors of loading, replicas or quorum may pass.
func (b *claims) IsFinal(err error) bool {
	if errors.Is(err, errLost) || errors.Is(err, errYoung) || errors.Is(err, errReply) {
		return true
	}
	answered, ok := errors.AsType[redis.Error](err)
	if !ok {
		return false
	}
	code, _, _ := strings.Cut(answered.Error(), " ")
	switch code {
	case "LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "BUSY":
		return false
	}
	return true
}
