package benchmarks_test

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/rondo-mcp/rondo/internal/benchmarks/peers/rondo"
	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

// The rows of which the budget holds the allocations.
const (
	echoRow = "echo"
	leg1Row = "leg 1"
	leg2Row = "leg 2"
	flowRow = "flow"

	observedEchoRow = "echo, log and metrics"
	observedFlowRow = "flow, log and metrics"

	productionEchoRow = "echo, production"
	productionFlowRow = "flow, production"
)

// handlerOps are what servers do for a plain call, for each leg of a flow of two,
// and for the flow, without a socket.
func handlerOps() []op {
	observed, production := withReferences(rondo.NewObserved), withReferences(rondo.NewProduction)
	echo, flow := onHandler(echo), onHandler(flow)
	return slices.Concat(
		runOnEach(servers(), "handler", echoRow, echo),
		runOnEach(servers(), "handler", leg1Row, onHandler(leg1)),
		runOnEach(servers(), "handler", leg2Row, onHandler(leg2)),
		runOnEach(servers(), "handler", flowRow, flow),
		runOnEach(observed, "handler", observedEchoRow, echo),
		runOnEach(observed, "handler", observedFlowRow, flow),
		runOnEach(production, "handler", productionEchoRow, echo),
		runOnEach(production, "handler", productionFlowRow, flow),
	)
}

// expect sends a call and tells an answer of the right kind from others.
func expect(d *wire.Handler, c wire.Call, state []byte, right func([]byte) bool) ([]byte, error) {
	status, response := d.Do(c, state)
	if status != 200 || !right(response) {
		return nil, fmt.Errorf("%s: status %d: %.300s", c.Tool, status, response)
	}
	return response, nil
}

func echo(d *wire.Handler) (func() error, error) {
	return repeatCall(d, wire.EchoCall(), wire.Complete)
}

func leg1(d *wire.Handler) (func() error, error) {
	return repeatCall(d, wire.DeployCall(),
		wire.Asks)
}

func repeatCall(d *wire.Handler, c wire.Call, right func([]byte) bool) (func() error, error) {
	return func() error {
		_, err := expect(d, c, nil, right)
		return err
	}, nil
}

// leg2 repeats the second leg with the state of one first.
func leg2(d *wire.Handler) (func() error, error) {
	response, err := expect(d, wire.DeployCall(), nil, wire.Asks)
	if err != nil {
		return nil, err
	}
	c, state := wire.DeployAnswer(), bytes.Clone(wire.State(response))
	return func() error {
		_, err := expect(d, c, state, wire.Complete)
		return err
	}, nil
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
