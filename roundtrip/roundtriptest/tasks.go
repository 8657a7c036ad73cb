package roundtriptest

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/humantime"
	"github.com/rondo-mcp/rondo/internal/testing/attack"
	"github.com/rondo-mcp/rondo/internal/wire/callctx"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/tasks"
)

// Tasks have [Run] play flows as tasks, too, in processes that are killed. Each server of the
// subject is a process of its own; what they share is the store of the tasks. The zero value is
// ready.
//
//	kept := &roundtriptest.Tasks{}
//	subject := roundtriptest.Server(func() (*server.Server, error) {
//		srv, err := newServer()
//		if err == nil {
//			err = kept.AddTo(srv, nil) // where main calls tasks.New
//		}
//		return srv, err
//	})
//	subject.Tasks = kept
type Tasks struct {
	kept attack.Tasks
	keys sync.Once
	ring *keys.Keyring
	said reasons
}

// AddTo adds tasks to a server that is one process of a subject. opts may be nil; its Store, Keys,
// Sweep and Inline are not used.
func (k *Tasks) AddTo(srv *server.Server, opts *tasks.Options) error {
	k.keys.Do(func() { k.ring = newKeyring() })
	var o tasks.Options
	if opts != nil {
		o = *opts
	}
	kept, setStop := k.kept.AddProcess()
	prepare := o.Prepare
	o.Store, o.Keys, o.Sweep, o.Inline = kept, k.ring, 100*time.Millisecond, 0
	o.Prepare = func(ctx context.Context, info tasks.RunInfo) (
		context.Context, *server.Access, error) {
		ctx = humantime.WithoutWire(callctx.With(ctx, k.said.addError))
		if prepare == nil {
			return ctx, nil, nil
		}
		return prepare(ctx, info)
	}
	added, err := tasks.New(srv, &o)
	if err != nil {
		return err
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	setStop(func() { _ = added.Shutdown(ended) }) // at once: it is to be killed
	return nil
}

func newKeyring() *keys.Keyring {
	secret := make([]byte, 32)
	rand.Read(secret)
	key, _ := keys.NewKey("test", secret) // good, and so is the ring
	ring, _ := keys.NewKeyring(key)
	return ring
}
