// Package taskchaos tests tasks under failures: replicas in processes of their own run them over
// one store, a client polls them and answers their questions, and meanwhile processes and the
// store are killed. All tasks must complete, and nothing happens twice.
package taskchaos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/guardchaos"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
	"github.com/rondo-mcp/rondo/server/tasks"
)

// These make the test binary a replica: the address of the store, the folder of what handlers
// leave, and the socket to listen on.
const (
	storeVar  = "RONDO_TASK_STORE"
	dirVar    = "RONDO_TASK_DIR"
	socketVar = "RONDO_TASK_SOCKET"
)

// An Opener opens the store at an address.
type Opener = func(ctx context.Context, address string) (store.TaskStore, error)

// ServeReplica is [guardchaos.ServeReplica] for tasks.
func ServeReplica(open Opener) bool {
	return guardchaos.Serve(storeVar, func(ctx context.Context, address string) (http.Handler,
		error) {
		kept, err := open(ctx, address)
		if err != nil {
			return nil, err
		}
		return newReplica(kept)
	}, func() (net.Listener, error) {
		socket := os.Getenv(socketVar)
		_ = os.Remove(socket) // of the replica that was killed
		return net.Listen("unix", socket)
	})
}

// newReplica serves the tool.
func newReplica(kept store.TaskStore) (http.Handler, error) {
	ring, err := guardchaos.NewKeyring()
	if err != nil {
		return nil, err
	}
	srv, err := server.New(&server.Options{
		Info:      protocol.Implementation{Name: "worker", Version: "1.0.0"},
		Roundtrip: roundtrip.Options{Sealer: ring, RequireSharedKey: true, MinHumanTime: -1},
	})
	if err != nil {
		return nil, err
	}
	server.AddTool(srv, server.Tool{Name: "work", Description: "Works.", Task: server.TaskMust},
		work)
	if _, err = tasks.New(srv, &tasks.Options{Store: kept, Keys: ring, TasksPerPrincipal: 1000,
		Lease: 2 * time.Second, Sweep: 500 * time.Millisecond}); err != nil {
		_ = srv.Close()
		return nil, err
	}
	return serverhttp.New(srv, nil)
}

// An order says what a task does.
type order struct {
	N         int `json:"n"` // which task it is
	Questions int `json:"questions"`
}

type reply struct {
	Text string `json:"text"`
}

// work asks in the foreground, begins a task, has an effect, and asks again and again. It may be
// killed between any two steps.
func work(ctx context.Context, _ *server.ToolCall, in order) (protocol.CallToolOutcome, error) {
	first, err := roundtrip.Ask[reply](ctx, "first", "First?")
	if err != nil {
		return nil, err
	}
	if err := roundtrip.BeginTask(ctx); err != nil {
		return nil, err
	}
	key, err := roundtrip.IdempotencyKey(ctx, "effect")
	if err != nil {
		return nil, err
	}
	if err := effect(in.N, key); err != nil {
		return nil, err
	}
	text := first.Text
	for i := range in.Questions {
		fresh := false
		memo, err := roundtrip.Memo(ctx, fmt.Sprint("m", i), func(context.Context) (int, error) {
			fresh = true
			return rand.Int(), nil
		})
		if err != nil {
			return nil, err
		}
		if err := note("memo", fmt.Sprintf("%d.%d", in.N, i), fmt.Sprint(memo)); err != nil {
			return nil, err
		}
		if fresh { // no run takes so long that few come to their end
			takeTime()
		}
		answer, err := roundtrip.Ask[reply](ctx, fmt.Sprint("q", i), "Next?")
		if err != nil {
			return nil, err
		}
		text += " " + answer.Text
	}
	takeTime()
	roundtrip.OnCommit(ctx, func(context.Context) {
		_ = note("commit", fmt.Sprint(in.N), "-")
		takeTime() // the task is not over yet
	})
	return server.Text(text), nil
}

// takeTime is a good part of the life of a replica.
func takeTime() { time.Sleep(rand.N(800 * time.Millisecond)) }

// effect has an effect that happens once for a key, as with a unique column: a file is made where
// there is none of its name.
func effect(n int, key string) error {
	name := filepath.Join(os.Getenv(dirVar), fmt.Sprintf("effect.%d.%s", n, key))
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return file.Close()
}

const notesFile = "notes"

// note appends a line in one write, which outlives the process.
func note(what, which, value string) error {
	file, err := os.OpenFile(filepath.Join(os.Getenv(dirVar), notesFile),
		os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = fmt.Fprintln(file, what, which, value)
	return err
}
