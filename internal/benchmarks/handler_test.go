package benchmarks_test

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/rondo-mcp/rondo/internal/benchmarks/peers/rondo"
	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

const (
	leg1Row       = "leg 1"
	flowRow       = "flow"
	cachedEchoRow = "echo, cached token"
)

// handlerOps returns a plain call, each leg of a flow of two, and the flow. There is no socket.
func handlerOps() []op {
	observed := withReferences(rondo.NewObserved)
	production := []peer{{ours, true, rondo.NewProduction}}
	return slices.Concat(
		runOnEach(servers(), "handler", "echo", echo),
		runOnEach(servers(), "handler", leg1Row, leg1),
		runOnEach(servers(), "handler", "leg 2", leg2),
		runOnEach(servers(), "handler", flowRow, flow),
		runOnEach(observed, "handler", "echo, log and metrics", echo),
		runOnEach(observed, "handler", "flow, log and metrics", flow),
		runOnEach(production, "handler", "echo, production", echo),
		runOnEach(production, "handler", "flow, production", flow),
	)
}

// expect sends a call and checks the answer with the function right.
func expect(d *wire.Handler, c wire.Call, state []byte, right func([]byte) bool) ([]byte, error) {
	status, response := d.Do(c, state)
	if status != 200 || !right(response) {
		return nil, fmt.Errorf("%s: status %d: %.300s", c.Tool, status, response)
	}
	return response, nil
}

func echo(d *wire.Handler) (func() error, error) {
	return repeatCall(d, wire.EchoCall(), nil, wire.Complete), nil
}

func leg1(d *wire.Handler) (func() error, error) {
	return repeatCall(d, wire.DeployCall(), nil, wire.Asks), nil
}

func repeatCall(d *wire.Handler, c wire.Call, state []byte,
	right func([]byte) bool) func() error {
	return func() error {
		_, err := expect(d, c, state, right)
		return err
	}
}

// leg2 repeats the second leg with the state of a single first leg.
func leg2(d *wire.Handler) (func() error, error) {
	response, err := expect(d, wire.DeployCall(), nil, wire.Asks)
	if err != nil {
		return nil, err
	}
	return repeatCall(d, wire.DeployAnswer(), bytes.Clone(wire.State(response)),
		wire.Complete), nil
}

func flow(d *wire.Handler) (func() error, error) {
	one, two := wire.DeployCall(), wire.DeployAnswer()
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
