package roundtrip_test

import (
	"context"
	"fmt"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// An answer is another request in revision 2026-07-28. Rate limits, quotas and audits that counted
// it would count a call twice. Middleware between the funnel and the handler checks the round.
func ExampleRoundOf() {
	allowed, started := 1, 0
	withLimit := func(next roundtrip.Handler) roundtrip.Handler {
		return func(ctx context.Context) (protocol.Result, error) {
			round := roundtrip.RoundOf(ctx)
			if round.Number == 1 { // answers to an admitted call are free
				if allowed == 0 {
					return nil, protocol.Errorf(-1, "too many calls")
				}
				allowed--
				started++
			}
			return next(ctx)
		}
	}
	withAudit := func(next roundtrip.Handler) roundtrip.Handler {
		flows := map[string]int{} // one entry per flow, not per round
		return func(ctx context.Context) (protocol.Result, error) {
			round := roundtrip.RoundOf(ctx)
			flows[round.Flow()]++
			result, err := next(ctx)
			fmt.Printf("round %d, %d call(s) started, %d flow(s) audited\n", round.Number,
				started, len(flows))
			return result, err
		}
	}
	deploy := func(ctx context.Context) (protocol.Result, error) {
		if _, err := roundtrip.Ask[Confirmation](ctx, "confirm", "Deploy?"); err != nil {
			return nil, err
		}
		return say("deployed")
	}

	funnel, err := roundtrip.NewFunnel(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := withLimit(withAudit(deploy))
	call := toolCall()
	result, _ := funnel.Do(context.Background(), call, handler)
	call.State = result.(*protocol.InputRequiredResult).RequestState
	call.Responses = protocol.InputResponses{{Key: "confirm", Result: []byte(accepted)}}
	result, _ = funnel.Do(context.Background(), call, handler)
	fmt.Println(show(result))
	_, err = funnel.Do(context.Background(), toolCall(), handler)
	fmt.Println(err)
	// Output:
	// round 1, 1 call(s) started, 1 flow(s) audited
	// round 2, 1 call(s) started, 1 flow(s) audited
	// deployed
	// too many calls (code -1)
}
