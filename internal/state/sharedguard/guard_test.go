package sharedguard_test

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/state/sharedguard"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var errLostReply, errRefused = errors.New("connection reset"), errors.New("read-only")

// An outage is a backend with one claim. While fails is set it loses replies, or refuses.
type outage struct {
	fails  error
	ends   int // last failing attempt, or 0
	stored *sharedguard.Found
	asked  int
}

func (o *outage) Claim(_ context.Context, c *sharedguard.Claim) (*sharedguard.Found, error) {
	if o.asked++; o.asked == o.ends {
		o.fails = nil
	}
	if errors.Is(o.fails, errRefused) {
		return nil, o.fails
	}
	found := o.stored
	if found == nil {
		o.stored = &sharedguard.Found{Kind: sharedguard.Claimed, Print: c.Print[:],
			Holder: c.Holder[:], Running: true}
	}
	return found, o.fails
}

func (o *outage) Renew(_ context.Context, c *sharedguard.Claim) (bool, error) {
	return string(o.stored.Holder) == string(c.Holder[:]), o.fails
}

func (o *outage) Commit(context.Context, *sharedguard.Claim, []byte) (bool, error) {
	return true, o.fails
}

func (o *outage) Release(context.Context, *sharedguard.Claim) error { return o.fails }

func (o *outage) IsFinal(err error) bool { return errors.Is(err, errRefused) }

func claim(t *testing.T, g *sharedguard.Guard, print [32]byte) error {
	_, err := g.Claim(t.Context(), "id", "", print, time.Now().Add(time.Hour))
	return err
}

func isSpent(err error) bool {
	_, spent := errors.AsType[*store.SpentError](err)
	return spent
}

// A retry with the same answers at the same guard gets the unacknowledged claim, once.
func TestLostAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &outage{fails: errLostReply}
		first := sharedguard.New("test", store)
		other := sharedguard.New("test", store)
		began := time.Now()
		if err := claim(t, first, [32]byte{1}); !errors.Is(err, errLostReply) || isSpent(err) {
			t.Errorf("without an answer: %v", err)
		}
		if took := time.Since(began); took < 5*time.Second || store.asked < 50 {
			t.Errorf("it gave up after %v and %d attempts", took, store.asked)
		}
		store.fails = nil
		if err := claim(t, other, [32]byte{1}); !isSpent(err) {
			t.Errorf("another guard takes the claim: %v", err)
		}
		if err := claim(t, first, [32]byte{2}); !isSpent(err) {
			t.Errorf("other answers take the claim: %v", err)
		}
		if err := claim(t, first, [32]byte{1}); err != nil {
			t.Errorf("the guard does not know its own claim: %v", err)
		}
		if err := claim(t, first, [32]byte{1}); !isSpent(err) {
			t.Errorf("the claim is held twice: %v", err)
		}
	})
}

// A store that is down is retried for one second, not five.
func TestRefusedConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		began := time.Now()
		err := claim(t, sharedguard.New("test", &outage{fails: down}), [32]byte{1})
		took := time.Since(began)
		if err == nil || took < time.Second || took > 1100*time.Millisecond {
			t.Errorf("got %v after %v, want an error after a second", err, took)
		}
	})
}

// An attempt finds its predecessor's claim.
func TestReplyLostOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &outage{fails: errLostReply, ends: 20}
		guard := sharedguard.New("test", store)
		if err := claim(t, guard, [32]byte{1}); err != nil {
			t.Error(err)
		}
	})
}

// A final refusal is not retried, and stores nothing.
func TestFinalRefusal(t *testing.T) {
	store := &outage{fails: errRefused}
	guard := sharedguard.New("test", store)
	if err := claim(t, guard, [32]byte{1}); !errors.Is(err, errRefused) || store.asked != 1 {
		t.Errorf("got %v after %d attempts, want one", err, store.asked)
	}
	store.fails = nil
	if err := claim(t, guard, [32]byte{1}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// Authenticated owners have a quarter each; anonymous callers leave them one quarter.
func TestShares(t *testing.T) {
	s := sharedguard.NewShares(sharedguard.Room{Entries: 40, Bytes: 400})
	local := sharedguard.OwnerOf(quota.OwnerDigest(protocol.LocalPrincipal()))
	for _, step := range []struct {
		owner string
		want  int64
		limit string
	}{{"", 40, "server"}, {local, 40, "server"}, {"", 40, "server"}, {"ann", 10, "principal"},
		{"", 30, "principal"}, {local, 40, "server"}} {
		share, all := s.Of(step.owner)
		if share != (sharedguard.Room{Entries: step.want, Bytes: 10 * step.want}) ||
			all != (sharedguard.Room{Entries: 40, Bytes: 400}) {
			t.Errorf("%q has %+v of %+v, want %d entries", step.owner, share, all, step.want)
		}
		full, ok := errors.AsType[*store.QuotaError](s.Refuse("guard", step.owner, quota.Share))
		if !ok || full.Limit != step.limit || full.Resource != "guard" {
			t.Errorf("%q is refused with %+v, want %s", step.owner, full, step.limit)
		}
	}
}
