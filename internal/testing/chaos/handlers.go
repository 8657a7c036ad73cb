package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
	"github.com/rondo-mcp/rondo/server/tasks"
)

// A replica serves either a till, which charges, or a worker.
const (
	charges = "charges"
	work    = "work"
)

type order struct {
	Flow string `json:"flow"`
}

type consent struct {
	Reason string `json:"reason"`
}

func newTill(guard store.Guard) (http.Handler, error) {
	srv, err := server.New(&server.Options{
		Info:      servertest.Info(),
		Roundtrip: roundtrip.Options{Sealer: newKeyring(), Guard: guard},
	})
	if err != nil {
		return nil, err
	}
	server.AddTool(srv, server.Tool{Name: "charge", Description: "Charges once."}, func(
		ctx context.Context, _ *server.ToolCall, in order,
	) (protocol.CallToolOutcome, error) {
		if _, ok := roundtrip.AcceptedContent[consent](ctx, "consent"); !ok {
			return roundtrip.InputRequired(roundtrip.Elicit[consent]("consent", "Charge?")), nil
		}
		if err := note("charge", in.Flow, "-"); err != nil {
			return nil, err
		}
		time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond) // a place to be killed
		return server.Text("charged"), nil
	})
	return serverhttp.New(srv, nil)
}

func newWorker(kept store.TaskStore) (http.Handler, error) {
	ring := newKeyring()
	srv, err := server.New(&server.Options{
		Info:      servertest.Info(),
		Roundtrip: roundtrip.Options{Sealer: ring, MinHumanTime: -1},
	})
	if err != nil {
		return nil, err
	}
	server.AddTool(srv, server.Tool{Name: "work", Description: "Works.", Task: server.TaskMust},
		doWork)
	server.AddTool(srv, server.Tool{Name: "die", Description: "Dies.", Task: server.TaskMust}, die)
	if _, err = tasks.New(srv, &tasks.Options{Store: kept, Keys: ring, TasksPerPrincipal: 1000,
		Lease: 2 * time.Second, Sweep: 500 * time.Millisecond}); err != nil {
		_ = srv.Close()
		return nil, err
	}
	return serverhttp.New(srv, nil)
}

type job struct {
	N         int `json:"n"` // number of the task
	Questions int `json:"questions"`
}

type reply struct {
	Text string `json:"text" minLength:"1"`
}

// doWork asks, begins a task, has an effect, and asks again. It may be killed anywhere.
func doWork(ctx context.Context, _ *server.ToolCall, in job) (protocol.CallToolOutcome, error) {
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
	if err := note("effect", fmt.Sprint(in.N), key); err != nil {
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
		if fresh { // a pause in every run would make runs too long to finish
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
		takeTime() // the task must not end yet
	})
	return server.Text(text), nil
}

type death struct {
	Talks bool `json:"talks"`
}

func die(ctx context.Context, _ *server.ToolCall, in death) (protocol.CallToolOutcome, error) {
	if err := roundtrip.BeginTask(ctx); err != nil {
		return nil, err
	}
	time.Sleep(time.Second / 2) // until the client has the handle
	if in.Talks {
		tasks.StatusMessage(ctx, "nearly there")
	}
	if err := note("death", "-", "-"); err != nil {
		return nil, err
	}
	os.Exit(1)
	return nil, nil
}

// takeTime takes a good part of a replica's life.
func takeTime() { time.Sleep(rand.N(800 * time.Millisecond)) }
