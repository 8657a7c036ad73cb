package hosted

import (
	"context"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// TODO(replaced by internal/relay)
type state struct {
	Keys  []string `json:"keys"`
	Text  string   `json:"text"`
	Given bool     `json:"given"`
}

func askAgain(asks *protocol.InputRequiredResult) protocol.Result {
	var st state
	st.Text, st.Given = asks.RequestState.Text()
	for _, q := range asks.InputRequests {
		st.Keys = append(st.Keys, q.Key)
	}
	result := roundtrip.InputRequired(roundtrip.WithState(st))
	result.InputRequests = asks.InputRequests
	return result
}

func retryOf(ctx context.Context) protocol.Retry { return protocol.Retry{} }
