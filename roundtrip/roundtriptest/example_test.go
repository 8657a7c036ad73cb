package roundtriptest_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/roundtriptest"
)

// A flow is played in both eras, and then attacked.
func Example() {
	var t *testing.T // of the test function that this stands in

	effects := &roundtriptest.Effects{}
	srv := newServer(t, effects, roundtrip.Options{})
	subject := roundtriptest.Subject{Connect: overLines(srv), Effects: effects}
	deploy := roundtriptest.Flow{
		Name:    "accept",
		Request: roundtriptest.Tool("deploy", Deploy{"prod"}),
		Answers: roundtriptest.Answers{"confirm": roundtriptest.Accept(Confirmation{"tested"})},
		Want:    "deployed to prod: tested",
		Golden:  "testdata/accept.golden",
	}
	roundtriptest.Run(t, subject, deploy)
	roundtriptest.Attack(t, subject, deploy)
}
