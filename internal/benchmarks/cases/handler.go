// Package cases says what is measured: one file for each group of rows.
package cases

import (
	"fmt"

	"github.com/rondo-mcp/rondo/internal/benchmarks/drive"
	"github.com/rondo-mcp/rondo/internal/benchmarks/measure"
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers"
	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

// The groups of rows.
const (
	HandlerGroup  = "handler"
	GrowthGroup   = "growth"
	ClientGroup   = "client"
	LegacyGroup   = "legacy"
	SessionsGroup = "sessions"
	WaitingGroup  = "waiting"
	LoadGroup     = "load"
	StartGroup    = "start"
	RouterGroup   = "router"
	RetrofitGroup = "retrofit"
)

// The rows of which the budget holds the allocations.
const (
	EchoRow = "echo"
	Leg1Row = "leg 1"
	Leg2Row = "leg 2"
	FlowRow = "flow"

	ObservedEchoRow = "echo, log and metrics"
	ObservedFlowRow = "flow, log and metrics"

	ProductionEchoRow = "echo, production"
	ProductionFlowRow = "flow, production"
)

// Handler is what servers do for a plain call, for each leg of a flow of two,
// and for the flow, without a socket.
func Handler() []measure.Op {
	return concat(
		each(HandlerGroup, EchoRow, plain(wire.EchoCall)),
		each(HandlerGroup, Leg1Row, asking(wire.DeployCall)),
		each(HandlerGroup, Leg2Row, answering(wire.DeployCall, deployAnswer(0))),
		each(HandlerGroup, FlowRow, flow(wire.DeployCall, deployAnswer(0))),
		eachOf(peers.Observed(), HandlerGroup, ObservedEchoRow, plain(wire.EchoCall)),
		eachOf(peers.Observed(), HandlerGroup, ObservedFlowRow,
			flow(wire.DeployCall, deployAnswer(0))),
		eachOf(peers.Production(), HandlerGroup, ProductionEchoRow, plain(wire.EchoCall)),
		eachOf(peers.Production(), HandlerGroup, ProductionFlowRow,
			flow(wire.DeployCall, deployAnswer(0))),
	)
}

// Growth is what servers do for large messages: arguments that are one string
// or many objects, an answer with a long string, and many questions.
func Growth() []measure.Op {
	var ops []measure.Op
	for _, size := range []struct {
		name  string
		bytes int
	}{{"64 KiB", 64 << 10}, {"1 MiB", 1 << 20}} {
		ops = append(ops, concat(
			each(GrowthGroup, size.name+" string",
				plain(func() wire.Call { return wire.SinkText(size.bytes) })),
			each(GrowthGroup, size.name+" objects",
				plain(func() wire.Call { return wire.SinkObjects(size.bytes) })),
			each(GrowthGroup, size.name+" answer",
				answering(wire.DeployCall, deployAnswer(size.bytes))),
		)...)
	}
	for _, n := range []int{10, 100} {
		first := func() wire.Call { return wire.SurveyCall(n) }
		ops = append(ops, concat(
			each(GrowthGroup, fmt.Sprintf("%d questions", n), asking(first)),
			each(GrowthGroup, fmt.Sprintf("%d answers", n),
				answering(first, func() wire.Call { return wire.SurveyAnswer(n) })),
		)...)
	}
	return ops
}

func deployAnswer(note int) func() wire.Call {
	return func() wire.Call { return wire.DeployAnswer(note) }
}

func concat(lists ...[]measure.Op) (all []measure.Op) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// A workload makes of a server something to repeat. It makes its messages only
// then: large ones, kept for later, would make the garbage collector of all
// that is measured meanwhile look cheap.
type workload func(*drive.Handler) (do func() error, err error)

// each is a workload for every server.
func each(group, row string, work workload) []measure.Op {
	return eachOf(peers.Servers(), group, row, work)
}

func eachOf(servers []peers.Server, group, row string, work workload) (ops []measure.Op) {
	for _, s := range servers {
		ops = append(ops, measure.Op{Group: group, Row: row, Peer: s.Name,
			Start: func() (func() error, func(), error) {
				do, err := work(drive.NewHandler(s.New()))
				return do, func() {}, err
			}})
	}
	return ops
}

// expect sends a call and tells an answer of the right kind from others.
func expect(d *drive.Handler, c wire.Call, state []byte, right func([]byte) bool) ([]byte, error) {
	status, response := d.Do(c, state)
	if status != 200 || !right(response) {
		return nil, fmt.Errorf("%s: status %d: %.300s", c.Tool, status, response)
	}
	return response, nil
}

func plain(message func() wire.Call) workload {
	return func(d *drive.Handler) (func() error, error) {
		c := message()
		return func() error {
			_, err := expect(d, c, nil, wire.Complete)
			return err
		}, nil
	}
}

func asking(message func() wire.Call) workload {
	return func(d *drive.Handler) (func() error, error) {
		c := message()
		return func() error {
			_, err := expect(d, c, nil, wire.Asks)
			return err
		}, nil
	}
}

// answering repeats the second leg with the state of one first.
func answering(first, second func() wire.Call) workload {
	return func(d *drive.Handler) (func() error, error) {
		response, err := expect(d, first(), nil, wire.Asks)
		if err != nil {
			return nil, err
		}
		c, state := second(), append([]byte(nil), wire.State(response)...)
		return func() error {
			_, err := expect(d, c, state, wire.Complete)
			return err
		}, nil
	}
}

func flow(first, second func() wire.Call) workload {
	return func(d *drive.Handler) (func() error, error) {
		one, two := first(), second()
		var state []byte
		return func() error {
			response, err := expect(d, one, nil, wire.Asks)
			if err != nil {
				return err
			}
			state = append(state[:0], wire.State(response)...)
			_, err = expect(d, two, state, wire.Complete)
			return err
		}, nil
	}
}
